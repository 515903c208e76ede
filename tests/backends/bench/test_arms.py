from dataclasses import replace

import pytest

from backends.bench.arms import DATA_PARALLEL, PLANNER, Group, Wanted, configured, library
from backends.bench.shapes import shape_sets
from backends.planner.choose import choose, default_device
from backends.planner.config import Config
from backends.planner.problem import Problem

H200 = default_device()
SQUARE, DEEP = Problem(4096, 4096, 4096), Problem(128, 512, 16384)
TILE = Config.parse("gemm 64x64x64 w4 s3")


def test_baselines_are_told_apart_by_their_group():
    groups = {name: library(name).group for name in ("cublas", "cublaslt", "inductor", "matmul")}
    assert groups == {
        "cublas": Group.BLAS,
        "cublaslt": Group.BLAS,
        "inductor": Group.INDUCTOR,
        "matmul": Group.OURS,
    }
    with pytest.raises(ValueError, match="mkl"):
        library("mkl")


def test_the_planners_arm_is_its_choice_for_that_device():
    small = replace(H200, name="a small one", sms=20)
    for device in (H200, small):
        (arm,) = Wanted((PLANNER,)).of(DEEP, device)
        assert (arm.name, arm.group) == (PLANNER, Group.OURS)
        assert arm.config == choose(DEEP, device)
    assert choose(DEEP, H200) != choose(DEEP, small)


SHAPES = [(m, n, k) for shapes in shape_sets().values() for m, n, k in shapes[::3]]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_has_data_parallel_arms_and_they_split_no_tile(shape: tuple[int, int, int]):
    arms = Wanted((DATA_PARALLEL,)).of(Problem(*shape), H200)
    assert 3 <= len(arms) <= 6
    assert {arm.group for arm in arms} == {Group.DATA_PARALLEL}
    for arm in arms:
        assert arm.config
        assert "stream-k" not in arm.config.pipeline or "data-parallel" in arm.config.pipeline


def test_control_the_candidates_of_a_deep_sum_split_its_tiles():
    arms = Wanted((), candidates=6).of(DEEP, H200)
    assert any(arm.config and "split-k" in arm.config.pipeline for arm in arms)


def test_an_arm_that_is_named_twice_is_there_once_and_ours_goes_before_a_sweep():
    arms = Wanted(("cublas", "cublas"), (TILE,), (TILE,)).of(SQUARE, H200)
    assert arms == (library("cublas"), configured(TILE))


def test_candidates_are_those_predicted_to_be_the_fastest():
    arms = Wanted((PLANNER,), candidates=5).of(SQUARE, H200)
    swept = [arm for arm in arms if arm.group is Group.SWEEP]
    assert len(swept) == 5
    assert swept[0].config == arms[0].config
