"""A problem and its text."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import isfinite

import pytest

from backends.planner import Problem, candidates, choose, explain, plan, shipped
from loopir.build import Activation, Epilogue, Layout
from loopir.types import DType

PROBLEMS = (
    Problem(1536, 1536, 4096),
    Problem(0, 1, 0),
    Problem(8, 16, 32, batch=3, dtype=DType.F16, out_dtype=DType.F32),
    Problem(8, 16, 32, a_layout=Layout.COL_MAJOR, b_layout=Layout.ROW_MAJOR),
    Problem(8, 16, 32, epilogue=Epilogue(2, -0.5, "bf16", Activation.GELU_TANH, "f32")),
    Problem(8, 16, 32, dtype=DType.I8, out_dtype=DType.I32, epilogue=Epilogue(alpha=3)),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_text_reads_back(problem: Problem):
    assert Problem.parse(str(problem)) == problem


def test_sizes_alone_are_the_usual_product_of_weights():
    problem = Problem.parse("16x32x64")
    assert (problem.m, problem.n, problem.k, problem.batch) == (16, 32, 64, 1)
    assert problem.dtype is problem.result is DType.BF16
    assert (problem.a_layout, problem.b_layout) == (Layout.ROW_MAJOR, Layout.COL_MAJOR)


def test_words_may_stand_in_any_order():
    assert Problem.parse("8x8x8 batch=2 col*row f16->f32") == Problem.parse(
        "8x8x8 f16->f32 col*row batch=2"
    )


def test_one_type_is_that_of_operands_and_result():
    assert Problem.parse("8x8x8 f16 batch=2") == Problem.parse("8x8x8 f16->f16 batch=2")


def test_a_word_that_is_nothing_is_told_what_there_is():
    told = r"is no type \(f8e4m3 .*bf16->f32\), no layouts .*batch=, .*bias="
    with pytest.raises(ValueError, match=told):
        Problem.parse("8x8x8 bais=f32")


@pytest.mark.parametrize("ask", [candidates, choose, explain, plan])
def test_the_planner_takes_the_text_of_a_problem(ask: Callable[..., object]):
    assert ask("256x256x512") == ask(Problem(256, 256, 512))
    with pytest.raises(TypeError, match="problem: expected a Problem or its text, got tuple"):
        ask((256, 256, 512))


def test_the_accumulator_follows_from_the_operands():
    assert Problem(1, 1, 1).accumulator is DType.F32
    assert Problem(1, 1, 1, dtype=DType.I8).accumulator is DType.I32


def test_counts_of_work():
    problem = Problem(2, 3, 5, batch=7, out_dtype=DType.F32)
    assert problem.flops == 2 * 2 * 3 * 5 * 7
    assert problem.least_bytes == 7 * ((2 * 5 + 3 * 5) * 2 + 2 * 3 * 4)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bf16->bf16",
        "8x8",
        "8x8x8 bf17",
        "8x8x8 bf16->half",
        "8x8x8 row*down",
        "8x8x8 batch=two",
        "8x8x8 alpha=inf2",
        "8x8x8 activation=cosine",
        "8x8x8 bias",
        "-1x8x8",
        "8x8x8 bool->f32",
    ],
)
def test_text_that_is_no_problem_is_refused(text: str):
    with pytest.raises(ValueError, match=r"problem:|dtype|layout|activation"):
        Problem.parse(text)


@pytest.mark.parametrize("field", ["m", "n", "k", "batch"])
@pytest.mark.parametrize("value", [-1, 2.0, True, None])
def test_a_size_that_is_none_is_named(field: str, value):
    sizes = {"m": 1, "n": 1, "k": 1, "batch": 1, field: value}
    with pytest.raises(ValueError, match=f"{field}: a size"):
        Problem(**sizes)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e39", "1" + 400 * "0"])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_a_factor_that_no_sum_takes_is_refused(name: str, text: str):
    with pytest.raises(ValueError, match=f"{name}: "):
        Problem.parse(f"8x8x8 {name}={text}")


def test_a_size_beyond_any_memory_is_refused():
    assert Problem(1 << 40, 1, 1).m == 1 << 40
    with pytest.raises(ValueError, match="k: a size is at most 1,099,511,627,776"):
        Problem(1, 1, 10**400)


def test_the_least_device_has_room_for_no_tile():
    tiny = replace(shipped()["NVIDIA H200"], name="tiny", shared_bytes=1024)
    with pytest.raises(ValueError, match="no tile has room on tiny"):
        plan(Problem(512, 512, 512), tiny)
    with pytest.raises(ValueError, match="C has no element"):
        plan(Problem(0, 512, 512), tiny)


@pytest.mark.parametrize(
    "text",
    [
        "65536x65536x8192",
        f"{10**9}x{10**9}x{10**9}",
        " ".join(("x".join(3 * [str(1 << 40)]), f"batch={1 << 40}")),
    ],
)
def test_a_plan_takes_no_longer_for_more_tiles(text: str):
    start = time.process_time()
    found = plan(text)
    assert time.process_time() - start < 0.5
    assert isfinite(found.chosen.prediction.time)
