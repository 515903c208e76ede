"""Calls of every builder at sizes that keep a GPU busy, with a tail in every dimension."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopir.build import (
    Epilogue,
    batched_gemm,
    batched_gemm_nest,
    contraction_nest,
    conv_nest,
    dual_gemm_nest,
    gemm,
    gemm_nest,
    gemv,
    gemv_nest,
    reduction_nest,
    sum_and_max_nest,
)
from tests.support.workload_cases import EPILOGUE, IN_PLACE, NO_SUM, NO_SUM_OF_BYTES
from tests.support.workloads import Case, nonzero, patterns


@dataclass(frozen=True)
class Cost:
    """What an sm_90 binary needs, at most: registers of a thread, bytes that it spills."""

    registers: int
    spill_bytes: int = 0


@dataclass(frozen=True)
class Large(Case):
    """`terms`: how many numbers an element of the output sums up. `cost`: of the data-parallel
    kernel, where it is compiled ahead of time. `settings`: of the compiler. `is_exact`: whether
    integers give an exact result, which an exponential does not."""

    terms: int = 1
    cost: Cost | None = None
    settings: Mapping[str, int] = field(default_factory=dict)
    is_exact: bool = True


_ALL = Epilogue(0.5, 2, "f32", "relu", "bf16")
_MMA = "m=128 n=128 k=64"
_SMALL_MMA = "m=64 n=64 k=32"
_ROWS = "m=64 k=64"
_FOUR_WARPS = {"num_warps": 4, "num_stages": 4}
_IMAGES = (4, 64, (29, 27), 96, (3, 3))

LARGE = (
    Large("canonical", gemm, (640, 400, 1000), {"tile": (128, 128, 64), "b_layout": "col"},
          terms=1000, cost=Cost(128)),
    Large("pieces", gemm, (640, 400, 1008, "bf16", "bf16", (128, (128, 64), 64)),
          {"b_layout": "col"}, refused=EPILOGUE, terms=1008, cost=Cost(255), settings=_FOUR_WARPS),
    Large("narrow pieces", gemm, (640, 400, 1008, "bf16", "bf16", (128, (128, 16), 64)),
          {"b_layout": "col"}, refused=EPILOGUE, terms=1008, cost=Cost(208), settings=_FOUR_WARPS),
    Large("pieces of rows", gemm, (640, 400, 1008, "f16"),
          {"tile": ((128, 64), 128, 64), "b_layout": "col"}, terms=1008, cost=Cost(168),
          settings={"num_stages": 4}),
    Large("pieces of both", gemm, (640, 400, 1008, "bf16", "bf16", ((128, 64), (128, 64), 64)),
          {"b_layout": "col"}, refused=EPILOGUE, terms=1008, cost=Cost(255)),
    Large("pieces epilogue", gemm, (333, 257, 1008, "f16", "bf16", (128, (64, 32), 64)),
          {"epilogue": _ALL}, refused=IN_PLACE, terms=1008, cost=Cost(208)),
    Large("swapped", gemm, (20, 4001, 1008), {"tile": (16, 128, 64), "swapped": True,
          "b_layout": "col"}, terms=1008, cost=Cost(80), settings=_FOUR_WARPS),
    Large("swapped epilogue", gemm, (40, 4000, 1008, "f16", "bf16", (32, (64, 64), 64)),
          {"swapped": True, "epilogue": _ALL}, refused=IN_PLACE, terms=1008, cost=Cost(96),
          settings=_FOUR_WARPS),
    Large("canonical batched", batched_gemm, (5, 300, 208, 528), {"b_layout": "col"}, terms=528,
          cost=Cost(128)),
    Large("gemm", gemm_nest, (640, 400, 1000), {"b_layout": "col"}, _MMA, terms=1000,
          cost=Cost(128)),
    Large("gemm f16", gemm_nest, (333, 257, 1001, "f16"), {"a_layout": "col"}, _MMA, terms=1001),
    Large("gemm f32", gemm_nest, (333, 257, 509, "f32"), tile=_SMALL_MMA, terms=509),
    Large("gemm f64", gemm_nest, (333, 257, 509, "f64"), tile=_SMALL_MMA, terms=509,
          settings={"num_stages": 2}),
    Large("gemm i8", gemm_nest, (640, 400, 1000, "i8"), {"b_layout": "col"}, _MMA),
    Large("gemm open", gemm_nest, (None, None, None), {"b_layout": "col"}, _MMA, terms=1000,
          sizes={"M": 640, "N": 400, "K": 1000}),
    Large("gemm epilogue", gemm_nest, (640, 400, 1000, "bf16", "bf16"), {"epilogue": _ALL}, _MMA,
          IN_PLACE, terms=1000, cost=Cost(255)),
    Large("batched", batched_gemm_nest, (5, 300, 200, 520), {}, _MMA, terms=520, cost=Cost(128)),
    Large("batched A", batched_gemm_nest, (5, 300, 200, 520), {"b_batched": False}, _MMA,
          terms=520, cost=Cost(128)),
    Large("batched B", batched_gemm_nest, (5, 300, 201, 520), {"a_batched": False}, _SMALL_MMA,
          terms=520),
    Large("dual", dual_gemm_nest, (640, 400, 1000), {"b_layout": "col"}, _MMA, EPILOGUE,
          terms=1000, cost=Cost(255), is_exact=False),
    Large("dual relu", dual_gemm_nest, (333, 257, 509, "f16", "bf16"), {"activation": "relu"},
          _SMALL_MMA, EPILOGUE, terms=509),
    Large("row", gemv, (1, 4001, 3008), {"b_layout": "col"}, refused=EPILOGUE, terms=3008,
          cost=Cost(128), settings=_FOUR_WARPS),
    Large("rows", gemv, (3, 4001, 3008, "f16"), {"tile": (4, 4, 1024), "b_layout": "col"},
          refused=EPILOGUE, terms=3008, cost=Cost(216), settings=_FOUR_WARPS),
    Large("row of sums", gemv, (1, 4001, 3008), {"tile": (1, 64, 128), "panel_sums": True},
          terms=3008, cost=Cost(128), settings=_FOUR_WARPS),
    Large("columns epilogue", gemv, (4001, 2, 3008, "bf16", "bf16", (4, 2, 1024)),
          {"epilogue": _ALL}, refused=IN_PLACE, terms=3008, settings=_FOUR_WARPS),
    Large("gemv", gemv_nest, (2000, 3001), tile=_ROWS, terms=3001, cost=Cost(80)),
    Large("gemv f32 transposed", gemv_nest, (3000, 2001, "f32"), {"transposed": True}, _ROWS,
          terms=3000),
    Large("gemv epilogue", gemv_nest, (2000, 3000, "f16", "bf16"), {"epilogue": _ALL}, _ROWS,
          IN_PLACE, terms=3000),
    Large("conv", conv_nest, _IMAGES, {"padding": 1}, _MMA, terms=576, cost=Cost(255)),
    Large("conv nhwc", conv_nest, _IMAGES, {"padding": 1, "stride": 2, "layout": "nhwc"}, _MMA,
          terms=576, cost=Cost(168)),
    Large("conv of groups", conv_nest, _IMAGES, {"padding": 2, "dilation": 2, "groups": 2},
          _SMALL_MMA, terms=288),
    Large("conv depthwise", conv_nest, (3, 24, (29, 27), 24, (3, 3)), {"padding": 1, "groups": 24},
          "m=64 n=16 k=16", terms=9),
    Large("conv1d", conv_nest, (4, 64, (1001,), 96, (3,)), {"padding": 1, "dtype": "f16"}, _MMA,
          terms=192),
    Large("conv epilogue", conv_nest, _IMAGES,
          {"padding": 1, "layout": "nhwc", "epilogue": _ALL, "out_dtype": "f16"}, _SMALL_MMA,
          IN_PLACE, terms=576),
    Large("contraction", contraction_nest, ("bijc,bcd->bidj", [(3, 20, 21, 500), (3, 500, 130)]),
          {}, _MMA, terms=500, cost=Cost(255, 64)),
    Large("two sums", contraction_nest,
          ("abij,cjbd->acid", [(12, 13, 11, 20), (14, 20, 13, 15)], "f16"), {}, _SMALL_MMA,
          terms=260),
    Large("column sums", contraction_nest, ("ij->j", [(3008, 1000)], "f32"), tile=_ROWS,
          terms=3008),
    Large("add", reduction_nest, ("add", (1000, 3008), 1), tile=_ROWS, terms=3008, cost=Cost(64)),
    Large("add columns", reduction_nest, ("add", (3001, 1000), 0), tile=_ROWS, terms=3001),
    Large("add f64", reduction_nest, ("add", (70, 1000, 9), (0, 2), "f64"), tile=_ROWS, terms=630),
    Large("mul", reduction_nest, ("mul", (3001, 60), 1), tile=_ROWS, refused=NO_SUM,
          adjust=nonzero, terms=60**2),
    Large("max", reduction_nest, ("max", (1000, 3001), 1, "bf16"), tile=_ROWS, refused=NO_SUM),
    Large("min", reduction_nest, ("min", (3001, 1000), 0), tile=_ROWS, refused=NO_SUM),
    Large("and", reduction_nest, ("and", (1000, 3001), 1, "i32"), tile=_ROWS, refused=NO_SUM,
          adjust=patterns),
    Large("or i8", reduction_nest, ("or", (1000, 300), 1, "i8"), tile=_ROWS,
          refused=NO_SUM_OF_BYTES, adjust=patterns),
    Large("sum and max", sum_and_max_nest, ((1000, 3001), 1), tile=_ROWS, refused=NO_SUM,
          terms=3001, cost=Cost(128)),
)  # fmt: skip
