"""What a configuration asks of a device, counted."""

from dataclasses import replace

import pytest

from backends.planner import Config, Device, Problem, shipped
from backends.planner.blocks import residents, shared_bytes
from backends.planner.passes_of import stream_k_of
from backends.planner.work import Phase, work_of
from passes.stream_k import Merge
from passes.stream_k.planning import schedule_of

H200 = shipped()["NVIDIA H200"]
PLAIN = "gemm 128x128x64 w4 s4"
PERSISTENT = f"{PLAIN}: stream-k{{decomposition=data-parallel units=132}}"
SPLIT = f"{PLAIN}: stream-k{{splits=4 decomposition=split-k}}"
ALIGNED = f"{PLAIN}: stream-k{{decomposition=k-aligned units=132 cost=3}}"
SKEWED = f"{PLAIN}: stream-k{{units=132}}"


def work(text: str, problem: str, device: Device = H200):
    return work_of(Config.parse(text), Problem.parse(problem), device)


def test_blocks_beyond_one_an_sm_wait_for_the_busiest():
    counts = work(PLAIN, "1536x1536x4096")  # 144 tiles
    assert (counts.tiles, counts.panels, counts.active) == (144, 64, 132)
    assert (counts.panels_of_sm, counts.turns, counts.whole) == (128, 2, 2)
    assert counts.phases == (Phase(64, 132 * 64, 1), Phase(64, 12 * 64, 1))


def test_a_second_block_an_sm_saves_a_turn():
    one, two = work(PLAIN, "1536x1536x4096"), work("gemm 128x128x64 w4 s3", "1536x1536x4096")
    assert (one.places, one.resident, one.turns) == (1, 1, 2)
    assert (two.places, two.resident, two.turns) == (2, 2, 1)
    assert two.phases == (Phase(128, 144 * 64, 2),)


def test_units_take_whole_tiles_in_turn():
    counts = work(PERSISTENT, "1536x1536x4096")
    assert (counts.panels_of_sm, counts.turns, counts.slots) == (128, 2, 0)


def test_slices_are_shorter_and_are_stored():
    counts = work(SPLIT, "512x512x8192")  # 16 tiles of 128 panels
    assert (counts.panels_of_sm, counts.contributors, counts.slots) == (32, 4, 64)
    assert counts.merge is Merge.WORKSPACE
    assert (counts.slices, counts.whole) == (4, 0)


def test_a_split_of_one_part_is_no_split():
    counts = work(SPLIT, "512x512x64")
    assert (counts.contributors, counts.slots, counts.merge) == (1, 0, None)


def test_a_shared_tail_balances_the_units():
    whole, shared = work(PERSISTENT, "1792x1792x8192"), work(ALIGNED, "1792x1792x8192")
    ideal = 196 * 128 / 132
    assert whole.panels_of_sm == 256
    assert ideal <= shared.panels_of_sm < 1.1 * ideal
    assert shared.slots > 0
    assert not shared.is_skewed


def test_only_contiguous_ranges_are_skewed():
    assert work(SKEWED, "1792x1792x8192").is_skewed
    assert not work(SPLIT, "1792x1792x8192").is_skewed


def test_batches_are_tiles():
    assert work(PLAIN, "256x256x64 batch=5").tiles == 20


def test_composite_tiles_are_counted_by_their_sum():
    assert work("gemm 128x(128+16)x64 w4 s4", "1536x1584x64").tiles == 12 * 11


@pytest.mark.parametrize("text", [PLAIN, PERSISTENT, SPLIT, ALIGNED, SKEWED])
@pytest.mark.parametrize("problem", ["1536x1536x4096", "4096x4096x512", "100x3000x1000"])
def test_no_sm_has_less_than_its_share(text: str, problem: str):
    counts = work(text, problem)
    assert counts.panels_of_sm * 132 >= counts.tiles * counts.panels
    assert sum(phase.of_all for phase in counts.phases) >= counts.tiles * counts.panels
    assert all(phase.of_sm * 132 >= phase.of_all > 0 for phase in counts.phases)


@pytest.mark.parametrize("text", [PLAIN, PERSISTENT, SPLIT, ALIGNED])
def test_an_empty_sum_still_has_its_tiles(text: str):
    counts = work(text, "256x256x0")
    assert (counts.tiles, counts.panels) == (4, 1)


def test_a_walk_whose_units_the_launch_picks_is_refused():
    with pytest.raises(ValueError, match="wants its units said"):
        work(f"{PLAIN}: stream-k", "256x256x256")


WALKS = (
    "units=33",
    "units=5 bounds=ceil",
    "units=33 bounds=big-units min-panels=3",
    "decomposition=hybrid units=33",
    "decomposition=hybrid tail=one-tile first=data-parallel units=16",
    "decomposition=k-aligned units=33 cost=3",
)


@pytest.mark.parametrize("options", WALKS)
@pytest.mark.parametrize("problem", ["100x5000x1000", "1000x500x5000", "3000x5000x500", "1x1x64"])
def test_the_count_is_that_of_the_segments(options: str, problem: str):
    config = Config.parse(f"{PLAIN}: stream-k{{{options}}}")
    counts = work_of(config, Problem.parse(problem), replace(H200, sms=16))
    walk = stream_k_of(config)
    schedule = walk and schedule_of(walk, counts.tiles, counts.panels)
    assert schedule is not None
    each = [schedule.segments(unit) for unit in range(schedule.units)]
    per_sm = -(-schedule.units // 16)
    assert counts.panels_of_sm == per_sm * max(sum(s.k1 - s.k0 for s in unit) for unit in each)
    assert counts.turns == max(map(len, each))
    assert counts.whole == max(sum(s.contributors == 1 for s in u) for u in each)
    assert counts.slots_of_sm == per_sm * max(sum(s.contributors > 1 for s in u) for u in each)
    assert counts.slots == sum(s.contributors > 1 for unit in each for s in unit)


# --- of one block; the figures in the comments are the compiler's


def room(text: str) -> int:
    return shared_bytes(Config.parse(text), Problem(4096, 4096, 4096))


def test_stages_hold_both_panels():
    assert room("gemm 128x256x64 w8 s3: descriptors") == 147_456  # 147,480


def test_a_walk_keeps_the_tile_that_it_stores():
    text = "gemm 128x256x64 w8 s3: stream-k{decomposition=data-parallel units=132},descriptors"
    assert room(text) == 212_992  # 213,016
    assert room(text.removesuffix(",descriptors")) == 147_456


def test_a_tile_of_few_rows_has_one_stage_less():
    assert room("gemm 16x32x128 w4 s8") == 86_016  # 86,016
    assert room("gemm 16x64x128 w4 s6 swapped") == 122_880  # 122,976


def test_blocks_of_an_sm_are_bounded_by_registers_too():
    problem = Problem(4096, 4096, 4096)
    by_shared = Config.parse("gemm 64x64x64 w4 s6")
    by_registers = Config.parse("gemm 128x256x32 w8 s2")
    assert residents(by_shared, problem, H200) == 2
    assert residents(by_registers, problem, H200) == 1
