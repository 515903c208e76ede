"""flatten: marks loops over tiles for the backend, and changes nothing else."""

import numpy as np
import pytest

from backends.triton_codegen import emit
from loopir.build import gemm
from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from passes.flatten import FlattenPass
from passes.pipeline import parse_pipeline
from tests.support.interp import same_bits
from tests.support.texts import edited

WHOLE_TILES = "stream-k{decomposition=data-parallel units=3}"
K_ALIGNED = "stream-k{decomposition=k-aligned units=5 merge=fixup}"


def program(pipeline: str):
    return parse_pipeline(pipeline).run(gemm(40, 50, 96, "f16", "f16", tile=(16, 16, 16)))


def test_a_loop_over_tiles_is_marked_and_nothing_else_changes():
    plain = program(WHOLE_TILES)
    flat = FlattenPass().apply(plain)
    assert to_text(flat).count(" flattened {") == 1
    assert to_text(flat).replace(" flattened {", " {") == to_text(plain)
    assert parse(to_text(flat)) == flat
    arrays = random_inputs(plain, 1)
    results = [run(p, {n: a.copy() for n, a in arrays.items()}).arrays["C"] for p in (plain, flat)]
    assert same_bits(*results)


def results(before: Program, *programs: Program) -> list[np.ndarray]:
    """C, from the same inputs."""
    arrays = random_inputs(before, 1)
    return [run(p, {n: a.copy() for n, a in arrays.items()}).arrays["C"] for p in programs]


def test_a_scalar_that_a_branch_alone_reads_goes_into_it():
    """Triton fuses no loops around one."""
    plain = program(K_ALIGNED)
    flat = FlattenPass().apply(plain)
    text = to_text(flat)
    assert "let first" in to_text(plain).partition("reduce")[0]
    assert "let first" not in text.partition("reduce")[0]
    assert "} else {\n        let first = max(tile - UNITS * WAVES, 0)\n" in text
    assert text.count("flattened") == 1
    assert parse(text) == flat
    assert same_bits(*results(plain, plain, flat))


STORE = "      store C[ti * BM +: BM, tj * BN +: BN], out masked\n"
BRANCHES = """\
      if tile % 2 == 0 {
        store C[m +: BM, tj * BN +: BN], out masked
      } else {
        store C[m +: BM, tj * BN +: BN], out masked
      }
"""


def branched(*edits: tuple[str, str]) -> Program:
    """Whole tiles, stored in two branches with a scalar of both."""
    text = to_text(program(WHOLE_TILES))
    lets = "      alloc acc", "      let m = ti * BM\n      alloc acc"
    return parse(edited(text, lets, (STORE, BRANCHES), *edits))


def test_a_scalar_of_two_branches_has_a_name_in_each():
    plain = branched()
    flat = FlattenPass().apply(plain)
    text = to_text(flat)
    assert text.count("let m = ti * BM\n        store C[m +: BM,") == 1
    assert text.count("let m_1 = ti * BM\n        store C[m_1 +: BM,") == 1
    assert same_bits(*results(plain, plain, flat))


@pytest.mark.parametrize(
    "edit", [("if tile %", "if m + tile %"), (BRANCHES, f"{BRANCHES}      let n = m\n")]
)
def test_a_scalar_that_others_read_stays(edit: tuple[str, str]):
    plain = branched(edit)
    flat = FlattenPass().apply(plain)
    assert to_text(flat).count("let m = ti * BM\n      alloc acc") == 1
    assert same_bits(*results(plain, plain, flat))


def test_the_backend_makes_one_loop_of_it():
    plain = program(WHOLE_TILES)
    assert emit(FlattenPass().apply(plain)).source.count("flatten=True") == 1
    assert "flatten=True" not in emit(plain).source


@pytest.mark.parametrize(
    ("pipeline", "codes"),
    [
        ("tile-order", {"FL01"}),
        ("stream-k{units=3}", {"FL01"}),
        ("stream-k{decomposition=k-aligned units=5}", {"FL01"}),
        ("stream-k{decomposition=k-aligned units=5 merge=atomic-workspace}", {"FL01"}),
        (f"{WHOLE_TILES},flatten", {"FL02"}),
    ],
)
def test_what_has_no_such_loop_is_refused(pipeline: str, codes: set[str]):
    assert FlattenPass().can_be_applied(program(pipeline)).codes == codes


@pytest.mark.parametrize(
    ("pipeline", "line", "hint"),
    [
        ("stream-k{decomposition=k-aligned units=5}", "for turn in", "say merge=fixup"),
        ("stream-k{units=3}", "while it < it_end", "say decomposition=k-aligned merge=fixup, or "),
        ("tile-order", "kernel @gemm", "run stream-k with decomposition=data-parallel"),
    ],
)
def test_a_refusal_points_at_the_loop_and_says_what_to_do(pipeline: str, line: str, hint: str):
    shown = FlattenPass().can_be_applied(program(pipeline)).explain().splitlines()
    caret = next(i for i, text in enumerate(shown) if "^" in text)
    assert line in shown[caret - 1]
    assert shown[-1].startswith(f"  hint:  {hint}")


def test_the_word_belongs_to_sequential_loops():
    text = to_text(program(WHOLE_TILES))
    broken = text.replace("for tile in", "wave tile in").replace(" step UNITS {", " flattened {")
    with pytest.raises(Exception, match="flattened"):
        parse(broken)
    assert not violations(parse(text))
