"""docs/launching.md: its program is canonical, its Python runs, its figures are the code's."""

import inspect
import re

import pytest

from backends.triton_codegen import AotKernel, compile
from loopir.parser import parse
from loopir.printer import to_text
from tests.support.documents import fenced, page

PAGE = page("launching.md")
(PROGRAM,) = fenced(PAGE, "lir")


def test_program_is_canonical_text():
    assert to_text(parse(PROGRAM)) == PROGRAM


def test_the_python_runs_and_says_what_does_not_fit(capsys: pytest.CaptureFixture[str]):
    code, _ = fenced(PAGE, "python")
    scope = {"program": PROGRAM}
    exec(code, scope)
    asked, refused = capsys.readouterr().out.splitlines()
    assert asked == "33024 bytes, known before a launch"
    assert refused == "workspace: expected 33024 bytes, got 100"
    assert scope["c"].eq(128).all()


def test_the_bytes_of_an_open_program_want_all_its_sizes(capsys: pytest.CaptureFixture[str]):
    _, code = fenced(PAGE, "python")
    exec(code, {})
    asked, refused = capsys.readouterr().out.splitlines()
    assert asked.endswith(" bytes at most")
    assert refused == "K, N, UNITS: no value is given; expected all of K, M, N, UNITS"


def test_bytes_are_those_of_the_page():
    kernel = compile(parse(PROGRAM), "cuda:90")
    assert isinstance(kernel, AotKernel)
    assert f'"{kernel.workspace}"' in PAGE


def test_options_are_those_of_a_launch():
    kernel = compile(parse(PROGRAM), "interpret")
    options = inspect.signature(kernel.namespace.launch).parameters
    keywords = {n for n, p in options.items() if p.kind is p.KEYWORD_ONLY}
    listed = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("| option") : PAGE.index("What does not")]))
    assert keywords == {"workspace", "num_warps", "num_stages"} <= listed
