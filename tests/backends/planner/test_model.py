"""The model against what was measured on an H200 with hand-written kernels of the same tiles and
schedules, and how it answers to changes."""

from dataclasses import replace

import pytest

from backends.planner import Config, Problem, Term, predict, shipped
from backends.planner.tile_cost import products_us, tiling

H200 = shipped()["NVIDIA H200"]
WALK = "tile-order{group=8},stream-k{decomposition=data-parallel units=132},descriptors"
ALIGNED = "tile-order{group=8},stream-k{decomposition=k-aligned units=132 cost=3},descriptors"
PLAIN = "tile-order{group=8},descriptors"

#: problem, configuration, us: interleaved rounds, L2 flushed
MEASURED = (
    ("8192x8192x8192", f"gemm 128x256x64 w8 s3: {WALK}", 1584),
    ("4096x4096x4096", f"gemm 128x256x64 w8 s3: {WALK}", 177.7),
    ("3840x3840x4096", f"gemm 128x256x64 w8 s3: {WALK}", 184),
    ("3840x3840x4096", f"gemm 128x256x64 w8 s3: {ALIGNED}", 170.7),
    ("2048x2048x2048", f"gemm 128x256x64 w8 s3: {PLAIN}", 27.4),
    ("1792x1792x8192", f"gemm 128x256x64 w8 s3: {PLAIN}", 86.8),
    ("1792x1792x8192", f"gemm 128x256x64 w8 s3: {ALIGNED}", 89.5),
    ("1536x1536x4096", f"gemm 128x256x64 w8 s3: {PLAIN}", 45.0),
    ("1536x1536x4096", f"gemm 128x(128+64)x64 w4 s4: {PLAIN}", 42.0),
    ("16x4096x4096", "gemm 16x32x128 w4 s8", 16.6),
    ("16x4096x4096", "gemm 16x32x256 w4 s5", 16.6),
    ("16x4096x4096", "gemm 16x16x128 w4 s8", 17.0),
    ("16x4096x4096", "gemm 16x64x128 w4 s8 swapped: stream-k{splits=2},descriptors", 17.6),
    ("128x512x16384", "gemm 128x32x128 w4 s5: stream-k{splits=8 merge=fixup},descriptors", 18.7),
    ("128x512x16384", "gemm 128x32x128 w4 s5: stream-k{splits=8},descriptors", 19.2),
    ("128x512x16384", "gemm 128x64x128 w4 s4: stream-k{splits=16 merge=fixup},descriptors", 20.2),
    ("128x512x16384", "gemm 128x64x128 w4 s4: stream-k{splits=16},descriptors", 25.2),
    ("128x512x16384", f"gemm 128x64x64 w4 s4: {PLAIN}", 78.0),
    ("1x4096x4096", "gemv 1x8x1024 w4 s1", 14.5),
)


def time_us(config: str, problem: str, device=H200) -> float:
    return predict(Config.parse(config), Problem.parse(problem), device).time


@pytest.mark.parametrize(("problem", "config", "us"), MEASURED)
def test_prediction_is_near_what_was_measured(problem: str, config: str, us: float):
    assert time_us(config, problem) == pytest.approx(us, rel=0.2)


def test_control_a_slower_clock_is_outside_the_bound():
    slow = replace(H200, clock_ghz=H200.clock_ghz / 1.4)
    problem, config, us = MEASURED[5]
    assert time_us(config, problem, slow) != pytest.approx(us, rel=0.2)


def test_one_last_arriver_is_ruinous_for_many_parts():
    split = "gemm 128x64x128 w4 s4: stream-k{splits=16 merge=%s},descriptors"
    assert time_us(split % "workspace", "128x512x16384") > 1.25 * time_us(
        split % "fixup", "128x512x16384"
    )


def test_skewed_ranges_are_fed_at_half_the_rate():
    problem, tile = (
        Problem(4096, 4096, 4096),
        "gemm 128x256x64 w8 s3: stream-k{units=132%s},descriptors",
    )
    aligned, skewed = (
        predict(Config.parse(tile % more), problem, H200)
        for more in (" decomposition=k-aligned", "")
    )
    assert aligned.l2 < aligned.products < skewed.l2


def test_rows_beyond_the_edge_cost_descriptors_and_not_pointers():
    few, many = "16x4096x4096", "64x4096x4096"
    moved, plain = "gemm 64x32x128 w4 s5: descriptors", "gemm 64x32x128 w4 s5"
    assert time_us(moved, few) > 1.2 * time_us(moved, many)
    assert time_us(plain, few) == pytest.approx(time_us(plain, many), rel=0.02)


def test_a_second_kernel_under_the_first_costs_less():
    split = "gemm 64x64x128 w4 s5%s: stream-k{splits=8 merge=fixup},descriptors"
    gain = time_us(split % "", "128x512x16384") - time_us(split % " pdl", "128x512x16384")
    assert gain == pytest.approx(H200.next_launch_us - H200.overlapped_launch_us)


def test_partial_tiles_as_fragments_cost_less_than_rows():
    split = "gemm 128x128x64 w8 s4: stream-k{splits=2 merge=fixup%s},descriptors"
    problem = "1408x768x8192"
    assert time_us(split % " slot-layout=auto", problem) < time_us(split % "", problem)


def test_panels_that_no_neighbour_reads_load_at_a_lower_rate():
    """At the same bytes: one row of tiles for many columns, or as many rows as columns."""
    config = Config.parse(f"gemm 64x64x64 w4 s5: {PLAIN}")
    flat, square = (predict(config, Problem(m, n, 8192), H200) for m, n in ((64, 8448), (704, 768)))
    assert flat.l2 > 1.5 * square.l2


def test_a_short_kernel_is_not_limited_by_power():
    config = Config.parse(f"gemm 128x256x64 w8 s3: {PLAIN}")
    assert predict(config, Problem(1024, 1024, 1024), H200).power == 0


def test_a_narrow_piece_costs_more_than_its_share():
    problem = Problem(4096, 4096, 4096)
    whole = products_us(Config((128, 128, 64)), problem, H200)
    more = products_us(Config((128, (128, 16), 64)), problem, H200) - whole
    assert more > 2 * whole * 16 / 128


def test_a_swapped_tile_computes_with_its_long_side():
    problem = Problem(32, 4096, 4096)
    tile = Config((32, 128, 128))
    assert products_us(replace(tile, swapped=True), problem, H200) < products_us(
        tile, problem, H200
    )


def test_slowness_is_of_the_kernel_that_it_names():
    config = Config((128, 256, 64), PLAIN, 8, 3)
    even = replace(H200, slowness={})
    slow = replace(H200, slowness={"128x256x64 w8 s3 descriptors": 1.5})
    assert tiling(config).name in slow.slowness
    problem = Problem(2048, 2048, 2048)
    assert predict(config, problem, slow).products == pytest.approx(
        1.5 * predict(config, problem, even).products
    )
    other = replace(config, num_stages=4)
    assert predict(other, problem, slow) == predict(other, problem, even)


BINDS = {
    Term.POWER: ("8192x8192x8192", f"gemm 128x256x64 w8 s3: {WALK}"),
    Term.PRODUCTS: ("1536x1536x4096", f"gemm 128x256x64 w8 s3: {PLAIN}"),
    Term.L2: ("3840x3840x4096", "gemm 128x128x64 w8 s4: stream-k{units=132},descriptors"),
    Term.DRAM: ("16x4096x4096", "gemm 16x32x128 w4 s8"),
    Term.LATENCY: ("64x64x65536", "gemm 64x64x64 w4 s2: descriptors"),
    Term.LAUNCH: ("128x128x128", "gemm 64x64x64 w4 s4"),
    Term.FOLD: ("128x512x16384", "gemm 128x64x128 w4 s4: stream-k{splits=16},descriptors"),
}


@pytest.mark.parametrize("term", BINDS, ids=lambda t: t.name)
def test_the_part_that_binds_is_named(term: Term):
    problem, config = BINDS[term]
    assert predict(Config.parse(config), Problem.parse(problem), H200).binds is term


@pytest.mark.parametrize("field", ["m", "n", "k", "batch"])
def test_more_work_takes_no_less_time(field: str):
    config = Config.parse(f"gemm 128x128x64 w4 s4: {PLAIN}")
    problem = Problem(512, 512, 512)
    times = [
        predict(config, replace(problem, **{field: size}), H200).time for size in (512, 1024, 4096)
    ]
    assert times[0] < 1.01 * times[1] < 1.01**2 * times[2]


def test_a_wave_that_is_just_overfull_costs_one_more():
    config = Config.parse(f"gemm 128x128x64 w4 s4: {PLAIN}")
    full, over = (predict(config, Problem(128 * rows, 1408, 4096), H200).time for rows in (12, 13))
    assert over > 1.7 * full
