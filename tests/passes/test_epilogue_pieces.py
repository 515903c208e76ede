"""epilogue-pieces: what follows the reduce of a tile, done for one piece of its columns after the
other, keeps every bit; or the reason why not."""

from dataclasses import replace
from random import Random

import pytest

from loopir.build import Epilogue, batched_gemm, gemm
from loopir.errors import InternalError
from loopir.nodes import Ewise, Part, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.tile_types import tile_types
from loopir.walk import walk_program
from passes import epilogue_pieces
from passes.base import Applicable
from passes.epilogue_pieces import EpiloguePiecesPass
from passes.flatten import FlattenPass
from passes.pieces import Columns
from passes.pipeline import parse_pipeline
from tests.support.differential import difference, random_stream_k
from tests.support.kernels import DUAL
from tests.support.legal_programs import legal_case
from tests.support.refusals import check_accepted, check_refused
from tests.support.tail_texts import TAILS, tail
from tests.support.texts import GEMM, edited

TILE = (16, 16, 16)
K_ALIGNED = "stream-k{decomposition=k-aligned units=5"


def product(epilogue: Epilogue = Epilogue(), tile=TILE, **options) -> Program:  # noqa: B008
    return gemm(40, 51, 96, "f16", "bf16", tile, epilogue=epilogue, **options)


def pieces_of(program: Program, count: int = 2) -> Program:
    after = EpiloguePiecesPass(columns=count).apply(program)
    assert parse(to_text(after)) == after
    return after


def check_equal(before: Program, after: Program) -> None:
    assert after != before
    for seed in range(2):
        assert not difference(before, after, {}, seed, 2)


# --- the text


def test_the_tail_is_repeated_for_each_piece():
    lines = to_text(pieces_of(parse(GEMM))).splitlines()
    start = next(i for i, line in enumerate(lines) if "acc_0" in line)
    assert [line.strip() for line in lines[start:-2]] == [
        "alloc acc_0: register f32[BM, BN // 2]",
        "ewise acc_0 = part(acc, 1, 0, 2)",
        "store C[ti * BM +: BM, tj * BN +: BN // 2], acc_0 masked",
        "alloc acc_1: register f32[BM, BN // 2]",
        "ewise acc_1 = part(acc, 1, 1, 2)",
        "store C[ti * BM +: BM, tj * BN + BN // 2 +: BN // 2], acc_1 masked",
    ]
    assert lines[: start - 1] == GEMM.splitlines()[: start - 1]


def test_names_of_pieces_avoid_those_in_use():
    text = edited(GEMM, ("    store C", "    alloc acc_1: register f32[]\n    store C"))
    assert "alloc acc_1_1: register f32[BM, BN // 2]" in to_text(pieces_of(parse(text)))


def test_the_report_names_what_is_stored_in_pieces():
    made, program = EpiloguePiecesPass(columns=4), parse_pipeline(WALKS[2]).run(product())
    plan = made.match(program)
    assert made.report(plan) == (("columns", "4 pieces of C"),)


def test_parts_of_a_fragment_are_in_registers():
    after = to_text(pieces_of(parse_pipeline("mma-expand").run(parse(GEMM))))
    assert "alloc acc: fragment f32[BM, BN]" in after
    assert "alloc acc_0: register f32[BM, BN // 2]" in after


def test_a_tile_that_holds_nothing_before_has_no_part():
    text = edited(
        GEMM,
        ("    fill acc", "    alloc c: register f32[BM, BN]\n    fill acc"),
        ("    store C[ti * BM +: BM, tj * BN +: BN], acc",
         "    ewise c = acc + 1\n    store C[ti * BM +: BM, tj * BN +: BN], c"),
    )  # fmt: skip
    after = pieces_of(parse(text))
    assert "alloc c_1: register f32[BM, BN // 2]" in to_text(after)
    assert "part(c" not in to_text(after)
    check_equal(parse(text), after)


# --- the same bits

EPILOGUES = {
    "nothing": Epilogue(),
    "bias of columns": Epilogue(bias="bf16", activation="gelu"),
    "residual": Epilogue(alpha=0.5, residual="bf16", activation="relu"),
    "in place": Epilogue(beta=2, bias="f16"),
}
WALKS = (
    "tile-order{group=2}",
    "stream-k{decomposition=data-parallel units=3}",
    "stream-k{units=5}",
    "stream-k{units=5 merge=fixup}",
    "stream-k{units=4 merge=atomic-workspace}",
    "stream-k{splits=3}",
    f"{K_ALIGNED}}}",
    f"{K_ALIGNED} merge=fixup}}",
    f"tile-order{{group=2}},{K_ALIGNED} merge=fixup slot-layout=fragments}}",
)


@pytest.mark.sampled
@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("name", EPILOGUES)
def test_pieces_keep_every_bit_of_an_epilogue(name: str, walk: str):
    before = parse_pipeline(walk).run(product(EPILOGUES[name]))
    check_equal(before, pieces_of(before))


@pytest.mark.parametrize("count", [4, 8, 16])
def test_more_pieces_keep_every_bit(count: int):
    before = parse_pipeline(WALKS[2]).run(product(EPILOGUES["bias of columns"]))
    after = pieces_of(before, count)
    assert to_text(after).count("store C") == count * to_text(before).count("store C")
    check_equal(before, after)


PROGRAMS = {
    "batch": batched_gemm(3, 20, 30, 40, "f16", "f32", TILE, epilogue=EPILOGUES["residual"]),
    "tile in pieces": product(EPILOGUES["bias of columns"], (16, (16, 8), 16)),
    "rows in pieces": product(EPILOGUES["in place"], ((16, 8), 16, 16)),
    "bias of rows": product(EPILOGUES["bias of columns"], swapped=True),
    "two products": parse(DUAL),
    "floats of eight bits": gemm(40, 51, 96, "f8e4m3", "f32", (16, 16, 32)),
    "integers": gemm(40, 51, 96, "i8", "i32", TILE),
}


@pytest.mark.sampled
@pytest.mark.parametrize("walk", ["", WALKS[2], WALKS[7]])
@pytest.mark.parametrize("name", PROGRAMS)
def test_pieces_keep_every_bit_of_a_program(name: str, walk: str):
    before = parse_pipeline(walk).run(PROGRAMS[name])
    check_equal(before, pieces_of(before))


def test_each_accumulator_of_a_tile_in_pieces_has_pieces_of_its_own():
    after = pieces_of(PROGRAMS["tile in pieces"])
    shapes = tile_types(after.kernels[0])
    parts = [
        s.tile for _, s in walk_program(after) if isinstance(s, Ewise) and isinstance(s.expr, Part)
    ]
    assert {name: shapes[name].shape for name in parts} == {
        "acc0_0": (16, 8), "acc0_1": (16, 8), "acc1_0": (16, 4), "acc1_1": (16, 4),
    }  # fmt: skip


@pytest.mark.parametrize("name", TAILS)
def test_a_tail_is_cut_where_its_columns_do_not_mix(name: str):
    lines, axes = TAILS[name]
    before = parse(tail(*lines))
    if 1 not in axes:
        check_refused(EpiloguePiecesPass(), tail(*lines), "EP03")
        return
    for count in (2, 8):
        check_equal(before, pieces_of(before, count))


@pytest.mark.timeout(120)
def test_pieces_keep_every_bit_of_random_programs(request: pytest.FixtureRequest):
    cut, count = 0, 1000 if request.config.getoption("--long") else 250
    for seed in range(count):
        case = legal_case(seed)
        made = random_stream_k(Random(seed), case)
        walked = made.apply(case.program) if made.can_be_applied(case.program) else case.program
        if verdict := EpiloguePiecesPass().can_be_applied(walked):
            assert isinstance(verdict, Applicable)
            cut += 1
            after = pieces_of(walked)
            assert not difference(case.program, after, case.sizes, seed), f"seed {seed}"
    assert cut > count // 5


def test_a_wrong_part_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        epilogue_pieces, "Part", lambda arg, axis, index, count: Part(arg, axis, 0, count)
    )
    after = pieces_of(product())
    assert difference(product(), after, {}, 1)


# --- beside other passes


@pytest.mark.parametrize("walk", [*WALKS[1:2], *WALKS[7:]])
def test_flattened_walks_keep_every_bit(walk: str):
    before = parse_pipeline(walk).run(product(EPILOGUES["bias of columns"]))
    after = FlattenPass().apply(pieces_of(before))
    assert " flattened {" in to_text(after)
    check_equal(before, after)


@pytest.mark.parametrize("walk", WALKS)
def test_each_piece_is_a_box(walk: str):
    after = parse_pipeline(f"{walk},epilogue-pieces,descriptors").run(product())
    first = to_text(replace(after, kernels=after.kernels[:1]))
    stores = [line for line in first.splitlines() if "store C" in line]
    assert len(stores) in (2, 4)
    assert all(line.endswith(" masked descriptor") for line in stores)


def test_the_fold_of_a_last_arriver_is_in_pieces_too():
    after = to_text(pieces_of(parse_pipeline(WALKS[2]).run(product())))
    assert after.count("for s_0 in 0 .. parts {") == after.count("for s_1 in 0 .. parts {") == 1
    assert "for s in" not in after
    assert after.count("store partials[") == 1


# --- refusals

NEXT = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
NEXT_C = NEXT.replace("acc", "c")
ROWS = "    alloc s: register f32[BM]\n    fill s, 1\n"
FILL = "    fill acc, 0\n"
COUNTED = "    while i < 2 {\n      ewise acc = acc + 1\n      set i = i + 1\n    }\n"
TURNS = "    alloc c: register f32[BM, BN]\n    fill c, 1\n    for turn in 0 .. 2 {\n    alloc acc"
SCALED = (
    "    alloc c: register f32[BM, BN]\n    ewise c = acc * expand(s, 1)\n"
    "    store C[ti * BM +: BM, tj * BN +: BN], c masked\n"
)
#: name -> codes, edits of GEMM that are refused, and of a neighbour that is not
REFUSED = {
    "no reduce": ("EP01", ((NEXT, ""),), ()),
    "a store of rows only": (
        "EP01",
        ((NEXT, "    ewise s = sum(acc, 1)\n    store S[ti * BM +: BM], s masked\n"),
         (FILL, ROWS + FILL), ("out C: f32[M, N]", "out C: f32[M, N], out S: f32[M]")),
        ((FILL, ROWS + FILL), ("out C: f32[M, N]", "out C: f32[M, N], out S: f32[M]")),
    ),
    "waves": (
        "EP02", ((NEXT, f"    wave w in 0 .. 1 {{\n  {NEXT}    }}\n"),),
        ((NEXT, f"    for w in 0 .. 1 {{\n  {NEXT}    }}\n"),),
    ),
    "a softmax": (
        "EP03",
        ((NEXT, f"    ewise acc = exp(acc - expand(amax(acc, 1), 1))\n{NEXT}"),),
        ((NEXT, f"    ewise acc = exp(acc - expand(amax(acc, 0), 0))\n{NEXT}"),),
    ),
    "columns that are rows elsewhere": (
        "EP03",
        ((NEXT, f"    ewise acc = acc + expand(s, 1) * expand(s, 0)\n{NEXT}"), (FILL, ROWS + FILL)),
        ((NEXT, f"    ewise acc = acc + expand(s, 1)\n{NEXT}"), (FILL, ROWS + FILL)),
    ),
    "odd": ("EP04", (("BN = 32", "BN = 1"),), (("BN = 32", "BN = 2"),)),
    "a scale that grows": (
        "EP05",
        ((FILL, ROWS + FILL), (NEXT, f"    ewise s = s + 1\n{SCALED}")),
        ((FILL, ROWS + FILL), (NEXT, f"    alloc t: register f32[BM]\n    ewise t = s + 1\n"
                               f"{SCALED.replace('(s,', '(t,')}")),
    ),
    "a tile from turn to turn": (
        "EP05",
        (("    alloc acc", TURNS), (NEXT, f"    ewise c = c + acc\n{NEXT_C}    }}\n")),
        (("    alloc acc", TURNS), (NEXT, f"    ewise c = acc + acc\n{NEXT_C}    }}\n")),
    ),
    "a count of turns": (
        "EP05",
        ((FILL, f"    let i = 0\n{FILL}"), (NEXT, f"{COUNTED}{NEXT}")),
        ((NEXT, f"    let i = 0\n{COUNTED}{NEXT}"),),
    ),
    "an arrival": (
        "EP05",
        (("kernel", "workspace n: i32[4]\n\nkernel"),
         (NEXT, f"    arrive last, n[ti], 3\n{NEXT}")),
        (("kernel", "workspace n: i32[4]\n\nkernel"),
         (NEXT, f"{NEXT}    arrive last, n[ti], 3\n")),
    ),
    "a tile that is read behind": (
        "EP05",
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT}"
                "    ewise acc = c\n"),),
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT}"),),
    ),
    "a tile that is written again behind": (
        "EP05",
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT_C}"
                "    ewise c = acc * 2\n"),),
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT_C}"
                "    ewise acc = acc * 2\n"),),
    ),
    "a tile that a branch writes again": (
        "EP05",
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT_C}"
                "    if ti == 0 {\n      for i in 0 .. 2 {\n        ewise c = acc * 2\n"
                "      }\n    }\n"),),
        ((NEXT, f"    alloc c: register f32[BM, BN]\n    ewise c = acc + 1\n{NEXT_C}"
                "    if ti == 0 {\n      for i in 0 .. 2 {\n        ewise acc = acc * 2\n"
                "      }\n    }\n"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why_and_its_neighbour_is_accepted(name: str):
    codes, wrong, right = REFUSED[name]
    made = EpiloguePiecesPass()
    check_refused(made, edited(GEMM, *wrong), codes)
    before = parse(edited(GEMM, *right))
    check_equal(before, check_accepted(made, to_text(before)))


@pytest.mark.parametrize("count", [-2, 0, 1, 3, 6, 64, 2**40])
def test_a_count_that_is_none_is_refused(count: int):
    check_refused(EpiloguePiecesPass(columns=count), GEMM, "EP04")


def test_pieces_of_pieces_are_to_be_asked_for_at_once():
    explained = EpiloguePiecesPass(columns=4).can_be_applied(pieces_of(product())).explain()
    assert explained.endswith("hint:  say epilogue-pieces{columns=8} once")


@pytest.mark.parametrize("options", ["", "{stores=false}", "{loads=false}"])
def test_what_goes_by_descriptors_already_is_refused(options: str):
    text = to_text(parse_pipeline(f"descriptors{options}").run(product()))
    check_refused(EpiloguePiecesPass(), text, "EP06")
    check_accepted(EpiloguePiecesPass(), text.replace(" descriptor", ""))


@pytest.mark.parametrize("merge", ["workspace", "atomic-workspace"])
@pytest.mark.parametrize("layout", ["fragments", "auto"])
def test_pieces_of_slots_in_fragment_order_are_whole_blocks(merge: str, layout: str):
    walk = parse_pipeline(f"stream-k{{units=7 merge={merge} slot-layout={layout}}}")
    before = walk.run(gemm(64, 64, 256, "f32", "f32", (16, 64, 16)))
    check_refused(EpiloguePiecesPass(columns=8), to_text(before), "EP04")
    check_equal(before, pieces_of(before, 4))


def test_slots_by_rows_have_narrow_pieces():
    walk = parse_pipeline("stream-k{units=7 slot-layout=row}")
    before = walk.run(gemm(64, 64, 256, "f32", "f32", (16, 64, 16)))
    check_equal(before, pieces_of(before, 8))


METHODS = {"EP03": "mixed", "EP05": "leftovers"}
#: of "an arrival" nothing depends on the flag
NEEDED = [n for n, (codes, _, _) in REFUSED.items() if codes in METHODS and n != "an arrival"]


@pytest.mark.parametrize("name", NEEDED)
def test_without_its_criterion_a_program_is_miscompiled(monkeypatch, name: str):
    monkeypatch.setattr(Columns, METHODS[REFUSED[name][0]], lambda _: ())
    before = parse(edited(GEMM, *REFUSED[name][1]))
    try:
        after = EpiloguePiecesPass().apply(before)
    except InternalError:
        return
    assert difference(before, after, {}, 1)
