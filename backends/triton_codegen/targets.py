"""The targets that `compile` knows: where a kernel runs, or for which device it is compiled ahead
of time."""

import difflib
from dataclasses import dataclass
from enum import Enum

from loopir.errors import CodegenError


class Mode(Enum):
    """How a target compiles: Triton's interpreter, at the first launch, or ahead of time."""

    INTERPRET = "interpret"
    JIT = "jit"
    AHEAD = "ahead of time"


@dataclass(frozen=True)
class Target:
    """A target by its text. Ahead-of-time ones have Triton's `backend` and `arch`, the threads of a
    warp, and the shared memory that one block can have, in bytes."""

    text: str
    mode: Mode
    backend: str = ""
    arch: int | str = ""
    warp_size: int = 32
    shared_bytes: int = 0

    @property
    def has_descriptors(self) -> bool:
        """Whether kernels for it copy boxes of tensors (TMA), of those compiled ahead of time."""
        return self.backend == "cuda" and isinstance(self.arch, int) and self.arch >= 90


def _ahead(backend: str, arch: int | str, warp_size: int, shared_bytes: int) -> Target:
    return Target(f"{backend}:{arch}", Mode.AHEAD, backend, arch, warp_size, shared_bytes)


INTERPRET = Target("interpret", Mode.INTERPRET)
JIT = Target("jit", Mode.JIT)

TARGETS = {
    t.text: t
    for t in (
        INTERPRET,
        JIT,
        _ahead("cuda", 80, 32, 166_912),
        _ahead("cuda", 86, 32, 101_376),
        _ahead("cuda", 89, 32, 101_376),
        _ahead("cuda", 90, 32, 232_448),
        _ahead("cuda", 100, 32, 232_448),
        _ahead("cuda", 120, 32, 101_376),
        _ahead("hip", "gfx942", 64, 65_536),
        _ahead("hip", "gfx950", 64, 163_840),
    )
}


def parse_target(text: str) -> Target:
    """The target of that text. CodegenError: unknown; the nearest name is suggested."""
    if text in TARGETS:
        return TARGETS[text]
    near = difflib.get_close_matches(text, TARGETS, n=1, cutoff=0.4)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise CodegenError(f"unknown target '{text}'{hint} (known: {', '.join(TARGETS)})")
