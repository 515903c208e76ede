"""A GEMM the whole way, on the CPU: IR, Stream-K, Triton source, a checked result, and a cubin
without a GPU."""

import torch

from backends.triton_codegen import compile, emit
from loopir.build import gemm
from loopir.printer import to_text
from passes.explain import explain
from passes.pipeline import parse_pipeline

PIPELINE = "stream-k{merge=atomic units=12}"


def main() -> None:
    program = gemm(384, 320, 512, "bf16", tile=(128, 64, 64), b_layout="col")
    pipeline = parse_pipeline(PIPELINE)
    rewritten = pipeline.run(program)
    section("IR before", to_text(program))
    section(f"IR after {PIPELINE}", to_text(rewritten))
    section("The schedule on 12 SMs, explained", explain(program, pipeline.passes[0], sms=12))
    section("Triton source", emit(rewritten, pipeline=PIPELINE).source)
    section("Result, in Triton's interpreter", run_and_check(rewritten))
    section("Ahead of time, for an H100 or H200", compile_ahead(rewritten))


def run_and_check(program) -> str:
    """Run on seeded random matrices and compare with fp64; raises if an element is further off than
    fp32 sums may be."""
    torch.manual_seed(0)
    a = torch.randn(384, 512).to(torch.bfloat16)
    b = torch.randn(320, 512).to(torch.bfloat16).t()  # stored [N, K], as weights are
    c = torch.full((384, 320), float("nan"))
    compile(program, "interpret")(a, b, c)
    exact = a.double() @ b.double()
    error = (c.double() - exact).abs()
    allowed = 512**0.5 * 2.0**-23 * (a.double().abs() @ b.double().abs())
    if not bool((error <= allowed).all()):
        raise AssertionError(f"largest error {error.max():.3g} is beyond what fp32 sums allow")
    return f"largest error against fp64: {error.max():.3g} (allowed there: {allowed.max():.3g})"


def compile_ahead(program) -> str:
    kernel = compile(program, "cuda:90")
    return (
        f"cubin of {len(kernel.binary):,} bytes, {kernel.registers} registers, "
        f"{kernel.spill_bytes} spilled bytes, {kernel.shared_bytes:,} bytes of shared memory"
    )


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
