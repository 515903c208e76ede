"""What all builders of nests have in common."""

import pytest

import loopir.build as build
from loopir.build import (
    Epilogue,
    batched_gemm_nest,
    contraction_nest,
    conv_nest,
    dual_gemm_nest,
    gemm_nest,
    gemv_nest,
    reduction_nest,
    sum_and_max_nest,
)
from loopir.deps import dependences
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify
from loopir.walk import is_parallel_loop
from tests.support.texts import edited

IN_PLACE = Epilogue(beta=2, bias="f32", residual="f32")

NESTS = {
    "gemm": gemm_nest(20, 30, 40, epilogue=IN_PLACE),
    "open_gemm": gemm_nest(None, None, None),
    "gemv": gemv_nest(20, 30, epilogue=IN_PLACE),
    "open_gemv": gemv_nest(None, None, transposed=True),
    "batched_gemm": batched_gemm_nest(None, 2, None, 4, epilogue=IN_PLACE),
    "batched_gemm_of_one_a": batched_gemm_nest(3, 2, 3, 4, a_batched=False),
    "conv": conv_nest(2, 4, (8, 9), 6, (3, 3), padding=1, epilogue=IN_PLACE),
    "grouped_conv": conv_nest(2, 4, (8, 9), 6, (3, 3), groups=2),
    "depthwise_conv": conv_nest(2, 4, (8, 9), 4, (3, 3), groups=4, layout="nhwc"),
    "open_conv": conv_nest(None, None, (None,), None, (3,), padding=1, groups=2),
    "contraction": contraction_nest("abij,cjbd->acid", dict.fromkeys("abcdij", 3)),
    "open_contraction": contraction_nest("ii,ij->ij", dict.fromkeys("ij")),
    "outer_product": contraction_nest("i,j->ij", {"i": 2, "j": 3}),
    "trace": contraction_nest("ii->", {"i": 3}),
    "dual_gemm": dual_gemm_nest(2, 3, 4),
    "reduction": reduction_nest("max", (None, 3, 4), (0, 2)),
    "whole_reduction": reduction_nest("or", (2, 3), (0, 1), "i8"),
    "sum_and_max": sum_and_max_nest((2, 3), 1),
}


def carried(program: Program) -> list[str]:
    """The buffers through which one iteration of a loop depends on another."""
    edges = dependences(program.kernels[0]).edges(data=True)
    return [e["object"] for *_, e in edges if e["in_memory"] and e["carried_by"] is not None]


@pytest.mark.parametrize("program", NESTS.values(), ids=NESTS)
def test_a_nest_is_a_verified_parallel_band_of_independent_iterations(program: Program):
    verify(program)
    assert is_parallel_loop(program.kernels[0].body[0])
    assert carried(program) == []


@pytest.mark.parametrize("program", NESTS.values(), ids=NESTS)
def test_a_nest_is_what_its_text_says(program: Program):
    assert parse(to_text(program)) == program


def test_a_store_that_leaves_out_an_index_is_seen():
    text = to_text(NESTS["depthwise_conv"])
    assert carried(parse(edited(text, ("oh, ow, g * OC + oc], acc", "oh, ow, oc], acc"))))


def test_every_builder_has_a_nest_here():
    names = {name for name in build.__all__ if name.endswith("_nest")}
    assert names == {f"{name}_nest" for name in NESTS if f"{name}_nest" in names}
    for name in names:
        assert getattr(build, name).__doc__
