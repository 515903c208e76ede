"""Bundles that several tests open, and what is known of their binaries from other places."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from backends.triton_codegen.bundle import Entry, bundle
from backends.triton_codegen.settings import Settings
from loopir.build import gemm
from loopir.parser import parse
from passes.pipeline import parse_pipeline
from tests.support.zoo import ZOO

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")
SMALL = Settings(num_warps=4, num_stages=2)


def three_programs() -> list[Entry]:
    """A bf16 product on Stream-K with a workspace, an fp16 convolution that a second kernel ends,
    an fp32 product with a vector that adds into its output."""
    return [
        Entry(gemm(100, 72, 136, "bf16", tile=(32, 32, 32)), parse_pipeline(GEMM), SMALL, "gemm"),
        Entry(_of_zoo("conv2d_nhwc"), parse_pipeline(CONV), SMALL, "conv"),
        Entry(_of_zoo("gemv_columns"), parse_pipeline(GEMV), SMALL, "gemv"),
    ]


GEMM = "stream-k{units=5},descriptors"
CONV = "stream-k{merge=fixup splits=2 decomposition=split-k}"
GEMV = "stream-k{merge=atomic units=5}"


def open_programs() -> list[Entry]:
    """Products of any size: on Stream-K with as many units as the device takes, by two kernels that
    overlap, by atomic adds."""
    product = gemm(None, None, None, "bf16", tile=(32, 32, 32), b_layout="col")
    overlapping = Settings(4, 2, launch_pdl=True)
    return [
        Entry(
            product,
            parse_pipeline("stream-k{launch-constants=true},descriptors"),
            SMALL,
            "workspace",
        ),
        Entry(product, parse_pipeline(f"stream-k{{{FIXUP}}},descriptors"), overlapping, "fixup"),
        Entry(
            product, parse_pipeline("stream-k{merge=atomic launch-constants=true}"), SMALL, "atomic"
        ),
    ]


FIXUP = "merge=fixup splits=2 decomposition=split-k launch-constants=true"


def _of_zoo(name: str):
    return parse((ZOO / f"{name}.lir").read_text())


@cache
def built(root: Path, kind: str) -> Path:
    """The folder of a bundle, made once under `root`: "three" programs for four targets, or "open"
    ones for cuda:90."""
    entries = three_programs() if kind == "three" else open_programs()
    folder = root / "bundles" / kind
    bundle(entries, TARGETS if kind == "three" else "cuda:90", folder)
    return folder


def entry_parameters(ptx: str, symbol: str) -> list[int]:
    """The bytes of each parameter of a kernel, as its PTX declares them."""
    header = re.search(rf"\.entry {symbol}\((.*?)\n\)", ptx, re.S)
    assert header
    lines = [line for line in header[1].splitlines() if ".param" in line]
    return [_parameter_bytes(line) for line in lines]


def _parameter_bytes(line: str) -> int:
    """Of `.param .u64 x` and `.param .align 64 .b8 x[128]`."""
    bits, count = re.search(r"\.[bu](\d+)", line), re.search(r"\[(\d+)\]", line)
    assert bits
    return int(bits[1]) // 8 * int(count[1] if count else 1)


def variants(manifest: Any) -> list[Any]:
    """All variants of a manifest, each with its target."""
    kernels = (k for p in manifest.programs for k in p.kernels)
    return [(b.target, v) for k in kernels for b in k.builds for v in b.variants]
