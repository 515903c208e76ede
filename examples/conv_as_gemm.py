"""A strided, padded 2-d convolution as an implicit GEMM: (batch, output pixels) x (window, input
channels) times (window, input channels) x output channels; no matrix of windows is ever made.
Checked on the CPU against torch in fp64."""

import torch
import torch.nn.functional as F

from backends.triton_codegen import compile
from loopir.build import conv_nest
from loopir.nodes import Program
from loopir.printer import to_text
from passes.pipeline import parse_pipeline

PIPELINE = "tile{m=64 n=32 k=32},offload,local-storage,stream-k{merge=atomic units=12}"
BATCH, INS, OUTS, SIZE, STRIDE, PADDING = 2, 16, 24, (17, 15), 2, 1


def main() -> None:
    nest = conv_nest(BATCH, INS, SIZE, OUTS, (3, 3), STRIDE, PADDING, layout="nhwc")
    rewritten = parse_pipeline(PIPELINE).run(nest)
    section("IR before", to_text(nest))
    section(f"IR after {PIPELINE}", to_text(rewritten))
    section("Result, in Triton's interpreter", run_and_check(rewritten))


def run_and_check(program: Program) -> str:
    """Raises if an element is further from fp64 than fp32 sums may be."""
    torch.manual_seed(0)
    x = torch.randn(BATCH, *SIZE, INS).to(torch.bfloat16)
    f = torch.randn(OUTS, 3, 3, INS).to(torch.bfloat16)
    exact, magnitude = convolved(x, f), convolved(x.abs(), f.abs())
    y = torch.full(exact.shape, torch.nan)
    compile(program, "interpret")(x, f, y)
    error = (y.double() - exact).abs()
    allowed = (9 * INS) ** 0.5 * 2.0**-23 * magnitude
    if not bool((error <= allowed).all()):
        raise AssertionError(f"largest error {error.max():.3g} is beyond what fp32 sums allow")
    return f"largest error against fp64: {error.max():.3g} (allowed there: {allowed.max():.3g})"


def convolved(x: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    """By torch in fp64, of tensors whose channels come last."""
    images, filters = x.double().movedim(-1, 1), f.double().movedim(-1, 1)
    return F.conv2d(images, filters, stride=STRIDE, padding=PADDING).movedim(1, -1)


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
