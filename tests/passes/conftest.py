"""Fixtures of the tests of passes and of `loopir-opt`."""

import io
import sys

import pytest

from passes import opt
from tests.support.opt_tool import Result
from tests.support.texts import GEMM


@pytest.fixture
def tool(capsys, monkeypatch):
    def run(*argv: str, stdin: str | bytes = GEMM) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = opt.main(list(argv))
        return Result(code, *capsys.readouterr())

    return run
