"""A configuration, its text, its JSON, its program."""

import json
from dataclasses import replace
from typing import Any

import pytest

from backends.planner import Config, Kind, Problem
from loopir.build import Activation, Epilogue
from loopir.errors import LoopIRError
from loopir.scope import constants
from loopir.types import DType

CONFIGS = (
    Config((128, 256, 64), num_warps=8),
    Config((128, (128, 64), 64), "tile-order{group=8}", 4, 4),
    Config(((128, 64), 128, 64), "tile-order{group=8},stream-k{units=132}", swapped=True),
    Config((1, 8, 1024), kind=Kind.GEMV, num_stages=1),
    Config((16, 64, 128), "stream-k{splits=2 merge=fixup}", swapped=True, launch_pdl=True),
    Config((64, 64, 64), launch_pdl=True),
)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_text_and_json_read_back(config: Config):
    assert Config.parse(str(config)) == config
    assert Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_text_is_one_line_that_says_all():
    config = Config((128, (128, 64), 64), "stream-k{units=132}", 8, 4, swapped=True)
    assert str(config) == "gemm 128x(128+64)x64 w8 s4 swapped: stream-k{units=132}"


def test_a_pipeline_has_one_spelling():
    spelled = Config((64, 64, 64), "stream-k{ units = 8  merge=auto },descriptors{loads=true}")
    assert spelled.pipeline == "stream-k{units=8},descriptors"


def test_an_unknown_pass_is_refused_when_it_is_to_run():
    config = Config((64, 64, 64), "no-such-pass")
    with pytest.raises(LoopIRError, match="no-such-pass"):
        config.program(Problem(64, 64, 64))


def test_an_extent_of_one_piece_is_its_size():
    assert Config(((128,), (64,), 64)) == Config((128, 64, 64))


BAD: dict[str, dict[str, Any]] = {
    "two extents": {"tile": (128, 64)},
    "no power of two": {"tile": (128, 144, 64)},
    "a piece of three": {"tile": (128, (128, 3), 64)},
    "no piece": {"tile": (128, (), 64)},
    "pieces of K": {"tile": (128, 64, (32, 32))},
    "a float": {"tile": (128.0, 64, 64)},
    "no warp": {"num_warps": 0},
    "stages of another type": {"num_stages": "3"},
    "a number for a claim": {"swapped": 1},
    "another number for a claim": {"launch_pdl": 0},
    "a pipeline that is no text": {"pipeline": 3},
    "an unknown kind": {"kind": "gemmv"},
}


@pytest.mark.parametrize("name", BAD)
def test_a_field_that_has_no_meaning_is_refused(name: str):
    good = Config((128, 64, 64)).to_json()
    with pytest.raises(ValueError, match=r"tile|num_|swapped|pipeline|Kind"):
        Config.from_json({**good, **BAD[name]})


@pytest.mark.parametrize("missing", ["tile", "kind"])
def test_json_without_a_field_is_refused(missing: str):
    data = Config((128, 64, 64)).to_json()
    del data[missing]
    with pytest.raises(ValueError, match="config: an object with"):
        Config.from_json(data)


@pytest.mark.parametrize("data", [None, [], "gemm", {"tile": 1, "evil": 2}])
def test_json_of_another_form_is_refused(data):
    with pytest.raises(ValueError, match="config: an object with"):
        Config.from_json(data)


@pytest.mark.parametrize("passes", ["", ": descriptors"])
def test_words_may_stand_in_either_order(passes: str):
    found = Config.parse(f"gemm 64x64x64 w4 s3 pdl swapped{passes}")
    assert found == Config.parse(f"gemm 64x64x64 w4 s3 swapped pdl{passes}")
    assert found.swapped
    assert found.launch_pdl


def test_a_text_of_another_form_is_told_the_form_with_all_words():
    with pytest.raises(ValueError, match=r"wWARPS sSTAGES \[swapped\] \[pdl\]\[: PIPELINE\]"):
        Config.parse("gemm 64x64x64 w4 s3 pdl pdl")


@pytest.mark.parametrize("text", ["", "gemm", "gemm 128x64 w4 s3", "gemm 128x64x64 w4 s3 :", "x"])
def test_text_of_another_form_is_refused(text: str):
    with pytest.raises(ValueError, match="config:"):
        Config.parse(text)


# --- programs


def params(config: Config, problem: Problem) -> list[tuple[str, DType]]:
    kernel = config.program(problem).kernels[0]
    return [(p.name, p.dtype) for p in kernel.params]


def test_the_program_has_the_problem_s_sizes_and_types():
    problem = Problem(96, 80, 100, out_dtype=DType.F32)
    config = Config((32, (32, 16), 16), "tile-order{group=8}")
    kernel = config.program(problem).kernels[0]
    known = constants(kernel)
    assert (known["M"], known["N"], known["K"]) == (96, 80, 100)
    assert params(config, problem) == [("A", DType.BF16), ("B", DType.BF16), ("C", DType.F32)]


def test_the_pipeline_is_run():
    problem = Problem(96, 80, 100)
    plain = Config((32, 32, 16)).program(problem)
    split = Config((32, 32, 16), "stream-k{splits=2 decomposition=split-k}").program(problem)
    assert plain.workspaces == ()
    assert [w.name for w in split.workspaces] == ["partials", "arrivals"]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("kind", [Kind.GEMM, Kind.GEMV])
def test_an_epilogue_adds_its_parameters(batch: int, kind: Kind):
    if kind is Kind.GEMV and batch > 1:
        pytest.skip("a GEMV has no batch; the next test says so")
    epilogue = Epilogue(bias="f32", residual="bf16", activation=Activation.RELU)
    problem = Problem(4, 80, 100, batch=batch, epilogue=epilogue)
    config = Config((4, 8, 64) if kind is Kind.GEMV else (32, 32, 16), kind=kind)
    names = [name for name, _ in params(config, problem)]
    assert names == ["A", "B", "bias", "residual", "C"]


def test_a_gemv_of_batches_is_refused():
    config = Config((1, 8, 64), kind=Kind.GEMV)
    assert config.program(Problem(1, 8, 64))
    with pytest.raises(ValueError, match="a GEMV has no batch"):
        config.program(Problem(1, 8, 64, batch=2))


def test_swapping_changes_the_program():
    problem = Problem(64, 64, 64)
    config = Config((16, 64, 64))
    assert config.program(problem) != replace(config, swapped=True).program(problem)


def test_settings_are_what_a_compiler_takes():
    assert Config((64, 64, 64), num_warps=8, num_stages=5, launch_pdl=True).settings() == {
        "num_warps": 8,
        "num_stages": 5,
        "launch_pdl": True,
    }
