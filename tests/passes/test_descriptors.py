"""The pass `descriptors`: what it marks, the complete set of codes of each program that it refuses,
an accepted neighbour, and that no value changes."""

from dataclasses import dataclass, field

import pytest

from loopir.build import gemm
from loopir.interp import random_inputs, run
from loopir.nodes import Load, Program, Store
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import Via
from loopir.walk import walk_program
from passes.base import Applicable
from passes.descriptors import DescriptorsPass
from passes.pipeline import parse_pipeline
from passes.pipeline_text import parse_pass
from tests.support.interp import same_bits
from tests.support.kernels import BATCHED, DUAL
from tests.support.refusals import check_accepted, check_refused
from tests.support.texts import GEMM, edited

Edit = tuple[str, str]
STORES = DescriptorsPass(loads=False)
STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
AXES = "    store C[m, n] over (m = ti * BM +: BM, n = tj * BN +: BN), acc masked\n"
SUM = "kernel @sum(X: f16[M, K, R], out Y: f32[M, K])\n"


@dataclass(frozen=True)
class Case:
    """The base text is accepted, after the `setup` edits too; with the fault on top of them it is
    refused with just `codes`."""

    name: str
    codes: str
    fault: tuple[Edit, ...]
    setup: tuple[Edit, ...] = ()
    base: str = field(default=GEMM, repr=False)


def stored(new: str) -> tuple[Edit, ...]:
    return ((STORE, new),)


def axes(old: str, new: str) -> tuple[Edit, ...]:
    """An edit of the store in its long form."""
    return ((AXES, AXES.replace(old, new)),)


CASES = [
    Case("open_strides", "DC01", (("out C: f32[M, N]", "out C: f32[M, N] contiguous(none)"),)),
    Case("index_of_two_axes", "DC02", axes("C[m, n]", "C[m + n, n]"), stored(AXES)),
    Case("step_of_two", "DC02", axes("C[m, n]", "C[2 * m, n]"), stored(AXES)),
    Case("wrapped", "DC02", axes("C[m, n]", "C[m, n % N]"), stored(AXES)),
    Case("side_of_512", "DC03", (("BM = 256", "BM = 512"),), (("BM = 32", "BM = 256"),)),
    Case("row_of_8_bytes", "DC03 DC04", (("BN = 4", "BN = 2"),), (("BN = 32", "BN = 4"),)),
    Case("starts_at_one", "DC04", stored(STORE.replace("BN +:", "BN + 1 +:"))),
    Case("starts_at_six", "DC04", (("BN + 4 +:", "BN + 6 +:"),),
         stored(STORE.replace("BN +:", "BN + 4 +:"))),
    Case("limit_inside", "DC05", axes("+: BM,", "+: BM < M - 1,"), stored(AXES)),
    Case("limit_at_the_edge", "DC05",
         (("+: BM < M,", "+: BM < M - 1,"),),
         stored(AXES.replace("+: BM,", "+: BM < M,"))),
    Case("in_a_wave_loop", "DC06", stored(f"    wave w in 0 .. 1 {{\n  {STORE}    }}\n")),
    Case("loaded_too", "DC07", (
        ("out C", "inout C"),
        ("fill acc, 0", "load acc, C[ti * BM +: BM, tj * BN +: BN] masked"),
    )),
    Case("alias_of_an_input", "DC07", (
        ("BK)) {", "BK))\n    alias(D, C) {"),
        ("fill acc, 0", "load acc, D[ti * BM +: BM, tj * BN +: BN] masked"),
    ), (("out C", "D: f32[M, N], out C"),)),
    Case("stored_in_a_loop", "DC08", stored(f"    for q in 0 .. 2 {{\n  {STORE}    }}\n")),
    Case("stored_twice", "DC08", stored(STORE + STORE)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_fault_is_refused_with_just_these_codes(case: Case):
    check_refused(STORES, edited(edited(case.base, *case.setup), *case.fault), case.codes)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_neighbour_without_the_fault_is_accepted(case: Case):
    check_accepted(STORES, edited(case.base, *case.setup))


def test_every_code_has_a_case():
    covered = {code for case in CASES for code in case.codes.split()}
    assert covered == {f"DC{n:02}" for n in range(1, 9)}


def test_a_second_application_finds_nothing_to_mark():
    marked = to_text(DescriptorsPass().apply(parse(GEMM)))
    check_refused(DescriptorsPass(), marked, "DC06")
    check_refused(DescriptorsPass(loads=False, stores=False), GEMM, "DC06")


def test_a_load_with_another_value_beyond_the_edge_is_refused():
    text = edited(GEMM, ("kp * BK +: BK] masked", "kp * BK +: BK] masked else 1"))
    program = DescriptorsPass(stores=False).apply(parse(text))
    assert marked(program) == ["load B"]
    check_refused(DescriptorsPass(stores=False), edited(text, (
        "tj * BN +: BN] masked\n        barrier", "tj * BN +: BN] masked else 1\n        barrier"
    )), "DC05")  # fmt: skip


def test_a_refusal_shows_the_place_with_a_caret_and_a_hint():
    text = edited(GEMM, (STORE, STORE.replace("BN +:", "BN + 1 +:")))
    explained = STORES.can_be_applied(parse(text)).explain()
    assert (
        explained
        == """\
descriptors{loads=false}: not applicable, 1 reason(s)

DC04: the contiguous side starts at a multiple of 16 bytes
  15 |       }
  16 |     }
  17 |     store C[ti * BM +: BM, tj * BN + 1 +: BN], acc masked
     |           ^
  18 |   }
  19 | }
  found: no start that is surely a multiple of 4
  hint:  start rows at multiples of the tile's size"""
    )


# --- what changes


def marked(program: Program) -> list[str]:
    found = []
    for _, stmt in walk_program(program):
        match stmt:
            case Load(source=access, via=Via.DESCRIPTOR):
                found.append(f"load {access.buffer}")
            case Store(target=access, via=Via.DESCRIPTOR):
                found.append(f"store {access.buffer}")
    return found


def test_only_the_way_of_loads_and_stores_changes():
    expected = (
        GEMM.replace("BK] masked", "BK] masked descriptor")
        .replace("BN] masked", "BN] masked descriptor")
        .replace("acc masked", "acc masked descriptor")
    )
    assert to_text(DescriptorsPass().apply(parse(GEMM))) == expected


@pytest.mark.parametrize(("options", "moves"), [
    ("", ["load A", "load B", "store C"]),
    ("{stores=false}", ["load A", "load B"]),
    ("{loads=false}", ["store C"]),
])  # fmt: skip
def test_options_say_what_is_marked(options: str, moves: list[str]):
    made = parse_pass(f"descriptors{options}")
    assert str(made) == f"descriptors{options}"
    assert marked(made.apply(parse(GEMM))) == moves


def test_what_can_be_marked_is_and_the_report_says_why_the_rest_is_not():
    verdict = DescriptorsPass().can_be_applied(parse(DUAL))
    assert isinstance(verdict, Applicable)
    assert DescriptorsPass().report(verdict.plan) == (
        ("descriptors", "load A, load B, load D, store C, store T"),
        ("pointers", "DC01, `bias` is of 1 dimension(s)"),
    )


@pytest.mark.parametrize(("pipeline", "stores"), [
    ("stream-k{decomposition=data-parallel units=7}", 1),
    ("stream-k{units=7}", 2),
    ("stream-k{decomposition=hybrid units=4}", 3),
    ("stream-k{splits=2}", 1),
    ("stream-k{merge=fixup units=7}", 2),
])  # fmt: skip
def test_a_persistent_walk_stores_each_tile_through_descriptors(pipeline: str, stores: int):
    program = parse_pipeline(f"{pipeline},descriptors").run(gemm(96, 80, 128, tile=(32, 32, 32)))
    assert marked(program).count("store C") == stores
    assert not any("partials" in move for move in marked(program))


def test_a_persistent_walk_whose_store_stays_is_refused():
    whole = parse_pipeline("stream-k{decomposition=data-parallel units=7}").run(parse(GEMM))
    text = to_text(whole)
    check_accepted(STORES, text)
    check_refused(
        STORES, text.replace("C[ti * BM +: BM, tj * BN", "C[unit * BM +: BM, 0 * BN"), "DC08"
    )


ORDERS = ("", "tile-order{group=2},")
WALKS = ("units=7", "units=7 direction=backward", "decomposition=hybrid units=4",
         "units=7 bounds=ceil",
         "decomposition=hybrid units=5 first=data-parallel direction=backward tail=one-tile",
         "decomposition=k-aligned units=5", "decomposition=k-aligned units=40",
         "decomposition=data-parallel units=7")  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("walk", WALKS)
def test_every_store_of_a_walk_and_its_pieces_is_marked(walk: str, order: str):
    pipeline = parse_pipeline(f"{order}stream-k{{{walk}}},epilogue-pieces,descriptors")
    text = to_text(pipeline.run(gemm(200, 100, 256, "f32", "f32", (32, 32, 32))))
    stores = [line for line in text.splitlines() if "store C" in line]
    assert stores
    assert all(line.endswith(" descriptor") for line in stores)


BY_HAND = """\
kernel @k(A: f32[40, 32], out C: f32[40, 32]) {
  grid1d (u) in [1] persistent {
    for i in 0 .. 5 {
      let x = i * 2
      alloc t: register f32[8, 32]
      load t, A[i * 8 +: 8, 0 +: 32]
      store C[i * 8 +: 8, 0 +: 32], t
    }
  }
}
"""
STORED = "store C[i * 8 +: 8, 0 +: 32], t\n"


@pytest.mark.parametrize("edits", [
    (("C[i * 8", "C[i * 4"),),
    (("x = i * 2", "x = i % 2"), ("C[i * 8", "C[x * 8")),
    (("x = i * 2", "x = i // 2"), ("C[i * 8", "C[x * 8")),
    (("x = i * 2", "x = min(i, 2)"), ("C[i * 8", "C[x * 8")),
    ((STORED, STORED + "      store C[i * 8 + 4 +: 8, 0 +: 32], t\n"),),
    ((STORED, f"for q in 0 .. 2 {{\n        {STORED}      }}\n"),),
], ids=str)  # fmt: skip
def test_a_walk_by_hand_whose_places_may_meet_is_refused(edits: tuple[Edit, ...]):
    check_accepted(STORES, BY_HAND)
    check_refused(STORES, edited(BY_HAND, *edits), "DC08")


@pytest.mark.parametrize(("old", "new"), [
    ("set it = tile * P + k1", "set it = tile * P + k1 - 1"),
    ("let tile = it // P", "let tile = it % P"),
    ("let ti = tile // ceildiv(N, BN)", "let ti = tile // (2 * ceildiv(N, BN))"),
    ("let tj = tile % ceildiv(N, BN)", "let tj = tile % 2"),
])  # fmt: skip
def test_a_walk_that_may_come_to_a_tile_twice_is_refused(old: str, new: str):
    text = to_text(parse_pipeline("stream-k{units=7}").run(parse(GEMM)))
    check_accepted(STORES, text)
    refused = STORES.match(parse(edited(text, (old, new))))
    assert isinstance(refused, tuple)
    assert "DC08" in {reason.code for reason in refused}


def test_an_atomic_merge_keeps_its_stores():
    program = parse_pipeline("stream-k{merge=atomic units=7},descriptors").run(parse(GEMM))
    assert marked(program) == ["load A", "load B"]


@pytest.mark.parametrize("text", [GEMM, DUAL, BATCHED], ids=["gemm", "dual", "batched"])
def test_no_value_changes(text: str):
    before, after = parse(text), DescriptorsPass().apply(parse(text))
    sizes = {"L": 2} if text is BATCHED else {}
    arrays = [random_inputs(before, 3, sizes=sizes) for _ in range(2)]
    run(before, arrays[0], sizes)
    run(after, arrays[1], sizes)
    assert all(same_bits(arrays[0][name], arrays[1][name]) for name in arrays[0])
