"""Laws of the text form: reading back what was printed, over random programs."""

import hashlib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sympy

from loopir import nodes as ir
from loopir import types
from loopir.errors import ParseError
from loopir.parser import parse, parse_expr, parse_many
from loopir.printer import expr_text, render, stmt_text, to_text
from loopir.walk import walk_program
from tests.support.random_programs import random_expr, random_program

ROOT = Path(__file__).parents[2]
NOT_IN_TEXT = {types.Space.GLOBAL, types.Space.WORKSPACE}


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> range:
    return range(10_000 if request.config.getoption("--long") else 300)


def reads_back(program: ir.Program, printed: str) -> bool:
    """The law, types of numbers included: 1, 1.0 and -0.0 are equal to Python, not to us."""
    try:
        read = parse(printed)
    except ParseError:
        return False
    return read == program and repr(read) == repr(program)


def is_fixed_point(printer: Callable[[ir.Program], str], program: ir.Program) -> bool:
    text = printer(program)
    return printer(parse(text)) == text


@pytest.mark.timeout(600)
def test_random_programs_read_back_and_print_the_same_again(seeds: range):
    for seed in seeds:
        program = random_program(seed)
        text = to_text(program)
        assert reads_back(program, text), f"seed {seed}\n{text}"
        assert is_fixed_point(to_text, program), f"seed {seed}\n{text}"


@pytest.mark.timeout(600)
def test_random_index_expressions_read_back(seeds: range):
    for seed in seeds:
        expr = random_expr(Random(seed), ("M", "N", "x", "P"), depth=5)
        assert parse_expr(expr_text(expr)) == expr, f"seed {seed}: {expr_text(expr)}"


WRONG_PRINTERS: dict[str, Callable[[str], str]] = {
    "forgets a mask": lambda t: t.replace(" masked", ""),
    "forgets parentheses after //": lambda t: t.replace("// (", "// ").replace(")", "", 1),
    "divides the wrong way": lambda t: t.replace(" // ", " % "),
    "swaps min and max": lambda t: t.replace("min(", "max("),
    "flips a sign": lambda t: t.replace(" - ", " + "),
    "loses a step": lambda t: t.replace(" step ", " .. "),
    "drops else": lambda t: t.replace("} else {", "}\n{"),
    "prints floats as ints": lambda t: t.replace("3.0", "3"),
    "loses the sign of zero": lambda t: t.replace("-0.0", "0.0"),
    "loses a layout": lambda t: t.replace(" contiguous(none)", ""),
    "loses the order of a slot": lambda t: t.replace(" fragment_order", ""),
    "loses an order": lambda t: t.replace(" order along_m", ""),
    "weakens a comparison": lambda t: t.replace(" <= ", " < "),
    "masks from zero": lambda t: re.sub(r"(mask\(\w+, \d), [^,()]+,", r"\1, 0,", t),
    "takes the first part": lambda t: re.sub(r"(part\(\w+, \d), [1-3],", r"\1, 0,", t),
    "runs in parallel": lambda t: t.replace("for ", "parallel "),
    "drops a line": lambda t: t.replace("barrier\n", "\n", 1),
    "prints nothing": lambda t: "",
}


@pytest.mark.parametrize("wrong", WRONG_PRINTERS.values(), ids=WRONG_PRINTERS)
def test_a_wrong_printer_breaks_the_law(wrong: Callable[[str], str]):
    programs = map(random_program, range(100))
    changed = ((p, t, w) for p in programs if (w := wrong(t := to_text(p))) != t)
    assert not all(reads_back(p, w) for p, _, w in itertools.islice(changed, 5))


def test_a_printer_that_counts_is_no_fixed_point():
    count = itertools.count()
    assert not is_fixed_point(lambda p: f"# {next(count)}\n{to_text(p)}", random_program(0))


def test_random_programs_use_every_node_and_every_word():
    seen: set[Any] = set()
    for seed in range(300):
        seen.update(_vocabulary(random_program(seed)))
    nodes = {c for c in vars(ir).values() if isinstance(c, type) and is_dataclass(c)}
    enums = (types.DType, types.Space, types.Direction, types.ForKind, types.OrderKind)
    more = (types.Precision, types.ReduceOp, types.ElementOrder)
    words = {w for e in (*enums, *more) for w in e} - NOT_IN_TEXT
    assert nodes | words | set(ir.EWISE_FUNCTIONS) <= seen


def _vocabulary(node: Any) -> Iterator[Any]:
    """Classes of nodes, enum members and names of functions that occur in `node`."""
    if isinstance(node, tuple):
        for part in node:
            yield from _vocabulary(part)
    elif is_dataclass(node):
        yield type(node)
        for field in fields(node):
            yield from _vocabulary(getattr(node, field.name))
    elif isinstance(node, Enum | str):
        yield node


INDEX_FIELDS = ("lhs", "rhs", "start", "size", "lo", "hi", "step", "extent", "expected", "shape")


def test_index_fields_of_a_parsed_program_hold_expressions_and_no_ints():
    for seed in range(50):
        for value in _index_values(parse(to_text(random_program(seed)))):
            assert isinstance(value, sympy.Expr)
    one = ir.For("i", 0, 1, 1, ())  # pyright: ignore[reportArgumentType]
    assert not any(isinstance(value, sympy.Expr) for value in _index_values(one))


def _index_values(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        for part in node:
            yield from _index_values(part)
    elif is_dataclass(node):
        for field in fields(node):
            value = getattr(node, field.name)
            if field.name in INDEX_FIELDS:
                yield from value if isinstance(value, tuple) else (value,)
            yield from _index_values(value)


def test_the_first_line_of_every_statement_shows_it():
    for seed in range(100):
        program = random_program(seed)
        first: dict[Any, str] = {}
        for line in render(program):
            first.setdefault(line.path, line.text)
        for path, stmt in walk_program(program):
            assert first[path].strip().removesuffix(" {") == stmt_text(stmt)


def test_programs_in_one_text_read_back_one_by_one():
    programs = tuple(map(random_program, range(20)))
    assert parse_many("# -----\n".join(map(to_text, programs))) == programs


DIGEST = """
import hashlib
from tests.support.random_programs import random_program
from loopir.printer import to_text
texts = "".join(to_text(random_program(seed)) for seed in range(40))
print(hashlib.sha256(texts.encode()).hexdigest(), list({"a", "b", "c", "d", "e", "f"}))
"""


def _run_with_hash_seed(seed: str) -> tuple[str, str]:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", DIGEST]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    digest, _, control = done.stdout.strip().partition(" ")
    return digest, control


def test_text_is_the_same_in_every_process():
    here = "".join(to_text(random_program(seed)) for seed in range(40))
    digests, controls = zip(*map(_run_with_hash_seed, ("0", "1", "12345")), strict=True)
    assert set(digests) == {hashlib.sha256(here.encode()).hexdigest()}
    assert len(set(controls)) > 1, "the seeds changed nothing, so this test shows nothing"
