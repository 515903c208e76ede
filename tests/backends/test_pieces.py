"""Pieces of an epilogue in the emitted kernel: what the reference interpreter computes, bit for
bit, in Triton's interpreter."""

import pytest
import torch

from backends.triton_codegen import emit, tiles
from loopir.build import Epilogue, gemm
from loopir.nodes import Program
from passes.pipeline import parse_pipeline
from tests.support.reference import outputs_of_both

TILE = (16, 32, 16)
EPILOGUE = Epilogue(bias="f32", activation="relu", residual="f16")
PIPELINES = (
    "epilogue-pieces",
    "epilogue-pieces{columns=8},descriptors",
    "stream-k{units=5},epilogue-pieces{columns=4}",
    "stream-k{decomposition=data-parallel units=3},epilogue-pieces,flatten,descriptors",
    "stream-k{decomposition=k-aligned units=5 merge=fixup},epilogue-pieces,flatten,descriptors",
)


def program(pipeline: str, tile=TILE) -> Program:
    return parse_pipeline(pipeline).run(gemm(40, 70, 96, "f16", "f16", tile, epilogue=EPILOGUE))


def differing(made: Program) -> int:
    pairs = outputs_of_both(made, integer_valued=True)
    return sum(not torch.equal(found, expected) for found, expected in pairs)


@pytest.mark.sampled
@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("tile", [TILE, (16, (32, 16), 16)], ids=str)
def test_pieces_compute_what_the_reference_does(tile, pipeline: str):
    assert differing(program(pipeline, tile)) == 0


def test_the_other_half_is_noticed(monkeypatch: pytest.MonkeyPatch):
    half = tiles._half
    monkeypatch.setattr(tiles, "_half", lambda *args: half(*args[:-1], 1 - args[-1]))
    assert differing(program("epilogue-pieces")) == 1


def test_a_part_is_split_off_half_by_half():
    source = emit(program("epilogue-pieces{columns=4}")).source
    first = "tl.split(tl.permute(tl.reshape(acc, (16, 2, 16)), (0, 2, 1)))"
    for index in range(4):
        half = f"{first}[{index // 2}]"
        part = f"tl.split(tl.permute(tl.reshape({half}, (16, 2, 8)), (0, 2, 1)))[{index % 2}]"
        assert source.count(f"acc_{index} = {part}\n") == 1
