"""Every merge over every decomposition: the grid form's bits in every schedule, launch after launch
on one workspace; epilogues once; nothing added where no tile is split."""

from itertools import count, product

import numpy as np
import pytest

from loopir.interp import Seeded, WorkspaceMemory, explore, random_inputs, random_schedules, run
from loopir.interp.schedule import Schedule
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify
from passes.pipeline import parse_pipeline
from passes.stream_k.options import Merge
from tests.support.differential import Arrays, difference, with_order
from tests.support.interp import same_bits
from tests.support.kernels import DUAL, ROW_MAX
from tests.support.merge_texts import BOOLS, EPILOGUE, PAIR, ROWS, TWO
from tests.support.reference import outputs_of_both
from tests.support.texts import GEMM, edited
from tests.support.wave_kernels import GEMM_ROWS

SLOTS = ("workspace", "fixup")
WITH_EPILOGUES = (*SLOTS, "atomic-workspace")
MERGES = (*WITH_EPILOGUES, "atomic")
#: of two tiles of four panels; and of one tile of twelve, in four blocks at most
OF_TWO = (
    *("units=3", "units=3 bounds=ceil", "units=3 bounds=big-units direction=backward"),
    *("decomposition=hybrid units=3 tail=one-tile", "units=3 permuted=true"),
    *("decomposition=hybrid units=3 first=data-parallel", "decomposition=k-aligned units=3"),
)
OF_ONE = ("units=3", "splits=3", "decomposition=split-k splits=3 slot-order=split-slowest")
LARGE = (
    *(
        "units=5",
        "units=23 bounds=ceil",
        "units=40 bounds=big-units",
        "units=11 direction=backward",
    ),
    *("splits=9", "decomposition=split-k splits=5", "decomposition=split-k splits=17"),
    *("decomposition=hybrid units=3", "decomposition=hybrid units=3 tail=one-tile"),
    *("decomposition=k-aligned units=7", "decomposition=k-aligned units=16 cost=1"),
)
PROGRAMS = {"product": PAIR, "two": TWO, "bools": BOOLS}


def rewritten(text: str, merge: str, options: str, before: str = "") -> tuple[Program, Program]:
    """A program, and what the pass makes of it."""
    program = parse(text)
    after = parse_pipeline(f"{before}stream-k{{merge={merge} {options}}}").run(program)
    verify(after)
    assert parse(to_text(after)) == after
    return program, after


def launch_is_right(
    after: Program, wanted: Arrays, given: Arrays, schedule: Schedule, memory: WorkspaceMemory
) -> bool:
    arrays = with_order(after, {n: a.copy() for n, a in given.items()}, {}, len(given))
    run(after, arrays, schedule=schedule, workspace=memory)
    return all(same_bits(wanted[n], arrays[n]) for n in wanted)


def launches(before: Program, seeds: range) -> list[tuple[Arrays, Arrays]]:
    """Results and inputs of each."""
    given = [random_inputs(before, seed) for seed in seeds]
    wanted = [{n: a.copy() for n, a in arrays.items()} for arrays in given]
    for arrays in wanted:
        run(before, arrays)
    return list(zip(wanted, given, strict=True))


SMALL = (
    *((merge, o, PROGRAMS[name]) for merge in SLOTS for name in PROGRAMS for o in OF_TWO),
    *((merge, o, ROWS) for merge in SLOTS for o in OF_ONE),
    *(("atomic-workspace", o, ROWS) for o in ("units=2", "splits=2")),
    *(("workspace", "splits=4", ROWS), ("fixup", "splits=4", ROWS)),
    *(("atomic-workspace", "splits=3", ROWS), ("atomic-workspace", "units=2", PAIR)),
)


@pytest.mark.sampled
@pytest.mark.parametrize(("merge", "options", "text"), SMALL, ids=lambda x: str(x).split("(")[0])
def test_every_schedule_of_a_few_blocks_is_right_and_leaves_memory_for_the_next(
    merge: str, options: str, text: str
):
    """Every schedule of a launch, and behind each, or each seventh of very many, another launch
    with other inputs."""
    before, after = rewritten(text, merge, options)
    number, (one, two) = count(), launches(before, range(2))

    def two_launches(schedule: Schedule) -> bool:
        memory, seed = WorkspaceMemory(), next(number)
        is_right = launch_is_right(after, *one, schedule, memory)
        again = seed < 100 or seed % 7 == 0
        return is_right and (not again or launch_is_right(after, *two, Seeded(seed), memory))

    results = list(explore(two_launches, limit=3000))
    assert all(results)
    assert len(results) > 1


@pytest.mark.sampled
@pytest.mark.parametrize("merge", WITH_EPILOGUES)
@pytest.mark.parametrize("options", LARGE)
def test_forty_schedules_on_one_workspace_are_right(merge: str, options: str):
    before, after = rewritten(EPILOGUE, merge, options)
    memory, both = WorkspaceMemory(), launches(before, range(2))
    for seed, schedule in enumerate(random_schedules(40)):
        assert launch_is_right(after, *both[seed % 2], schedule, memory)


# --- epilogues


def erf(x: np.ndarray) -> np.ndarray:
    """Abramowitz and Stegun 7.1.5, to the precision of f64 where |x| < 6."""
    n = np.arange(1, 120)
    ratios = -(x[..., None] ** 2) / n * (2 * n - 1) / (2 * n + 1)
    return 2 / np.sqrt(np.pi) * x * (1 + np.cumprod(ratios, -1).sum(-1))


def expected(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """C and H of EPILOGUE in f64."""
    a, b, bias, r, c = (arrays[n].astype(np.float64) for n in ("A", "B", "bias", "R", "C"))
    x = a @ b / 64 + bias
    return a @ b * 2 + c * 3, x / 2 * (1 + erf(x * 0.5**0.5)) + r


@pytest.mark.sampled
@pytest.mark.parametrize("merge", WITH_EPILOGUES)
@pytest.mark.parametrize("splits", range(1, 18))
def test_an_epilogue_runs_once_however_often_a_tile_is_split(merge: str, splits: int):
    options = f"decomposition=split-k splits={splits}"
    before, after = rewritten(EPILOGUE, merge, options)
    arrays = random_inputs(before, splits)
    c, h = expected(arrays)
    run(after, arrays, seed=splits)
    np.testing.assert_array_equal(arrays["C"], c)
    np.testing.assert_allclose(arrays["H"], h, rtol=2**-8, atol=1e-6)
    walked = rewritten(EPILOGUE, merge, f"units={4 * splits + 1}")[1]
    assert difference(before, walked, {}, seed=splits) == ""


@pytest.mark.parametrize("merge", WITH_EPILOGUES)
def test_a_launch_that_completes_the_sizes_runs_it_once_too(merge: str):
    """Sizes of the launch, with bounds that leave units without work."""
    open_text = edited(EPILOGUE, ("M = 5, N = 7, K = 35, ", ""))
    for bounds, units in product(("floor", "ceil", "big-units"), ("", "units=11")):
        options = f"launch-constants=true bounds={bounds} {units}"
        before, after = rewritten(open_text, merge, options)
        for sizes in (
            {"M": 5, "N": 7, "K": 35},
            {"M": 4, "N": 2, "K": 9},
            {"M": 9, "N": 0, "K": 3},
        ):
            assert difference(before, after, sizes, seed=1, schedules=2) == ""


#: sides that Triton takes
TRITON = edited(EPILOGUE, ("M = 5, N = 7, K = 35, BM = 4, BN = 4, BK = 2",
                           "M = 21, N = 35, K = 100, BM = 16, BN = 16, BK = 16"))  # fmt: skip


@pytest.mark.parametrize("merge", WITH_EPILOGUES)
@pytest.mark.parametrize("options", ["units=13", "splits=7", "decomposition=hybrid units=4"])
def test_the_emitted_kernel_runs_it_once(merge: str, options: str):
    """Sums are exact; what erf gives may be an ulp of bf16 beside."""
    c, h = outputs_of_both(rewritten(TRITON, merge, options)[1], integer_valued=True)
    assert c[0].equal(c[1])
    assert (h[0].double() - h[1].double()).abs().le(2**-7 * (1 + h[1].double().abs())).all()


# --- operators, types, fragments

OTHERS = {
    "max": (ROW_MAX, SLOTS),
    "and, or of bool": (edited(BOOLS, ("K = 4", "K = 9")), SLOTS),
    "two accumulators and outputs": (DUAL, WITH_EPILOGUES),
    "f16 accumulators": (
        GEMM.replace("out C: f32", "out C: f16").replace("acc: register f32", "acc: register f16"),
        MERGES,
    ),
    "f64": (edited(ROWS.replace("f32", "f64"), ("M = 8, K", "M = 19, K")), MERGES),
    "i8 in i32": (
        edited(
            ROWS.replace("f32", "i32"), ("M = 8, K", "M = 19, K"), ("X: i32", "X: i8"),
            ("x: register i32", "x: register i8"), ("total + x", "total + cast(i32, x)"),
        ),
        MERGES,
    ),
}  # fmt: skip
OTHER_CASES = [(name, merge) for name, (_, merges) in OTHERS.items() for merge in merges]


@pytest.mark.parametrize(("name", "merge"), OTHER_CASES)
def test_other_operators_and_types_keep_every_bit(name: str, merge: str):
    for options in ("units=7", "decomposition=split-k splits=3", "decomposition=hybrid units=2"):
        before, after = rewritten(OTHERS[name][0], merge, options)
        assert difference(before, after, {}, seed=5, schedules=2) == ""


FRAGMENTS = {
    "fragments": edited(GEMM, ("K = 100", "K = 180")),  # 9 tiles of 12 panels
    "fragments in waves": edited(GEMM_ROWS, ("K = 70", "K = 180")),  # 6 tiles of 12
}
FRAGMENT_OPTIONS = (
    *("merge=auto", "merge=workspace units=11", "merge=fixup units=11", "merge=fixup splits=3"),
    *("decomposition=hybrid units=4", "decomposition=k-aligned units=5"),
)


@pytest.mark.sampled
@pytest.mark.parametrize("name", FRAGMENTS)
@pytest.mark.parametrize("options", FRAGMENT_OPTIONS)
def test_fragments_keep_every_bit_in_the_interpreter_and_emitted(name: str, options: str):
    before = parse(FRAGMENTS[name])
    after = parse_pipeline(f"mma-expand,stream-k{{{options}}}").run(before)
    assert "acc: fragment" in to_text(after)
    assert difference(before, after, {}, seed=6, schedules=2) == ""
    for found, wanted in outputs_of_both(after, integer_valued=True):
        assert found.equal(wanted)


@pytest.mark.parametrize(
    ("options", "splits"),
    [
        ("", 2),
        ("units=9", 2),
        ("units=27", 3),
        ("units=31", 3),
        ("units=32", 4),
        ("units=1000", 6),
        ("units=1000 min-panels=4", 3),
        ("merge=workspace units=27", None),
        ("merge=fixup units=27", None),
        ("decomposition=stream-k units=27", None),
        ("bounds=ceil units=27", None),
        ("direction=backward units=27", None),
        ("splits=12", 12),
    ],
)
def test_fragments_are_cut_into_equal_slices_near_the_units_asked_for(options: str, splits):
    """The divisors of 12 panels that leave two panels or more: 2, 3, 4, 6."""
    text = to_text(
        parse_pipeline(f"mma-expand,stream-k{{{options}}}").run(parse(FRAGMENTS["fragments"]))
    )
    assert ("while" in text) == (splits is None)
    assert (f"SPLITS = {splits}," in text) == (splits is not None)
    plain = to_text(parse_pipeline(f"stream-k{{{options}}}").run(parse(FRAGMENTS["fragments"])))
    assert ("while" in plain) == ("splits" not in options)


def test_panels_without_a_divisor_leave_fragments_to_a_walk():
    prime = edited(GEMM, ("K = 100", "K = 112"))
    assert "while" in to_text(parse_pipeline("mma-expand,stream-k{units=30}").run(parse(prime)))


# --- what is added, and what is not


def added(program: Program) -> set[str]:
    text = to_text(program)
    return {word for word in ("workspace", "zeroed", "arrive", "_fixup", "atomic") if word in text}


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize(
    "options",
    [
        *("splits=1", "decomposition=split-k splits=1", "units=1", "units=3", "units=9"),
        *("decomposition=hybrid units=3", "decomposition=hybrid units=9 tail=one-tile"),
        *("decomposition=k-aligned units=3", "decomposition=k-aligned units=10 cost=5"),
        *("decomposition=data-parallel", "min-panels=7 units=9 bounds=ceil"),
    ],
)
def test_where_no_tile_is_split_nothing_is_added(merge: str, options: str):
    before, after = rewritten(GEMM, merge, options)
    assert added(after) == set()
    assert len(after.kernels) == 1
    assert difference(before, after, {}, seed=1) == ""


@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("edit", [("K = 100", "K = 16"), ("M = 96", "M = 0")])
def test_one_panel_or_no_tile_adds_nothing_however_many_units_are_picked(merge: str, edit):
    assert added(rewritten(edited(GEMM, edit), merge, "")[1]) == set()


@pytest.mark.parametrize("before", ["", "mma-expand,"])
def test_one_slice_of_fragments_adds_nothing(before: str):
    assert added(rewritten(GEMM, "workspace", "splits=1", before)[1]) == set()


@pytest.mark.parametrize(
    ("merge", "words"),
    [
        ("workspace", {"workspace", "arrive"}),
        ("fixup", {"workspace", "_fixup"}),
        ("atomic-workspace", {"workspace", "arrive", "zeroed", "atomic"}),
        ("atomic", {"zeroed", "atomic"}),
    ],
)
def test_a_merge_adds_just_what_it_needs(merge: str, words: set[str]):
    in_waves = "decomposition=hybrid units=4", "decomposition=k-aligned units=4"
    for options in ("units=5", "splits=7", *in_waves, "units=5 permuted=true"):
        assert added(rewritten(GEMM, merge, options)[1]) == words


def test_auto_is_workspace():
    assert rewritten(EPILOGUE, "auto", "units=5") == rewritten(EPILOGUE, "workspace", "units=5")
    assert {m.value for m in Merge} == {"auto", *MERGES}


def test_the_second_kernel_may_have_the_name_of_a_parameter_or_a_size():
    text = edited(
        GEMM.replace("BN", "gemm_fixup"), ("B: f16", "gemm_1: f16"), ("B[kp", "gemm_1[kp")
    )
    before, after = rewritten(text, "fixup", "units=5")
    assert [k.name for k in after.kernels] == ["gemm", "gemm_fixup"]
    assert difference(before, after, {}, seed=1) == ""
    for found, wanted in outputs_of_both(after, integer_valued=True):
        assert found.equal(wanted)


@pytest.mark.parametrize("name", ["gemm_fixup", "partials", "arrivals", "last", "parts", "first"])
def test_a_parameter_of_that_name_is_launched_too(name: str):
    text = GEMM.replace("B[", f"{name}[").replace(" B:", f" {name}:")
    for merge in SLOTS:
        for found, wanted in outputs_of_both(
            rewritten(text, merge, "units=5")[1], integer_valued=True
        ):
            assert found.equal(wanted)


def test_a_merge_that_drops_a_part_is_seen():
    """Control of the comparisons here."""
    before, after = rewritten(EPILOGUE, "workspace", "units=11")
    text = to_text(after)
    broken = parse(edited(text, ("for s in 0 .. parts", "for s in 1 .. parts")))
    assert difference(before, broken, {}, seed=1) != ""
