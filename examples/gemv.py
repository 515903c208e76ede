"""A matrix times a vector, and its transpose times one: products element by element and their sum
along an axis, no `dot`. From the untiled nest to Stream-K, checked on the CPU against fp64."""

import torch

from backends.triton_codegen import compile
from loopir.build import gemv_nest
from loopir.nodes import Program
from loopir.printer import to_text
from passes.pipeline import parse_pipeline

PIPELINE = "tile{m=64 k=64},offload,local-storage,stream-k{merge=atomic units=12}"
ROWS, COLUMNS = 300, 700


def main() -> None:
    torch.manual_seed(0)
    a = torch.randn(ROWS, COLUMNS).to(torch.bfloat16)
    for matrix, transposed in ((a, False), (a.t(), True)):
        nest = gemv_nest(ROWS, COLUMNS, "bf16", transposed=transposed)
        rewritten = parse_pipeline(PIPELINE).run(nest)
        section("A.T @ x" if transposed else "A @ x", to_text(nest))
        section(f"After {PIPELINE}", to_text(rewritten))
        section("Result, in Triton's interpreter", run_and_check(rewritten, a, matrix))


def run_and_check(program: Program, a: torch.Tensor, matrix: torch.Tensor) -> str:
    """`program` on `a` and a seeded vector against `matrix` times the vector; raises if an element
    is further off than fp32 sums may be."""
    x = torch.randn(matrix.shape[1]).to(torch.bfloat16)
    y = torch.full((matrix.shape[0],), torch.nan)
    compile(program, "interpret")(a, x, y)
    exact = matrix.double() @ x.double()
    error = (y.double() - exact).abs()
    allowed = len(x) ** 0.5 * 2.0**-23 * (matrix.double().abs() @ x.double().abs())
    if not bool((error <= allowed).all()):
        raise AssertionError(f"largest error {error.max():.3g} is beyond what fp32 sums allow")
    return f"largest error against fp64: {error.max():.3g} (allowed there: {allowed.max():.3g})"


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
