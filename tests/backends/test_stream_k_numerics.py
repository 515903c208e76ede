"""Stream-K kernels in the interpreter, with every merge: bit for bit the data-parallel result on
integer-valued data, within the fp64 bound on real data. Few, large tiles, since the interpreter
pays per operation."""

import itertools
from dataclasses import dataclass, replace

import pytest
import torch

from backends.triton_codegen import compile
from loopir.build import gemm
from loopir.scope import constants
from passes.pipeline import parse_pipeline
from passes.stream_k import StreamKPass
from tests.support.numerics import check_product, guarded, integers, laid_out, normal

TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


@dataclass(frozen=True)
class Case:
    """One product [M, K] @ [K, N] under a pipeline; layouts are those of A and of B."""

    m: int = 96
    n: int = 80
    k: int = 200
    dtype: str = "bf16"
    tile: tuple[int, int, int] = (64, 64, 64)
    layouts: tuple[str, str] = ("row", "row")
    options: str = "units=5"
    order: str = "along_n"
    merge: str = "atomic"

    def __str__(self) -> str:
        tile = "x".join(map(str, self.tile))
        layouts = "-".join(self.layouts)
        return (
            f"{self.m}x{self.n}x{self.k}-{self.dtype}-{tile}-{layouts}-{self.options}-{self.order}"
            f"-{self.merge}"
        )

    @property
    def pipeline(self) -> str:
        order = f"tile-order{{{self.order}}}"
        return f"{order},stream-k{{merge={self.merge} {self.options}}}"

    def program(self, pipeline: str):
        program = gemm(self.m, self.n, self.k, self.dtype, None, self.tile, *self.layouts)
        return parse_pipeline(pipeline).run(program)

    def operands(self, make) -> tuple[torch.Tensor, torch.Tensor]:
        dims = {"row": 1, "col": 0}
        a = make((self.m, self.k), TORCH[self.dtype], 1)
        b = make((self.k, self.n), TORCH[self.dtype], 2)
        return laid_out(a, dims[self.layouts[0]]), laid_out(b, dims[self.layouts[1]])


MERGES = ("workspace", "fixup", "atomic-workspace", "atomic")
LAYOUTS = list(itertools.product(("row", "col"), repeat=2))
SIZES = [
    Case(1, 1, 1),
    Case(1, 80, 200),
    Case(96, 1, 200),
    Case(96, 80, 17),
    Case(97, 83, 131),
    Case(64, 64, 64),
    Case(64, 64, 640, options="units=40"),
    Case(130, 70, 128, options="units=200"),
    Case(16, 16, 100, tile=(16, 16, 16), options="units=3"),
    Case(128, 128, 256, tile=(128, 128, 64), options="units=7"),
]
DECOMPOSITIONS = [
    "split-k splits=3",
    "split-k splits=3 slot-order=split-slowest",
    "hybrid units=3 tail=one-tile",
    "hybrid units=3 bounds=ceil direction=backward first=data-parallel",
    "hybrid units=5 tail=one-tile first=data-parallel",
    "k-aligned units=7",
    "k-aligned units=13 cost=2",
    "data-parallel",
    "data-parallel units=3",
    "stream-k units=3 min-panels=2 direction=backward",
]
CASES = [
    *(Case(layouts=layouts, dtype=dtype) for layouts in LAYOUTS for dtype in TORCH),
    *(Case(options=f"units={units}") for units in (1, 2, 3, 9, 16, 40)),
    *(Case(options=f"units=7 bounds={bounds}") for bounds in ("floor", "ceil", "big-units")),
    *(Case(options="units=5", order=order) for order in ("along_m", "group=2")),
    Case(options="splits=4"),
    *(Case(options=f"decomposition={options}") for options in DECOMPOSITIONS),
    *SIZES,
    *(Case(options=f"units={units}", merge=merge) for units in (3, 40) for merge in MERGES[:3]),
    *(Case(options="splits=4", merge=merge) for merge in MERGES[:3]),
    *(replace(case, merge=MERGES[i % 3]) for i, case in enumerate(SIZES)),
    *(
        Case(options=f"decomposition={options}", merge=merge)
        for options in DECOMPOSITIONS
        if "data-parallel" not in options
        for merge in MERGES[:3]
    ),
]


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_integers_are_bit_for_bit_the_data_parallel_result(case: Case):
    a, b = case.operands(integers)
    whole, split = guarded((case.m, case.n)), guarded((case.m, case.n))
    compile(case.program(""), "interpret")(a, b, whole.tensor)
    compile(case.program(case.pipeline), "interpret")(a, b, split.tensor)
    assert split.tensor.equal(whole.tensor)
    check_product(split, a, b, acc=torch.int32)


@pytest.mark.sampled
@pytest.mark.parametrize("case", [c for c in CASES if c.dtype != "f16"][::3], ids=str)
def test_real_data_is_within_the_bound_of_fp64(case: Case):
    a, b = case.operands(normal)
    c = guarded((case.m, case.n), pad=3)
    compile(case.program(case.pipeline), "interpret")(a, b, c.tensor)
    check_product(c, a, b)


@pytest.mark.parametrize("options", DECOMPOSITIONS)
def test_a_permuted_kernel_takes_its_units_from_the_order(options: str):
    program = gemm(96, 80, 200, "f16", tile=(64, 64, 64))
    pipeline = parse_pipeline(f"stream-k{{decomposition={options} permuted=true}}")
    kernel = compile(pipeline.run(program), "interpret")
    a, b = integers((96, 200), torch.float16, 5), integers((200, 80), torch.float16, 6)
    units = constants(kernel.module.program.kernels[0])
    order = torch.arange(units.get("UNITS", units["TILES"]), dtype=torch.int32)
    for shuffled in (order, order.flip(0), order.roll(1)):
        c = guarded((96, 80))
        kernel(a, b, c.tensor, shuffled.contiguous())
        check_product(c, a, b, acc=torch.int32)


def test_control_an_order_that_names_a_unit_twice_gives_another_product():
    program = gemm(96, 80, 200, "f16", tile=(64, 64, 64))
    kernel = compile(StreamKPass(units=3, permuted=True).apply(program), "interpret")
    a, b = integers((96, 200), torch.float16, 5), integers((200, 80), torch.float16, 6)
    c = guarded((96, 80))
    kernel(a, b, c.tensor, torch.tensor([0, 1, 1], dtype=torch.int32))
    with pytest.raises(AssertionError, match="elements are wrong"):
        check_product(c, a, b, acc=torch.int32)


@pytest.mark.sampled
@pytest.mark.parametrize(("m", "n", "k"), [(0, 8, 8), (8, 0, 8), (0, 0, 0), (8, 8, 0), (70, 5, 0)])
@pytest.mark.parametrize(
    "pipeline",
    [
        *("", "stream-k{units=5}", "stream-k"),
        *(f"stream-k{{decomposition={options}}}" for options in DECOMPOSITIONS),
    ],
)
def test_empty_dimensions_give_zeros_or_nothing(m: int, n: int, k: int, pipeline: str):
    program = parse_pipeline(pipeline).run(gemm(m, n, k, "f16", tile=(64, 64, 64)))
    c = guarded((m, n))
    half = torch.float16
    compile(program, "interpret")(
        torch.empty(m, k, dtype=half), torch.empty(k, n, dtype=half), c.tensor
    )
    assert c.tensor.eq(0).all()
    c.check_guards()


SHAPES = [(96, 80, 200), (1, 130, 64), (0, 5, 7), (3, 4, 0), (64, 64, 640)]


@pytest.mark.parametrize(
    "options",
    [
        *("bounds=floor", "bounds=ceil merge=fixup", "bounds=big-units merge=atomic-workspace"),
        *("bounds=floor merge=fixup direction=backward", "bounds=ceil merge=atomic"),
    ],
)
def test_one_kernel_of_open_sizes_serves_every_shape_and_unit_count(options: str):
    open_sizes = gemm(None, None, None, "f16", tile=(64, 64, 64), b_layout="col")
    pipeline = parse_pipeline(f"stream-k{{launch-constants=true {options}}}")
    kernel = compile(pipeline.run(open_sizes), "interpret")
    for (m, n, k), units in itertools.product(SHAPES, (1, 6, 50)):
        a = integers((m, k), torch.float16, 3)
        b = laid_out(integers((k, n), torch.float16, 4), contiguous=0)
        c = guarded((m, n))
        kernel(a, b, c.tensor, units=units)
        check_product(c, a, b, acc=torch.int32)


@pytest.mark.parametrize(
    "options",
    [
        "decomposition=split-k splits=3",
        "decomposition=split-k splits=2 slot-order=split-slowest merge=fixup",
        "decomposition=split-k splits=17 merge=atomic-workspace",
        "decomposition=data-parallel units=3",
        "decomposition=data-parallel",
        "units=4 min-panels=2 direction=backward",
        "units=4 min-panels=2 merge=fixup",
    ],
)
def test_open_sizes_are_decomposed_by_the_launch(options: str):
    open_sizes = gemm(None, None, None, "f16", tile=(64, 64, 64))
    pipeline = parse_pipeline(f"stream-k{{{options} launch-constants=true}}")
    kernel = compile(pipeline.run(open_sizes), "interpret")
    for m, n, k in SHAPES:
        a, b = integers((m, k), torch.float16, 3), integers((k, n), torch.float16, 4)
        c = guarded((m, n))
        kernel(a, b, c.tensor)
        check_product(c, a, b, acc=torch.int32)
