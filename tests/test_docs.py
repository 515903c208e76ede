"""What the pages under docs/ say is so: their programs run, their refusals happen."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loopir import nodes
from loopir.interp import InterpError, block, random_inputs, run
from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import launch_symbols
from loopir.types import Direction, DType, ForKind, OrderKind, Precision, ReduceOp, Space, Via
from loopir.verifier import violations
from passes.base import Pass, Refusal, Refused
from passes.pipeline import parse_pipeline
from passes.registry import PASSES
from tests.support.documents import Attempt, Entry, Example, entries, fenced, page, parts

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["refusals.md", "interpreter.md"])
def test_programs_are_canonical_text(name: str):  # those of ir.md: tests/loopir/test_printer.py
    for text in fenced(page(name), "lir"):
        assert to_text(parse(text)) == text


# --- refusals.md

ENTRIES = entries(page("refusals.md"))
EXAMPLES = [example for entry in ENTRIES for example in entry.examples]


def refusals_of(attempt: Attempt) -> tuple[str, tuple[Refusal, ...]]:
    """The name of the pass that refuses, with its reasons; no reasons if every pass accepts."""
    program = parse(attempt.program)
    for p in parse_pipeline(attempt.pipeline).passes:
        verdict = p.can_be_applied(program)
        if isinstance(verdict, Refused):
            return p.name, verdict.reasons
        program = p.apply(program)
    return "", ()


def codes_of(attempt: Attempt) -> set[str]:
    return {reason.code for reason in refusals_of(attempt)[1]}


def codes_of_source() -> set[str]:
    """Every string that has the form of a code in the source of a pass that pipelines can name."""
    files = {path for cls in PASSES.values() for path in source_files(cls)}
    parsed = (ast.parse(path.read_text()) for path in files)
    texts = (n.value for tree in parsed for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return {t for t in texts if isinstance(t, str) and is_code(t)}


def source_files(cls: type[Pass]) -> list[Path]:
    """The module of a pass, or all of its package."""
    path = Path(inspect.getfile(cls))
    return [path] if path.parent == ROOT / "passes" else list(path.parent.rglob("*.py"))


def is_code(text: str) -> bool:
    return len(text) == 4 and text[:2].isalpha() and text[:2].isupper() and text[2:].isdigit()


def name_of(example: Example) -> str:
    return f"{example.entry} {example.refused.pipeline}"


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_is_refused_with_just_the_codes_beside_it(example: Example):
    assert violations(parse(example.refused.program)) == ()
    assert codes_of(example.refused) == example.codes


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.accepted], ids=name_of)
def test_the_neighbour_of_an_example_is_accepted(example: Example):
    assert example.accepted
    assert not codes_of(example.accepted)


def test_refused_options_and_edits_have_an_accepted_neighbour():
    base = fenced(page("refusals.md"), "lir")[0]
    assert all(e.accepted for e in EXAMPLES if e.refused.program == base)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.code or e.rule)
def test_an_entry_stands_with_its_pass_and_shows_the_rule_that_its_refusals_print(entry: Entry):
    found = [refusals_of(example.refused) for example in entry.examples]
    assert {name for name, _ in found} == {entry.section}
    if entry.code:
        assert {r.code for _, reasons in found for r in reasons} == {entry.code}
        assert entry.rule in {r.rule for _, reasons in found for r in reasons}


def test_every_code_of_the_passes_has_one_entry_and_no_other_code_has():
    documented = sorted(entry.code for entry in ENTRIES if entry.code)
    assert documented == sorted(codes_of_source())
    assert {entry.section for entry in ENTRIES} == set(PASSES)


def test_the_page_names_no_code_that_no_pass_has():
    assert {*re.findall(r"\b[A-Z]{2}\d\d\b", page("refusals.md"))} == codes_of_source()


def test_every_sentence_about_a_refusal_is_checked():
    text = page("refusals.md")
    assert text.count("\nRefused by ") == len(EXAMPLES) >= 40
    named = sum(bool(e.accepted and e.accepted.program == e.refused.program) for e in EXAMPLES)
    assert text.count("\nAccepted by ") == named


# --- the checks of refusals.md can fail


def a_page(edit: str = "", codes: str = "SK12", more: str = "") -> tuple[Example, ...]:
    """The examples of a page whose only entry is SK12."""
    base = fenced(page("refusals.md"), "lir")[0]
    edit = edit or "-    fill acc, 0\n+    fill acc, 1\n"
    text = f"```diff\n{edit}```\n\nRefused by `stream-k`: {codes}.\n{more}"
    head = f"```lir\n{base}```\n\n## stream-k\n\n### SK12: an accumulator starts\n\n"
    return entries(head + text)[0].examples


@pytest.mark.parametrize("codes", ["SK11", "SK11 SK12"])
def test_a_wrong_code_beside_an_example_is_found(codes: str):
    (right,), (wrong,) = a_page(), a_page(codes=codes)
    assert codes_of(right.refused) == right.codes
    assert codes_of(wrong.refused) != wrong.codes


def test_an_edit_that_breaks_nothing_is_found():
    (example,) = a_page("     fill acc, 0\n+    barrier\n")
    assert codes_of(example.refused) != example.codes


def test_a_neighbour_that_is_refused_too_is_found():
    (example,) = a_page(more="Accepted by `stream-k{units=5}`.\n")
    assert example.accepted
    assert codes_of(example.accepted)


def test_an_edit_without_a_place_is_found():
    with pytest.raises(ValueError, match="0 places"):
        a_page("-    fill acc, 7\n+    fill acc, 1\n")
    with pytest.raises(ValueError, match="2 places"):
        a_page("         barrier\n+    fill acc, 1\n")


def test_an_absent_entry_is_found(monkeypatch):
    monkeypatch.setitem(globals(), "ENTRIES", [e for e in ENTRIES if e.code != "SK09"])
    with pytest.raises(AssertionError):
        test_every_code_of_the_passes_has_one_entry_and_no_other_code_has()


# --- ir.md

PROGRAMS = fenced(page("ir.md"), "lir")
_ELSEWHERE = {Space.GLOBAL, Space.WORKSPACE}  # what `param` and `workspace` stand for


def things(node: Any) -> Iterator[Any]:
    """What the IR can hold, as far as `node` holds it: classes of nodes, members of enums, names of
    functions and comparisons, optional fields that say something."""
    if isinstance(node, tuple):
        for part in node:
            yield from things(part)
    if isinstance(node, Enum):
        yield node
    if not is_dataclass(node):
        return
    yield type(node)
    for field in fields(node):
        value = getattr(node, field.name)
        if field.default is not MISSING and value != field.default:
            yield type(node), field.name
        if isinstance(node, nodes.Apply | nodes.Cmp) and isinstance(value, str):
            yield value
        yield from things(value)


def all_things() -> set[Any]:
    """Everything that `things` can yield."""
    classes = {c for c in vars(nodes).values() if isinstance(c, type) and is_dataclass(c)}
    optional = {(c, f.name) for c in classes for f in fields(c) if f.default is not MISSING}
    enums = (DType, Space, Direction, ForKind, OrderKind, Precision, ReduceOp, Via)
    members = {member for enum in enums for member in enum} - _ELSEWHERE
    words = {*nodes.EWISE_FUNCTIONS, "==", "!=", "<", "<=", ">", ">="}
    return classes | optional | members | words


def missing(programs: list[str]) -> set[Any]:
    return all_things() - {thing for text in programs for thing in things(parse(text))}


def kernel_name(text: str) -> str:
    return re.findall(r"@(\w+)", text)[0]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("text", PROGRAMS, ids=kernel_name)
def test_a_program_of_the_page_runs(text: str, seed: int):
    program = parse(text)
    sizes = {name: 10 for name in ("N",) if name in launch_symbols(program.kernels[0])}
    arrays = random_inputs(program, seed, sizes=sizes)
    run(program, arrays, seed=seed)
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_the_programs_of_the_page_show_everything_that_the_ir_can_hold():
    assert missing(PROGRAMS) == set()


def test_a_page_that_lacks_a_node_is_found():
    assert {nodes.While, nodes.Set} <= missing([t for t in PROGRAMS if "while" not in t])
    assert ReduceOp.SCAN in missing([t for t in PROGRAMS if "scan" not in t])
    assert (nodes.TileAxis, "limit") in missing([t for t in PROGRAMS if " < H" not in t])


# --- interpreter.md

KINDS = [
    (kind, text)
    for kind, part in parts(page("interpreter.md"), "### ")
    for text in fenced(part, "lir")
]


@pytest.mark.parametrize(("kind", "text"), KINDS, ids=[kernel_name(text) for _, text in KINDS])
def test_an_error_of_the_page_is_reported_in_every_schedule(kind: str, text: str, monkeypatch):
    monkeypatch.setattr(block, "_MOST_TURNS", 100)
    program = parse(text)
    assert violations(program) == ()
    for seed in range(3):
        with pytest.raises(InterpError) as raised:
            run(program, random_inputs(program, seed), seed=seed)
        assert raised.value.kind == kind


def test_every_error_of_the_interpreter_has_a_program():
    assert {kind for kind, _ in KINDS} == {error.kind for error in InterpError.__subclasses__()}


def test_the_python_of_the_page_runs(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    (code,) = fenced(page("interpreter.md"), "python")
    exec(compile(code, "interpreter.md", "exec"), {})
    assert np.isfinite(float(capsys.readouterr().out))
