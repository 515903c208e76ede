"""The CUTLASS rule against its published examples and figures, and against a second formulation."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from passes.decomposition import check_exact_cover
from passes.decomposition.cutlass import (
    CutlassPlan,
    CutlassSchedule,
    Mode,
    Raster,
    Reason,
    cutlass_rule,
    simple_rule,
)
from passes.decomposition.simulation import simulate
from tests.support import cutlass_formulation as second

MODES = (Mode.HEURISTIC, Mode.DATA_PARALLEL, Mode.SPLIT_K, Mode.STREAM_K)
RASTERS = (Raster.HEURISTIC, Raster.ALONG_M, Raster.ALONG_N)
MAKESPANS = json.loads((Path(__file__).parent / "schedule_makespan.json").read_text())["rows"]

H, DP, SPLIT, SK = MODES
WIDE = {"tile": (128, 256, 64), "cluster": (2, 2)}
TALL = {"tile": (256, 128, 64), "cluster": (2, 1)}


def plan(sizes: tuple[int, ...], sms: int, mode: Mode = H, **options) -> CutlassPlan:
    return cutlass_rule(*sizes, sms=sms, mode=mode, **options)


EXAMPLES = [
    ((1536, 1536, 4096), 132, H, {}, SK, {"tiles": 144, "sk_units": 132, "groups": 6, "share": 69}),
    ((1536, 1536, 4096), 132, H, {}, SK, {"busiest": 76, "ideal": 70}),
    ((1536, 1536, 4096), 132, DP, {}, DP, {"busiest": 128}),
    ((128, 4096, 4096), 132, H, {}, SK, {"tiles": 32, "sk_units": 132, "peers": 5, "busiest": 22}),
    ((4096, 4096, 4096), 132, H, {}, DP, {"busiest": 512, "ideal": 497}),
    ((8320, 128, 4096), 132, H, {}, SK, {"tiles": 65, "busiest": 38}),
    ((8448, 128, 4096), 132, H, {}, DP, {"tiles": 66, "busiest": 64, "ideal": 32}),
    (
        (3840, 3840, 4096),
        148,
        H,
        {},
        SK,
        {"tiles": 900, "sk_tiles": 160, "whole": 740, "groups": 4},
    ),
    ((3840, 3840, 4096), 148, H, {}, SK, {"sk_units": 148}),
    ((2048, 2048, 2048), 108, H, {}, SK, {"sk_tiles": 148, "whole": 108, "sk_units": 108}),
    ((1, 8192, 8192), 132, H, {"tile": (64, 64, 64)}, DP, {"tiles": 128}),
    ((256, 256, 16384), 148, H, TALL, SPLIT, {"splits": 32}),
    ((128, 512, 2048), 114, H, {"cluster": (2, 1)}, SPLIT, {"splits": 4}),
    ((2048, 5120, 8192), 132, H, WIDE, DP, {"busiest": 384}),
    ((2048, 5120, 8192), 132, SK, WIDE, SK, {"busiest": 360}),
]


@pytest.mark.parametrize(("sizes", "sms", "asked", "options", "mode", "figures"), EXAMPLES)
def test_published_examples(sizes, sms, asked, options, mode, figures):
    p = plan(sizes, sms, asked, **options)
    found = {
        "tiles": p.geometry.tiles,
        "sk_tiles": p.sk_tiles,
        "sk_units": p.sk_units,
        "groups": p.groups,
        "share": p.k_tiles_per_unit,
        "splits": p.splits,
        "busiest": p.busiest,
        "ideal": p.ideal,
        "peers": p.peers()[-1][0],
        "whole": p.whole_tiles,
    }
    assert p.mode is mode
    assert {name: found[name] for name in figures} == figures


def test_groups_that_do_not_share_evenly_load_one_block_more():
    """Seven groups of one unit, of one or two tiles each, and ten whole tiles a block."""
    p = plan((1152, 1152, 4096), 7, SK)
    assert (p.geometry.tiles, p.sk_tiles, p.groups, p.big_groups) == (81, 11, 7, 4)
    assert (p.busiest, p.ideal) == (768, 741)


@pytest.mark.parametrize(("cluster", "blocks"), [((2, 1), 132), ((2, 2), 116), ((4, 1), 116)])
def test_an_h100_has_room_for_so_many_blocks_of_a_cluster(cluster, blocks):
    assert plan((4096, 4096, 4096), 132, cluster=cluster).geometry.wave == blocks


def test_the_grid_follows_the_known_number_of_clusters():
    tall = plan((4096, 4096, 64), 132, cluster=(2, 2), max_active_clusters=32).geometry
    assert (tall.grid, tall.raster) == ((2, 64, 1), Raster.ALONG_N)
    wide = plan((64, 4096, 64), 132, cluster=(2, 1), max_active_clusters=60).geometry
    assert (wide.grid, wide.raster) == ((120, 1, 1), Raster.ALONG_M)
    too_many = plan((4096, 4096, 64), 132, cluster=(2, 2), max_active_clusters=34).geometry
    assert too_many.grid == (2, 58, 1)


@pytest.mark.parametrize(("swizzle", "tiles"), [(1, 195), (2, 224), (4, 256), (8, 256)])
def test_swizzle_pads_with_phantom_tiles(swizzle, tiles):
    g = plan((13 * 128, 15 * 128, 64), 132, max_swizzle=swizzle).geometry
    assert (g.tiles, g.phantom_tiles) == (tiles, tiles - 195)


# the busiest block over the ideal, for 1 .. 1056 tiles on 132 SMs
BALANCE = [
    (H, 16, 1.13, 2, 1.17, 2.0, 66),
    (H, 32, 1.095, 3, 1.31, 2.0, 66),
    (H, 64, 1.082, 3, 1.31, 2.0, 66),
    (H, 128, 1.072, 3, 1.28, 2.0, 66),
    (H, 256, 1.064, 3, 1.25, 2.0, 66),
    (SK, 16, 1.127, 3, None, 1.78, 67),
    (SK, 32, 1.086, 3, None, 1.78, 34),
    (SK, 64, 1.050, 3, None, 1.78, 17),
    (SK, 128, 1.028, 3, None, 1.78, 9),
    (SK, 256, 1.015, 3, None, 1.6, 5),
]


@pytest.mark.parametrize(("mode", "k_tiles", "mean", "digits", "low", "worst", "at"), BALANCE)
def test_published_balance(mode, k_tiles, mean, digits, low, worst, at):
    plans = [plan((128 * tiles, 128, 64 * k_tiles), 132, mode) for tiles in range(1, 1057)]
    ratios = [p.busiest / p.ideal for p in plans]
    assert round(sum(ratios) / len(ratios), digits) == mean
    assert low is None or round(sum(ratios[:131]) / 131, 2) == low
    assert round(max(ratios), 2) == worst
    assert ratios.index(max(ratios)) + 1 == at


@pytest.mark.parametrize("row", MAKESPANS, ids=lambda r: f"{r['m']}x{r['n']}x{r['k']}")
def test_the_simple_rule_has_the_published_makespan(row):
    found = simple_rule(row["tiles"], row["iterations"], row["sms"])
    text = "DataParallel"
    if found.mode is SK:
        text = f"StreamK sk_tiles={found.sk_tiles} units={found.sk_units}"
    assert text == row["rule"]
    assert simulate(found.schedule(), places=row["sms"]).makespan == row["rule_makespan"]


def test_the_simple_rule_splits_evenly_where_it_can():
    found = simple_rule(tiles=4, panels=64, sms=32)
    assert (found.mode, found.splits, found.reason) == (SPLIT, 8, Reason.EVEN_SPLIT)
    assert found.schedule().units == 32


@pytest.mark.parametrize(
    ("sizes", "asked", "reason"),
    [
        ((1536, 1408, 4096), H, Reason.FULL_WAVES),
        ((1536, 1536, 512), SK, Reason.SHORT_K),
        ((8448, 128, 4096), H, Reason.TAIL_HALF_FULL),
        ((8320, 128, 4096), H, Reason.TAIL),
        ((128, 8448, 4096), SK, Reason.ASKED),
        ((1536, 1536, 4096), DP, Reason.ASKED),
        ((128, 1408, 4096), H, Reason.EVEN_SPLIT),
    ],
)
def test_the_part_of_the_rule_that_fired_is_named(sizes, asked, reason):
    assert plan(sizes, 132, asked).reason is reason


@pytest.mark.parametrize(
    ("splits", "k", "factor"), [(1, 4096, 1), (3, 4096, 3), (500, 16384, 132), (64, 512, 8)]
)
def test_an_asked_split_is_held_within_the_machine_and_the_k_tiles(splits, k, factor):
    for mode in (SPLIT, H) if splits > 1 else (SPLIT,):
        p = plan((256, 256, k), 132, mode, splits=splits)
        assert (p.mode, p.splits, p.reason) == (SPLIT, factor, Reason.ASKED)


def test_an_alignment_of_the_start_lowers_splits_of_one_k_tile():
    sizes = (256, 256, 512)
    assert plan(sizes, 132, SPLIT, splits=8, k_alignment=4).splits == 2
    assert plan(sizes, 132, SPLIT, splits=4, k_alignment=4).splits == 4


def test_workspace_counts_the_tiles_that_are_split():
    tile = 128 * 128 * 4
    split = plan((128, 128 * 5, 4096), 132, SPLIT, splits=2)
    assert (split.reduction_bytes, split.barrier_bytes) == (5 * tile, 128)
    stream = plan((3840, 3840, 4096), 148, warp_groups=1, accumulator_bytes=8)
    assert (stream.reduction_bytes, stream.barrier_bytes) == (160 * 2 * tile, 640)
    assert plan((4096, 4096, 4096), 132).workspace_bytes == 0


def test_a_size_of_zero_has_no_tile_and_k_of_zero_one_k_tile():
    for sizes in ((0, 128, 128), (128, 0, 128), (128, 128, 128, 0)):
        p = plan(sizes, 132)
        assert (p.geometry.tiles, p.mode, set(map(p.work, range(132)))) == (0, DP, {()})
        assert CutlassSchedule(p).units == 0
    (segment,) = plan((128, 128, 0), 132).work(0)
    assert (segment.k0, segment.k1) == (0, 1)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("m", {"sizes": (-1, 1, 1)}),
        ("k", {"sizes": (1, 1, 1.5)}),
        ("batch", {"sizes": (1, 1, 1, -1)}),
        ("sms", {"sms": 0}),
        ("tile", {"tile": (128, 0, 64)}),
        ("tile", {"tile": (128, 128)}),
        ("cluster", {"cluster": (0, 1)}),
        ("cluster", {"cluster": (2, 2), "sms": 3}),
        ("cluster", {"cluster": (5, 4)}),
        ("max_swizzle", {"max_swizzle": 0}),
        ("raster", {"raster": "along-m"}),
        ("mode", {"mode": "stream-k"}),
        ("splits", {"splits": 0}),
        ("splits", {"splits": 2, "mode": SK}),
        ("max_active_clusters", {"max_active_clusters": 0}),
        ("k_alignment", {"k_alignment": 0}),
        ("accumulator_bytes", {"accumulator_bytes": 0}),
        ("warp_groups", {"warp_groups": 0}),
    ],
)
def test_an_impossible_argument_is_named(name, changes):
    sizes = changes.pop("sizes", (128, 128, 128))
    with pytest.raises(ValueError, match=f"^{name}: "):
        cutlass_rule(*sizes, **{"sms": 132, **changes})


def test_a_block_or_tile_that_is_not_there_is_an_index_error():
    p = plan((1536, 1536, 4096), 132)
    for call in (lambda: p.work(132), lambda: p.contributors(144), lambda: p.work(-1)):
        with pytest.raises(IndexError, match="of 1"):
            call()


def test_the_explanation_says_every_figure():
    assert plan((2048, 5120, 8192), 132, SK, **WIDE).explain().splitlines() == [
        "tiles     16 x 20 x 1 = 320; 128 k tiles each",
        "grid      58 x 2 x 1 = 116 blocks in clusters of 2x2, along-m, swizzle 1; "
        "2 full waves, tail 88",
        "rule      stream-k: the mode was asked for",
        "share     204 tiles over 116 units, 225 k tiles a unit, 12 one more, "
        "cuts moved to leave 8 or more; then 116 whole tiles",
        "balance   busiest block 360 k tiles, ideal 354",
        "peers     216 tiles of 1, 104 tiles of 2",
        "workspace 26738688 bytes of partial tiles, 1664 bytes of barriers, zero at the launch",
    ]


# the second formulation

CHUNK = 25_000


def rule_of(p: second.Problems) -> CutlassPlan:
    return cutlass_rule(
        int(p.m),
        int(p.n),
        int(p.k),
        int(p.batch),
        sms=int(p.sms),
        tile=tuple(p.tile.tolist()),
        cluster=tuple(p.cluster.tolist()),
        max_swizzle=int(p.max_swizzle),
        raster=RASTERS[p.raster],
        mode=MODES[p.mode],
        splits=int(p.splits),
        max_active_clusters=int(p.active) or None,
        k_alignment=int(p.alignment),
        warp_groups=int(p.warp_groups),
    )


def figures(p: CutlassPlan) -> dict[str, int]:
    g = p.geometry
    own = (
        "splits sk_tiles sk_units groups big_groups k_tiles_per_unit big_units "
        "reduction_bytes barrier_bytes"
    )
    return {
        **{name: getattr(g, name) for name in ("tiles", "wave", "k_tiles", "log_swizzle")},
        **{name: getattr(g, name) for name in ("padded_m", "padded_n")},
        "along_m": g.raster is Raster.ALONG_M,
        "mode": MODES.index(p.mode),
        **{name: getattr(p, name) for name in own.split()},
    }


@pytest.mark.parametrize("seed", range(5))
def test_the_rule_agrees_with_a_second_formulation(seed):
    problems = second.random_problems(seed, CHUNK)
    columns = second.formulate(problems)
    usable = columns.pop("usable")
    names, rows = list(columns), zip(*(c.tolist() for c in columns.values()), strict=True)
    modes = set()
    for i, (fits, row) in enumerate(zip(usable, rows, strict=True)):
        if not fits:
            with pytest.raises(ValueError, match="cluster: not one of"):
                rule_of(problems[i])
            continue
        found = figures(rule_of(problems[i]))
        assert found == dict(zip(names, row, strict=True)), problems[i]
        modes.add((found["mode"], found["groups"]))
    assert len(modes) >= 10  # data-parallel, split-K, and Stream-K in 1 .. 8 groups
    assert usable.sum() > 0.9 * CHUNK


@pytest.mark.parametrize("figure", ["sk_units", "groups", "barrier_bytes", "padded_n"])
def test_control_a_figure_that_is_off_by_one_is_caught(figure):
    problems = second.random_problems(0, 50)
    columns = second.formulate(problems)
    i = next(i for i in range(50) if columns["usable"][i])
    row = {name: int(c[i]) for name, c in columns.items() if name != "usable"}
    assert figures(rule_of(problems[i])) == row
    assert figures(rule_of(problems[i])) != {**row, figure: row[figure] + 1}


def stream_k_sample(seed: int, count: int):
    """Problems that end as Stream-K and are small enough to be counted out."""
    problems = second.random_problems(seed, count)
    columns = second.formulate(problems)
    small = columns["usable"] & (columns["mode"] == second.STREAM_K)
    small &= (columns["sk_tiles"] * columns["k_tiles"] < 6000) & (columns["sk_units"] < 64)
    for i in small.nonzero()[0]:
        row = {name: int(column[i]) for name, column in columns.items()}
        yield rule_of(problems[i]), row, int(problems.cluster[i].prod())


def test_the_work_of_each_block_agrees_with_dealing_out_the_k_tiles():
    checked = 0
    for p, row, cluster in stream_k_sample(seed=11, count=4000):
        for block, expected in enumerate(second.stream_k_work(row, cluster)):
            segments = p.work(block)
            assert [(s.tile, s.k0, s.k1) for s in segments] == expected, (p, block)
            assert {s.unit for s in segments} <= {block}
        checked += 1
    assert checked > 100


# coverage


def check_cover(p: CutlassPlan) -> None:
    """Every (tile, k tile) once; slots, contributors, loads; in Stream-K at least eight k tiles a
    part, which are waited for in the order of the blocks."""
    parts: list[list[tuple[int, int, int, int, int]]] = [[] for _ in range(p.geometry.tiles)]
    for block, load in enumerate(p.loads()):
        segments = p.work(block)
        assert sum(s.k1 - s.k0 for s in segments) == load
        for s in segments:
            parts[s.tile].append((s.k0, s.k1, s.slot, s.contributors, block))
    least = 8 if p.mode is SK else 1
    for tile, found in enumerate(parts):
        found.sort()
        done, count = 0, p.contributors(tile)
        for ordinal, (k0, k1, slot, contributors, _) in enumerate(found):
            assert (k0, slot, contributors) == (done, ordinal, count), (p, tile)
            assert k1 - k0 >= least
            done = k1
        assert (done, len(found)) == (p.geometry.k_tiles, count), (p, tile)
        if p.mode is SK:
            blocks = [block for *_, block in found]
            assert blocks == sorted(blocks)
            assert count <= p.sk_units // p.sk_tiles + 2


K_SIZES = range(128, 16384, 256)


def vector(blocks_m: int, blocks_n: int, batch: int, k: int, sms: int, mode: Mode) -> CutlassPlan:
    return plan((256 * blocks_m, 128 * blocks_n, k, batch), sms, mode, **TALL)


def test_full_waves_have_no_stream_k_tile_as_in_cutlass_own_test():
    for blocks_m, blocks_n, sms in ((4, 4, 16), (16, 4, 64), (8, 27, 108)):
        for batch in (1, 2, 3):
            for k in K_SIZES:
                p = vector(blocks_m, blocks_n, batch, k, sms, H)
                assert (p.mode, p.sk_tiles) == (DP, 0)
            check_cover(p)


@pytest.mark.parametrize("sms", [16, 64, 108])
def test_a_sample_of_cutlass_own_coverage_test_is_covered(sms):
    modes = set()
    cases = list(product(range(1, 25), range(1, 25), (1, 2, 3), K_SIZES))
    for m, n, batch, k in cases[sms::701]:
        for mode in (H, SK):
            p = vector(m, n, batch, k, sms, mode)
            check_cover(p)
            modes.add(p.mode)
    assert modes >= {DP, SK}


@pytest.mark.long
@pytest.mark.timeout(300)  # some ten seconds on a core of its own
@pytest.mark.parametrize("sms", [16, 64, 108])
@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("first", range(1, 25, 3))
def test_all_of_cutlass_own_coverage_test_is_covered(sms, batch, first):
    for blocks_m, blocks_n, k in product(range(first, first + 3), range(1, 25), K_SIZES):
        check_cover(vector(blocks_m, blocks_n, batch, k, sms, H))


def test_cutlass_own_last_case_is_covered():
    check_cover(plan((128, 512, 2048), 114, cluster=(2, 1)))


def test_random_plans_are_covered_also_as_schedules():
    problems = second.random_problems(seed=5, count=1500)
    usable = second.formulate(problems)["usable"]
    checked = 0
    for i in usable.nonzero()[0]:
        p = rule_of(problems[i])
        if p.geometry.tiles * p.splits < 400:
            check_cover(p)
            check_exact_cover(CutlassSchedule(p))
            checked += 1
    assert checked > 500


def test_a_unit_that_its_neighbours_leave_nothing_is_not_in_the_schedule():
    p = plan((128, 128 * 8, 64 * 13), 132, SK)
    loads = p.loads()
    empty = loads[: p.sk_units].count(0)
    assert empty > 0
    assert CutlassSchedule(p).units == p.sk_units - empty
    check_cover(p)


def test_the_stream_k_part_of_a_schedule_leaves_the_whole_tiles_out():
    schedule = CutlassSchedule(plan((3840, 3840, 4096), 148))
    part = schedule.stream_k
    assert (schedule.tiles, part.tiles, part.units) == (900, 160, 148)
    check_exact_cover(part)
    assert max(len(part.segments(u)) for u in range(148)) <= 3


def test_control_a_plan_with_a_wrong_share_is_not_covered():
    p = plan((1536, 1536, 4096), 132)
    with pytest.raises(AssertionError):
        check_cover(replace(p, groups=5))
