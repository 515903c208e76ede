"""What `loopir-opt` leaves behind; the fixture `tool` of tests/passes runs it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str
