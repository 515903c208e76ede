"""The model against what was measured on an H200 with generated kernels, and how it answers to
changes."""

from dataclasses import replace

import pytest

from backends.planner import Config, Problem, Term, predict, shipped
from backends.planner.tile_cost import issue_cycles, products_us, tiling
from backends.planner.work import work_of

H200 = shipped()["NVIDIA H200"]
WALK = "tile-order{group=8},stream-k{decomposition=data-parallel units=132},descriptors"
TAIL = "merge=fixup decomposition=k-aligned units=132 min-panels=8 cost=3 slot-layout=auto"
ALIGNED = f"tile-order{{group=8}},stream-k{{{TAIL}}},descriptors"
PLAIN = "tile-order{group=8},descriptors"
SPLIT = "stream-k{merge=%s decomposition=split-k splits=%d slot-layout=auto},descriptors"

#: problem, configuration, us: interleaved rounds, L2 flushed
MEASURED = (
    ("8192x8192x8192", f"gemm 128x256x64 w8 s3: {WALK}", 1471),
    ("4096x4096x4096", f"gemm 128x256x64 w8 s3: {WALK}", 183.2),
    ("3840x3840x4096", f"gemm 128x256x64 w8 s3: {WALK}", 182.8),
    ("3840x3840x4096", f"gemm 128x256x64 w8 s3 pdl: {ALIGNED}", 168.6),
    ("2048x2048x2048", f"gemm 128x256x64 w8 s3: {PLAIN}", 27.0),
    ("1792x1792x8192", f"gemm 128x256x64 w8 s4: {PLAIN}", 83.1),
    ("1792x1792x8192", f"gemm 128x256x64 w8 s3 pdl: {ALIGNED}", 84.7),
    ("1536x1536x4096", f"gemm 64x(128+16)x64 w4 s4: {PLAIN}", 33.9),
    ("1536x1536x4096", f"gemm 128x(128+64)x64 w4 s4: {PLAIN}", 39.7),
    ("1536x1536x4096", f"gemm 128x128x64 w4 s3: {PLAIN}", 43.7),
    ("1408x768x8192", f"gemm 64x128x128 w4 s4: {PLAIN}", 32.5),
    ("1172x5272x4808", f"gemm 128x256x64 w8 s4: {PLAIN}", 130.6),
    ("129x232x288", f"gemm 64x32x128 w4 s4: {PLAIN}", 4.9),
    ("16x4096x14336", "gemm 16x32x128 w4 s10", 40.6),
    ("16x4096x4096", "gemm 16x32x128 w4 s10", 16.3),
    ("128x512x16384", f"gemm 128x64x128 w4 s4 pdl: {SPLIT % ('fixup', 12)}", 15.5),
    ("128x512x16384", f"gemm 64x32x128 w4 s5: {SPLIT % ('workspace', 4)}", 17.3),
    ("512x512x16384", f"gemm 128x256x64 w8 s4 pdl: {SPLIT % ('fixup', 12)}", 31.0),
    ("1x4096x4096", "gemv 1x8x1024 w4 s1", 15.2),
)


def time_us(config: str, problem: str, device=H200) -> float:
    return predict(Config.parse(config), Problem.parse(problem), device).time


@pytest.mark.parametrize(("problem", "config", "us"), MEASURED)
def test_prediction_is_near_what_was_measured(problem: str, config: str, us: float):
    assert time_us(config, problem) == pytest.approx(us, rel=0.22)


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
    problem = Problem(4096, 4096, 4096)
    tile = "gemm 128x256x64 w8 s4: stream-k{units=132%s},descriptors"
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


def test_a_block_that_is_alone_waits_and_two_take_turns():
    """One block an SM, or two: 132 tiles and twice as many."""
    config = Config.parse(f"gemm 128x128x64 w4 s3: {PLAIN}")
    problem, twice = Problem(1536, 1408, 8192), Problem(3072, 1408, 8192)
    assert [work_of(config, p, H200).resident for p in (problem, twice)] == [1, 2]
    one, two = (predict(config, p, H200).panels for p in (problem, twice))
    assert one < two < 1.6 * one


def test_more_stages_ahead_wait_less():
    texts = (f"gemm 64x256x64 w4 s{stages}: {PLAIN}" for stages in (2, 3, 4))
    even, problem = replace(H200, slowness={}), Problem(768, 2816, 8192)
    waits = [predict(Config.parse(text), problem, even).latency for text in texts]
    assert waits[0] == pytest.approx(2 * waits[1]) == pytest.approx(3 * waits[2])


@pytest.mark.parametrize(("k", "least", "most"), [(4864, 0.99, 1.01), (4880, 1.02, 1.12)])
def test_rows_across_lines_cost_a_little(k: int, least: float, most: float):
    """4864 elements are whole lines of 128 bytes; 4880 are whole sectors of 32."""
    config = Config.parse(f"gemm 128x256x64 w8 s4: {PLAIN}")
    ratio = time_of(config, k) / time_of(config, 4864)
    assert least < ratio * 4864 / k < most


def test_rows_across_sectors_cost_more():
    """As 126.7 us against 105.6 at 4808 and 4864: 1.21."""
    config = Config.parse(f"gemm 128x256x64 w8 s3 pdl: {ALIGNED}")
    ratio = time_of(config, 4808) / time_of(config, 4864)
    assert 1.1 < ratio * 4864 / 4808 < 1.35


def time_of(config: Config, k: int) -> float:
    return predict(config, Problem(1172, 5272, k), H200).time


def test_a_loop_through_tiles_costs_each_panel_a_little():
    flat = Config.parse(f"gemm 128x128x64 w8 s4: {WALK.replace(',desc', ',flatten,desc')}")
    plain = Config.parse(f"gemm 128x128x64 w8 s4: {WALK}")
    more = issue_cycles(flat, Problem(1, 1, 1), H200) - issue_cycles(plain, Problem(1, 1, 1), H200)
    assert more == pytest.approx(H200.fused_cycles)
    deep, shallow = Problem(3072, 2816, 8192), Problem(3072, 2816, 128)
    gains = [
        predict(plain, p, H200).epilogue - predict(flat, p, H200).epilogue for p in (deep, shallow)
    ]
    assert gains[0] == pytest.approx(gains[1])
    assert gains[0] > 1


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
    """Of 32 rows, which no group of warps multiplies, but for the shared memory that it reads."""
    problem = Problem(32, 4096, 4096)
    tile = Config((32, 64, 128))
    free = replace(H200, flops_per_cycle={**H200.flops_per_cycle, "bf16": 1024})
    assert products_us(replace(tile, swapped=True), problem, free) < products_us(
        tile, problem, free
    )


def test_slowness_is_of_the_kernel_that_it_names():
    config = Config((128, 256, 64), PLAIN, 8, 3)
    even = replace(H200, slowness={})
    slow = replace(H200, slowness={"128x256x64 w8 s3 descriptors": 1.5})
    assert tiling(config).name in slow.slowness
    problem = Problem(2048, 2048, 2048)
    for part in ("products", "latency"):
        slower, usual = (getattr(predict(config, problem, d), part) for d in (slow, even))
        assert usual < slower <= 1.5001 * usual
    other = replace(config, num_stages=4)
    assert predict(other, problem, slow) == predict(other, problem, even)


BINDS = {
    Term.POWER: ("8192x8192x8192", f"gemm 128x256x64 w8 s3: {WALK}"),
    Term.PRODUCTS: ("1536x1536x4096", f"gemm 128x256x64 w8 s4: {PLAIN}"),
    Term.L2: ("3840x3840x4096", "gemm 128x128x64 w8 s4: stream-k{units=132},descriptors"),
    Term.LINK: ("1x4224x4096", f"gemm 64x32x128 w4 s5: {PLAIN}"),
    Term.DRAM: ("1x14336x4096", "gemv 1x8x1024 w4 s1"),
    Term.LATENCY: ("64x64x65536", "gemm 64x64x64 w4 s2: descriptors"),
    Term.LAUNCH: ("128x128x128", "gemm 64x64x64 w4 s4"),
    Term.EPILOGUE: ("8448x640x64", f"gemm 64x64x64 w4 s5: {WALK}"),
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


def test_accumulators_side_by_side_are_folded_in_longer_turns():
    """665 x 144 x 4816 in 12 parts takes 14.2 us by tiles of 16 + 128 columns, 3.7 more than was
    predicted before."""
    config = f"gemm %s w4 s4 pdl: {SPLIT % ('fixup', 12)}"
    problem = Problem.parse("665x128x4816")

    def fold(tile: str) -> float:
        return predict(Config.parse(config % tile), problem, H200).fold

    assert fold("64x(16+128)x64") > 1.5 * fold("64x128x64")
    assert fold("64x(16+128)x64") > 1.2 * fold("64x256x64")  # larger, but cut along both axes


def test_dram_gives_less_in_shorter_rows():
    def dram(depth: int, problem: str = "16x4096x4096") -> float:
        config = Config.parse(f"gemm 16x64x{depth} w4 s4 swapped: evict-first,descriptors")
        return predict(config, Problem.parse(problem), H200).dram

    assert dram(64) > dram(128) > dram(256)
    assert dram(128) == pytest.approx(dram(256) * (1 + H200.row_loss))
    assert dram(64, "16x4096x4096 bf16 row*row") == dram(256, "16x4096x4096 bf16 row*row")


def test_rows_across_sectors_cost_l2_more_of_what_others_read():
    """8 parts of 15 tiles that nothing else reads at the time, and one of 120 tiles."""
    split = f"gemm 128x128x64 w8 s4 pdl: {SPLIT % ('fixup', 8)}"

    def longer(config: str, sizes: str) -> float:
        odd, even = (predict(Config.parse(config), Problem.parse(p), H200).l2
                     for p in (f"{sizes}x6872", f"{sizes}x6912"))  # fmt: skip
        return odd / even

    whole = longer(f"gemm 128x128x64 w8 s4: {PLAIN}", "1920x1024")
    assert 1.2 < longer(split, "335x536") < whole < 3.5
