"""Batched GEMMs: each batch with its own B, which is a third grid axis; and one B that all batches
share, where the batch joins the rows. Checked on the CPU against fp64."""

import torch

from backends.triton_codegen import compile
from loopir.build import batched_gemm_nest
from loopir.nodes import Program
from loopir.printer import to_text
from passes.pipeline import parse_pipeline

PIPELINE = "tile{m=64 n=64 k=32},offload,local-storage,stream-k{merge=atomic units=12}"
BATCHES, M, N, K = 3, 100, 70, 200


def main() -> None:
    torch.manual_seed(0)
    a = torch.randn(BATCHES, M, K).to(torch.float16)
    b = torch.randn(BATCHES, K, N).to(torch.float16)
    for right, b_batched in ((b, True), (b[0], False)):
        nest = batched_gemm_nest(BATCHES, M, N, K, "f16", b_batched=b_batched)
        rewritten = parse_pipeline(PIPELINE).run(nest)
        section("A B for each batch" if b_batched else "One B for all batches", to_text(nest))
        section(f"After {PIPELINE}", to_text(rewritten))
        section("Result, in Triton's interpreter", run_and_check(rewritten, a, right))


def run_and_check(program: Program, a: torch.Tensor, b: torch.Tensor) -> str:
    """Raises if an element is further from fp64 than fp32 sums may be."""
    c = torch.full((BATCHES, M, N), torch.nan)
    compile(program, "interpret")(a, b, c)
    exact = a.double() @ b.double()
    error = (c.double() - exact).abs()
    allowed = K**0.5 * 2.0**-23 * (a.double().abs() @ b.double().abs())
    if not bool((error <= allowed).all()):
        raise AssertionError(f"largest error {error.max():.3g} is beyond what fp32 sums allow")
    return f"largest error against fp64: {error.max():.3g} (allowed there: {allowed.max():.3g})"


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
