"""docs/planner.md: its Python runs, its texts read back, its figures are the code's."""

import inspect
import re

from backends.planner import Config, Problem, Term
from backends.planner.choose import _HOPELESS, _MOST
from backends.planner.model import _BLEND
from backends.triton_codegen import matmul
from backends.triton_codegen.ops.tune import _CONTESTANTS
from tests.support.documents import fenced, page

PAGE = page("planner.md")
NUMBERS = {5: "fifth root", 8: "best eight", 60: "fastest sixty", 2.0: "twice the best"}


def test_the_python_runs(capsys):
    (code,) = fenced(PAGE, "python")
    scope: dict = {}
    exec(code, scope)
    assert scope["c"].shape == (24, 40)
    assert "runners-up" in capsys.readouterr().out


def test_texts_read_back():
    (config,) = re.findall(r"^    (gemm .*)$", PAGE, re.MULTILINE)
    assert str(Config.parse(config)) == config
    problems = re.findall(r"`(\d+x\d+x\d+ [^`]*)`", PAGE)
    assert problems
    assert all(str(Problem.parse(text)) == text for text in problems)


def test_all_options_are_named():
    options = list(inspect.signature(matmul).parameters)[2:]
    assert f"`matmul(a, b, *, {', '.join(options)})`" in PAGE


def test_all_parts_are_explained():
    rows = re.findall(r"^\| ([a-zA-Z0-9 ]+) \| (?!what it is)", PAGE, re.MULTILINE)
    assert rows == [term.value for term in Term]


def test_figures_are_the_code_s():
    for number in (_BLEND, _CONTESTANTS, _MOST, _HOPELESS):
        assert NUMBERS[number] in PAGE
