"""A tensor contraction from an einsum string: `b` is a batch, `i` and `j` are the rows, `d` the
columns, `c` is summed; the output is stored in another order than the loops run. Checked on the CPU
against numpy in fp64."""

import numpy as np
import torch

from backends.triton_codegen import compile
from loopir.build import contraction_nest
from loopir.nodes import Program
from loopir.printer import to_text
from passes.pipeline import parse_pipeline

SPEC = "bijc,bcd->bidj"
PIPELINE = "tile{m=64 n=32 k=32},offload,local-storage,stream-k{merge=atomic units=12}"
SIZES = {"b": 2, "i": 7, "j": 13, "c": 150, "d": 40}


def main() -> None:
    nest = contraction_nest(SPEC, SIZES, "f32")
    rewritten = parse_pipeline(PIPELINE).run(nest)
    section(f"{SPEC}, before", to_text(nest))
    section(f"After {PIPELINE}", to_text(rewritten))
    section("Result, in Triton's interpreter", run_and_check(rewritten))


def run_and_check(program: Program) -> str:
    """Raises if an element is further from fp64 than fp32 sums may be."""
    rng = np.random.default_rng(0)
    left, right, out = SPEC.replace("->", ",").split(",")
    a, b = (rng.normal(size=shape(labels)).astype(np.float32) for labels in (left, right))
    c = torch.full(shape(out), torch.nan)
    compile(program, "interpret")(torch.from_numpy(a), torch.from_numpy(b), c)
    exact = np.einsum(SPEC, a.astype(np.float64), b.astype(np.float64))
    error = np.abs(c.numpy() - exact)
    allowed = SIZES["c"] ** 0.5 * 2.0**-23 * np.einsum(SPEC, np.abs(a), np.abs(b))
    if not (error <= allowed).all():
        raise AssertionError(f"largest error {error.max():.3g} is beyond what fp32 sums allow")
    return f"largest error against fp64: {error.max():.3g} (allowed there: {allowed.max():.3g})"


def shape(labels: str) -> tuple[int, ...]:
    return tuple(SIZES[label] for label in labels)


def section(title: str, text: str) -> None:
    print(f"\n--- {title} {'-' * max(0, 96 - len(title))}\n{text.rstrip()}")


if __name__ == "__main__":
    main()
