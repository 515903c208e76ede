"""Every decomposition with every option: the kernel computes just the segments of the schedule in
`passes.decomposition`, and what it computes has the bits of the grid form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from random import Random

import pytest

from loopir.build import gemm
from loopir.interp import OutOfBoundsError, Seeded, all_schedules, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import to_expr
from loopir.verifier import verify
from passes.base import Applicable
from passes.decomposition import (
    Bounds,
    DataParallel,
    Direction,
    Hybrid,
    HybridKind,
    KAligned,
    Schedule,
    SlotOrder,
    SplitK,
    StreamK,
)
from passes.pipeline_text import parse_pass
from passes.stream_k import Merge, StreamKPass, walk
from tests.support.differential import with_order
from tests.support.interp import same_bits
from tests.support.segments import Part, sums, traced
from tests.support.texts import GEMM, edited

#: tiles and panels
SPACES = [(1, 1), (1, 7), (3, 2), (5, 4), (7, 1), (8, 3)]
COUNTS = (1, 2, 3, 5, 40)
MERGES = ("workspace", "atomic", "fixup", "atomic-workspace")


@dataclass(frozen=True)
class Family:
    """`options` of the pass but a count, of units or splits, which `counted` names; `schedule`: of
    tiles, panels and that count."""

    options: str
    schedule: Callable[[int, int, int], Schedule]
    counted: str = "units"

    def __str__(self) -> str:
        return self.options or "stream-k"

    def made(self, count: int, more: str = "") -> StreamKPass:
        made = parse_pass(f"stream-k{{{self.options} {self.counted}={count} {more}}}")
        assert isinstance(made, StreamKPass)
        return made


def _stream_k() -> Iterator[Family]:
    for b, least, d in product(Bounds, (1, 3), Direction):
        options = f"bounds={b.value} min-panels={least} direction={d.value}"
        yield Family(options, lambda *n, o=(b, least, d): StreamK(*n, *o))


def _hybrids() -> Iterator[Family]:
    for kind, first, b, d in product(HybridKind, (True, False), Bounds, Direction):
        least = 2 if b is Bounds.BIG_UNITS else 1
        options = (
            f"decomposition=hybrid tail={kind.value} bounds={b.value} direction={d.value}"
            f" first={'stream-k' if first else 'data-parallel'} min-panels={least}"
        )
        yield Family(options, lambda *n, o=(kind, first, b, least, d): Hybrid(*n, *o))


def _split_k() -> Iterator[Family]:
    for order in SlotOrder:
        options = f"decomposition=split-k slot-order={order.value}"
        yield Family(options, lambda *n, o=order: SplitK(*n, o), "splits")


def _k_aligned() -> Iterator[Family]:
    for cost, least in ((0, 1), (2, 1), (1, 2)):
        options = f"decomposition=k-aligned cost={cost} min-panels={least}"
        yield Family(options, lambda *n, o=(cost, least): KAligned(*n, *o))


STREAM_K, HYBRIDS, SPLIT_K = tuple(_stream_k()), tuple(_hybrids()), tuple(_split_k())
K_ALIGNED = tuple(_k_aligned())
DATA_PARALLEL = Family("decomposition=data-parallel", DataParallel)
FAMILIES = (*STREAM_K, *HYBRIDS, *SPLIT_K, *K_ALIGNED, DATA_PARALLEL)
#: the segments of a unit, or those of all units
Parts = tuple[Part, ...]


def expected(schedule: Schedule, unit: int) -> Parts:
    return tuple(Part(s.tile, s.k0, s.k1, s.contributors == 1) for s in schedule.segments(unit))


def plan_schedule(made: StreamKPass, program: Program) -> Schedule | None:
    verdict = made.can_be_applied(program)
    assert isinstance(verdict, Applicable)
    return verdict.plan.schedule


def check(made: StreamKPass, schedule: Schedule, program: Program, **sizes: int) -> None:
    """The blocks of the launch, those without work apart, are the units of the schedule."""
    after = made.apply(program)
    verify(after)
    order = tuple(range(schedule.units))
    if made.permuted:
        Random(schedule.units).shuffle(shuffled := list(order))
        order = tuple(shuffled)
    found = traced(after, sizes, order, Seeded(schedule.units))
    assert [p for p in found if p] == [expected(schedule, unit) for unit in order]


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.timeout(120)
def test_a_kernel_computes_the_segments_of_its_schedule(family: Family):
    some = FAMILIES.index(family) % 3
    spaces = list(product(SPACES, COUNTS))[some::3]
    for ((tiles, panels), count), merge in zip(spaces, cycle(MERGES), strict=False):
        made, schedule = family.made(count, f"merge={merge}"), family.schedule(tiles, panels, count)
        program = sums(tiles, panels)
        assert plan_schedule(made, program) == schedule
        check(made, schedule, program)


@pytest.mark.parametrize("family", FAMILIES[::3], ids=str)
def test_blocks_of_a_permuted_kernel_take_the_units_of_the_order(family: Family):
    spaces = product(SPACES[1:5], (2, 5, 40))
    for ((tiles, panels), count), merge in zip(spaces, cycle(MERGES), strict=False):
        made = family.made(count, f"merge={merge} permuted=true")
        check(made, family.schedule(tiles, panels, count), sums(tiles, panels))


def is_open(family: Family) -> bool:
    """Whether the launch can complete it: without what is computed from the sizes."""
    in_waves = family in (*HYBRIDS, *K_ALIGNED)
    return not (in_waves or "bounds=ceil min-panels=3" in family.options)


@pytest.mark.sampled
@pytest.mark.parametrize("family", list(filter(is_open, FAMILIES)), ids=str)
@pytest.mark.parametrize("permuted", ["", "permuted=true"])
def test_sizes_of_the_launch_give_the_same_segments(family: Family, permuted: str):
    for known, count in (((None, None), 5), ((5, None), 3), ((None, 4), 40)):
        merge = MERGES[(count + bool(permuted)) % 4]
        made = family.made(count, f"merge={merge} launch-constants=true {permuted}")
        assert plan_schedule(made, sums(*known)) is None
        for tiles, panels in SPACES:
            tiles, panels = known[0] or tiles, known[1] or panels
            given = {n: v for n, v, k in zip("TK", (tiles, panels), known, strict=True) if not k}
            schedule = family.schedule(tiles, panels, count)
            if (
                permuted
                and "ceil" in family.options
                and schedule.units < min(count, tiles * panels)
            ):
                continue  # there are units without work, which the order names too
            check(made, schedule, sums(*known), **given)


@pytest.mark.parametrize("family", list(filter(is_open, STREAM_K)), ids=str)
def test_units_that_the_launcher_picks_walk_the_schedule_of_so_many(family: Family):
    for (tiles, panels), merge in zip(SPACES[1:], cycle(MERGES), strict=False):
        options = f"{family.options} merge={merge} launch-constants=true"
        made = parse_pass(f"stream-k{{{options}}}")
        assert isinstance(made, StreamKPass)
        for units in {1, 2, StreamK(tiles, panels, 99, min_panels=made.min_panels).units}:
            schedule = family.schedule(tiles, panels, units)
            check(made, schedule, sums(), T=tiles, K=panels, UNITS=units)


@pytest.mark.parametrize("splits", [1, 2, 3, 6])
def test_splits_alone_are_aligned_slices(splits: int):
    made = StreamKPass(splits=splits)
    program = sums(4, 6)
    assert plan_schedule(made, program) == SplitK(4, 6, splits)
    check(made, SplitK(4, 6, splits), program)
    check(StreamKPass(splits=splits, units=4 * splits), SplitK(4, 6, splits), program)


def test_without_units_data_parallel_has_a_block_a_tile():
    made = StreamKPass(decomposition="data-parallel")  # pyright: ignore[reportArgumentType]
    check(made, DataParallel(5, 3), sums(5, 3))
    text = to_text(made.apply(sums(5, 3)))
    assert "while" not in text
    assert "for tile" not in text


def test_a_kernel_that_loses_a_panel_is_seen(monkeypatch: pytest.MonkeyPatch):
    cut = walk.unit_range
    monkeypatch.setattr(walk, "unit_range", lambda *n: (cut(*n)[0], cut(*n)[1] - to_expr(1)))
    with pytest.raises(OutOfBoundsError):  # the loss moves what meets in a tile
        check(StreamKPass(units=3), StreamK(5, 4, 3), sums(5, 4))
    with pytest.raises(AssertionError):
        check(StreamKPass(units=3, merge=Merge.ATOMIC), StreamK(5, 4, 3), sums(5, 4))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("let k1 = k0 + max(P", "let k1 = k0 + max(P - 1"),
        ("let k0 = min(", "let k0 = min(1 + "),
        ("+ top - turn,", "+ turn,"),
        ("WAVES + top + 1 -", "WAVES + top -"),
    ],
)
def test_a_k_aligned_kernel_that_takes_other_panels_is_seen(right: str, wrong: str):
    made, schedule = parse_pass(K_ALIGNED_BY_ATOMICS), KAligned(11, 20, 8, min_panels=4)
    text = to_text(made.apply(sums(11, 20)))
    check_text(text, schedule)
    changed = edited(text, (right, wrong))
    with pytest.raises((AssertionError, OutOfBoundsError)):
        check_text(changed, schedule)


K_ALIGNED_BY_ATOMICS = "stream-k{decomposition=k-aligned units=8 min-panels=4 merge=atomic}"


def check_text(text: str, schedule: Schedule) -> None:
    order = tuple(range(schedule.units))
    found = traced(parse(text), {}, order, Seeded(0))
    assert [*found] == [expected(schedule, unit) for unit in order]


# --- bits


def same(before: Program, made: StreamKPass, seeds: range) -> bool:
    after = made.apply(before)
    wanted = random_inputs(before, 1)
    run(before, wanted)
    for seed in seeds:
        arrays = with_order(after, random_inputs(before, 1), {}, seed)
        run(after, arrays, schedule=Seeded(seed))
        if not same_bits(wanted["C"], arrays["C"]):
            return False
    return True


#: tiles, and one panel, and K no multiple of BK
PRODUCTS = {
    "3x3 tiles": gemm(9, 7, 20, "f16", tile=(4, 3, 3)),
    "one tile": gemm(3, 3, 17, "bf16", tile=(4, 4, 4)),
    "one panel": gemm(9, 9, 3, "f32", tile=(4, 4, 4)),
    "no tile": gemm(0, 9, 3, "f32", tile=(4, 4, 4)),
    "an empty sum": gemm(9, 9, 0, "f32", tile=(4, 4, 4)),
}


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_has_the_bits_of_the_grid_form(family: Family, name: str):
    for count, more in ((4, ""), (7, "permuted=true"), (100, "")):
        assert same(PRODUCTS[name], family.made(count, more), range(3))


@pytest.mark.parametrize("family", [*HYBRIDS[::5], *SPLIT_K, K_ALIGNED[0]], ids=str)
def test_every_interleaving_of_a_small_product_has_the_same_bits(family: Family):
    before, made = gemm(4, 2, 6, "f16", tile=(2, 2, 3)), family.made(2)
    after, wanted = made.apply(before), random_inputs(before, 0)
    run(before, wanted)
    results = list(all_schedules(after, lambda: random_inputs(before, 0), limit=100_000))
    assert results
    assert all(same_bits(r.arrays["C"], wanted["C"]) for r in results)


def test_another_sum_is_no_match():
    """Control: the bits of a product that starts at one."""
    wrong = parse(
        to_text(StreamKPass(units=4).apply(PRODUCTS["3x3 tiles"])).replace("acc, 0", "acc, 1")
    )
    wanted = random_inputs(PRODUCTS["3x3 tiles"], 1)
    run(PRODUCTS["3x3 tiles"], wanted)
    arrays = random_inputs(wrong, 1)
    run(wrong, arrays)
    assert not same_bits(arrays["C"], wanted["C"])


# --- what a hybrid looks like


def hybrid(text: str = GEMM, units: int = 4, **options: str) -> str:
    made = StreamKPass(decomposition="hybrid", units=units, **options)  # pyright: ignore
    program = made.apply(parse(text))
    verify(program)
    assert parse(to_text(program)) == program
    return to_text(program)


def test_a_stream_k_part_with_fewer_units_than_the_launch_is_guarded():
    one_panel = edited(GEMM, ("K = 100", "K = 20"))  # 9 tiles of 2 panels
    assert "if unit < SK_UNITS {" in hybrid(one_panel, 4, tail="one-tile")
    assert "SK_TILES = 1, TOTAL = P * SK_TILES, SK_UNITS = 2, UNITS = 4" in hybrid(
        one_panel, 4, tail="one-tile"
    )
    assert "if unit < " not in hybrid(GEMM, 4, tail="one-tile")


def test_the_parts_of_a_hybrid_share_no_name():
    text = hybrid(first="data-parallel", tail="one-tile")
    for name in ("acc", "a", "b", "ti", "tj"):
        assert text.count(f" {name}:") + text.count(f"let {name} =") == 1
        assert text.count(f" {name}_1:") + text.count(f"let {name}_1 =") == 1


@pytest.mark.parametrize("panels", ["K = 16", "K = 100"])
@pytest.mark.parametrize("units", [3, 9, 1])
def test_without_a_tail_or_with_one_panel_nothing_is_split(units: int, panels: str):
    tail = 9 % units
    text = hybrid(edited(GEMM, ("K = 100", panels)), units)
    assert ("arrive" in text) == (tail > 0 and panels == "K = 100")
    assert ("workspace" in text) == ("arrive" in text)


NAMES = ("it", "it_1", "it_end", "it_end_1", "tile", "tile_1", "tile_1_1", "k0", "k1", "k1_1",
         "unit", "block", "order", "split", "acc_1", "kp_1", "ti_1", "group_start", "TILES",
         "SK_TILES", "SK_UNITS", "SPLITS", "SHARE", "TOTAL", "UNITS", "SLOTS", "COUNTERS", "first",
         "first_1", "parts", "last", "last_1", "s", "s_1", "partials", "partials_1", "arrivals",
         "acc_part", "acc_part_1", "layer", "rank", "crew", "start", "rest", "span", "top", "turn",
         "tail", "LAYERS", "WAVES", "CHUNKS", "GRAIN")  # fmt: skip


@pytest.mark.parametrize(
    "family", [HYBRIDS[0], HYBRIDS[-1], SPLIT_K[0], K_ALIGNED[0], DATA_PARALLEL], ids=str
)
def test_names_of_the_user_stay_as_they_are(family: Family):
    """Each of the names that the rewrite wants, and those of a second part, as a scalar of the
    user's, in the sums."""
    lets = "".join(f"    let {name} = {i}\n" for i, name in enumerate(NAMES))
    text = edited(
        GEMM,
        (
            "M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16",
            "M = 9, N = 7, K = 9, BM = 3, BN = 3, BK = 2",
        ),
        ("BN)] {", "BN)] order grouped(2) {"),
        ("    fill acc, 0\n", f"    fill acc, 0\n{lets}"),
        ("A[ti * BM +:", f"A[ti * BM + ({' + '.join(NAMES)} - {sum(range(len(NAMES)))}) +:"),
    )
    program = parse(text)
    verify(program)
    for merge in MERGES if family is not DATA_PARALLEL else MERGES[:1]:
        assert same(program, family.made(4, f"merge={merge}"), range(2))
        assert same(program, family.made(4, f"merge={merge} permuted=true"), range(1))


@pytest.mark.parametrize(
    "name", ["order", "it_1", "acc_1", "SK_TILES", "unit", "partials", "arrivals", "SLOTS", "s"]
)
def test_parameters_and_sizes_of_the_user_stay_as_they_are(name: str):
    small = f"where {name} = 7, M = 9, N = {name}, K = 40, BM = 4, BN = 4"
    text = edited(GEMM, ("where M = 96, N = 80, K = 100, BM = 32, BN = 32", small))
    assert same(parse(text), HYBRIDS[0].made(4, "permuted=true"), range(2))
    buffer = GEMM.replace("B[", f"{name}[").replace(" B:", f" {name}:")
    assert same(parse(buffer), HYBRIDS[0].made(4, "permuted=true"), range(1))
