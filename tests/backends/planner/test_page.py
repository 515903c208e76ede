"""docs/planner.md: its Python runs, its texts read back, its figures are the code's."""

import inspect
import re

from backends.planner import Config, Problem, Term
from backends.planner.choose import _HOPELESS, _MOST
from backends.planner.isolate import MOST_OFF
from backends.planner.panels import BLEND, LOADS, WAITS
from backends.planner.problem import FIELDS
from backends.triton_codegen import matmul
from backends.triton_codegen.ops.tune import CONTESTANTS, ROUNDS
from tests.support.documents import fenced, page

PAGE = page("planner.md")
NUMBERS = {
    10: "tenth root",
    6: "sixth root",
    3: "cube root",
    8: "best eight",
    16: "sixteen interleaved rounds",
    60: "fastest sixty",
    2.0: "twice the best",
    0.1: "more than 10 %",
}


def test_the_python_runs(capsys):
    product, ahead, planned = fenced(PAGE, "python")
    scope: dict = {}
    exec(product, scope)
    assert scope["c"].shape == (24, 40)
    assert "runners-up" in capsys.readouterr().out
    exec(ahead, {})
    assert "evict-first" in (told := capsys.readouterr().out)
    assert told.endswith("bytes, 0 spilled\n")
    exec(planned, {})
    assert "1536x1536x4096 bf16->f32 row*col on NVIDIA H200" in capsys.readouterr().out


def test_texts_read_back():
    configs = re.findall(r"^    (gemm .*)$", PAGE, re.MULTILINE)
    assert configs
    assert all(str(Config.parse(text)) == text for text in configs)
    problems = re.findall(r"`(\d+x\d+x\d+ [^`]*)`", PAGE)
    assert problems
    assert all(str(Problem.parse(text)) == text for text in problems)


def test_fields_of_a_problem_are_named():
    assert all(f"`{name}=`" in PAGE for name in FIELDS)


def test_all_options_are_named():
    options = list(inspect.signature(matmul).parameters)[2:]
    assert f"`matmul(a, b, *, {', '.join(options)})`" in PAGE


def test_all_parts_are_explained():
    rows = re.findall(r"^\| ([a-zA-Z0-9 ]+) \| (?!what it is)", PAGE, re.MULTILINE)
    assert rows == [term.value for term in Term]


def test_figures_are_the_code_s():
    for number in (BLEND, WAITS, LOADS, CONTESTANTS, ROUNDS, _MOST, _HOPELESS, MOST_OFF):
        assert NUMBERS[number] in PAGE


def test_the_commands_are_known():
    from backends.bench.options import parser
    from backends.planner.refit import _parser

    benches = re.findall(r"^    loopir-triton bench (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    fits = re.findall(r"^    python -m backends.planner.refit (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert benches
    assert fits
    for words, made in ((benches, parser("bench")), (fits, _parser())):
        for text in words:
            made.parse_args(text.split())
