"""Pieces of an epilogue and fused loops over tiles on a GPU: the bits of whole columns and of loops
apart, for every epilogue, edge and walk."""

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile
from loopir.build import Epilogue, gemm
from passes.pipeline import parse_pipeline
from tests.support.numerics import check_product, guarded, laid_out, normal

pytestmark = pytest.mark.gpu

TILE = (128, 256, 64)
HAS_DESCRIPTORS = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (9, 0)
only_with_descriptors = pytest.mark.skipif(not HAS_DESCRIPTORS, reason="no GPU that copies boxes")
EPILOGUES = {
    "nothing": Epilogue(),
    "bias": Epilogue(bias="bf16", activation="gelu"),
    "in place": Epilogue(alpha=0.5, beta=2),
    "residual": Epilogue(residual="bf16"),
}
WHOLE = "tile-order{group=8},stream-k{decomposition=data-parallel units=40}"
K_ALIGNED = "tile-order{group=8},stream-k{decomposition=k-aligned units=40 merge=fixup"
#: walk, and what is added to it
WALKS = (
    ("tile-order{group=8}", "epilogue-pieces"),
    (WHOLE, "epilogue-pieces{columns=4}"),
    (WHOLE, "epilogue-pieces,flatten"),
    (f"{K_ALIGNED}}}", "flatten"),
    (f"{K_ALIGNED} slot-layout=fragments}}", "epilogue-pieces,flatten"),
    ("stream-k{decomposition=k-aligned units=40}", "epilogue-pieces"),
    ("stream-k{units=40 slot-layout=fragments}", "epilogue-pieces"),
    ("stream-k{decomposition=split-k splits=3}", "epilogue-pieces"),
)
#: the last one has parts of tiles by the shares of many units
SHAPES = (
    (1000, 904, 1096),
    (130, 264, 8),
    (1160, 1032, 2048),
    (2048, 1288, 520),
    (900, 1600, 3144),
)


def made(shape, tile, pipeline: str, epilogue: Epilogue, **settings) -> CompiledKernel:
    m, n, k = shape
    program = gemm(m, n, k, "bf16", "bf16", tile, b_layout="col", epilogue=epilogue)
    kernel = compile(parse_pipeline(pipeline).run(program), "jit", **settings)
    assert isinstance(kernel, CompiledKernel)
    return kernel


def outputs(kernels: list[CompiledKernel], shape, epilogue: Epilogue) -> list[torch.Tensor]:
    """C of each kernel, from the same inputs, after two launches."""
    m, n, k = shape
    a = normal((m, k), torch.bfloat16, 1, device="cuda")
    b = laid_out(normal((k, n), torch.bfloat16, 2, device="cuda"), 0)
    more = [normal((n,), torch.bfloat16, 3, device="cuda")] if epilogue.bias else []
    more += [normal((m, n), torch.bfloat16, 4, device="cuda")] if epilogue.residual else []
    found = []
    for kernel in kernels:
        c = guarded((m, n), torch.bfloat16, device="cuda")
        for _ in range(2):
            c.tensor.fill_(1.0 if epilogue.beta else float("nan"))
            kernel(a, b, *more, c.tensor)
        c.check_guards()
        found.append(c)
    if epilogue == Epilogue():
        check_product(found[-1], a, b)
    return [c.tensor for c in found]


def check_same_bits(shape, tile, walk: str, more: str, epilogue: Epilogue, stages: int = 3) -> None:
    pipelines = f"{walk},descriptors", f"{walk},{more},descriptors"
    settings = {"num_warps": 8, "num_stages": stages}
    kernels = [made(shape, tile, p, epilogue, **settings) for p in pipelines]
    plain, pieces = outputs(kernels, shape, epilogue)
    assert not plain.isnan().any()
    assert torch.equal(plain, pieces)


@only_with_descriptors
@pytest.mark.parametrize(("walk", "more"), WALKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_walks_have_the_same_bits(shape, walk: str, more: str):
    check_same_bits(shape, (128, 128, 64), walk, more, Epilogue())


@only_with_descriptors
@pytest.mark.parametrize("name", EPILOGUES)
@pytest.mark.parametrize(("walk", "more"), WALKS[2:5])
def test_epilogues_have_the_same_bits(name: str, walk: str, more: str):
    check_same_bits(SHAPES[4], (128, 128, 64), walk, more, EPILOGUES[name])


@only_with_descriptors
@pytest.mark.parametrize(("walk", "more"), [WALKS[2], WALKS[4]])
def test_a_fourth_stage_has_the_bits_of_three(walk: str, more: str):
    shape = (2048, 4096, 4096)
    three = made(shape, TILE, f"{walk},descriptors", Epilogue(), num_warps=8, num_stages=3)
    four = made(shape, TILE, f"{walk},{more},descriptors", Epilogue(), num_warps=8, num_stages=4)
    assert torch.equal(*outputs([three, four], shape, Epilogue()))


@only_with_descriptors
@pytest.mark.parametrize(
    "tile", [(64, 256, 64), (128, (128, 64), 64), (128, (128, 16), 64)], ids=str
)
def test_other_tiles_have_the_same_bits(tile):
    check_same_bits(SHAPES[0], tile, *WALKS[2], EPILOGUES["bias"])
