"""Manifests of bundles by hand, for what no pipeline makes: odd sizes, wrong words, limits."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

IMAGE = b"no machine code, but a text that the mock driver takes"


def expression(tree: Any) -> dict[str, Any]:
    return {"tree": tree, "text": ""}


def parameter(
    name: str, *shape: Any, dtype: str = "f32", out: bool = False, **changes: Any
) -> dict:
    size = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "f64": 8}[dtype]
    return {
        "name": name,
        "dtype": dtype,
        "element_bytes": size,
        "direction": "out" if out else "in",
        "shape": [*map(expression, shape)],
        "contiguous": len(shape) - 1,
        **changes,
    }


def computed(name: str, tree: Any) -> dict[str, Any]:
    return {"name": name, "kind": "computed", "expression": expression(tree), "option": ""}


def given(name: str, option: str = "") -> dict[str, Any]:
    return {"name": name, "kind": "given", "expression": None, "option": option or name}


def picked(name: str, option: str, bound: Any) -> dict[str, Any]:
    return {"name": name, "kind": "picked", "expression": expression(bound), "option": option}


def argument(tree: Any, type: str = "i64") -> dict[str, Any]:
    whole = {"name": "x", "kind": "size", "type": type, "descriptor": None}
    return {**whole, "expression": expression(tree)}


def map_argument(descriptor: int) -> dict[str, Any]:
    whole = {"name": "x", "kind": "descriptor", "type": "tensor_map", "expression": None}
    return {**whole, "descriptor": descriptor}


def condition(tree: Any, least: int = 0, most: int = 2**63 - 1, multiple_of: int = 1) -> dict:
    limits = {"least": least, "most": most, "multiple_of": multiple_of}
    return {"expression": expression(tree), **limits}


def variant(symbol: str, arguments: Sequence[dict] = (), **changes: Any) -> dict[str, Any]:
    return {
        "name": "plain",
        "symbol": symbol,
        "binary": "k.cubin",
        "assembly": "k.ptx",
        "threads": 128,
        "shared_bytes": 0,
        "registers": 32,
        "spill_bytes": 0,
        "conditions": [],
        "descriptors": [],
        "arguments": [*arguments],
        **changes,
    }


def kernel(blocks: Any, *variants: dict, **changes: Any) -> dict[str, Any]:
    builds = [{"target": "cuda:90", "variants": [*variants]}]
    found = {"name": "k", "blocks": expression(blocks), "zeroed": [], "launch_pdl": False}
    return {**found, "builds": builds, **changes}


def program(name: str = "p", **changes: Any) -> dict[str, Any]:
    """A program of no kernel, or of what `changes` say."""
    whole = {
        "name": name,
        "parameters": [],
        "disjoint": [],
        "values": [],
        "launch_values": [],
        "workspace": workspace(),
        "kernels": [],
    }
    return {**whole, **changes}


def workspace(counter_bytes: Any = 0, tile_bytes: Any = 0, *parts: dict) -> dict[str, Any]:
    sizes = {"counter_bytes": expression(counter_bytes), "tile_bytes": expression(tile_bytes)}
    return {"alignment": 256, **sizes, "parts": [*parts]}


def part(name: str, region: str, offset: Any, size: Any) -> dict[str, Any]:
    sizes = {"offset": expression(offset), "bytes": expression(size)}
    return {"name": name, "dtype": "f32", "region": region, **sizes}


def target(name: str = "cuda:90", major: int = 9, minor: int = 0, is_exact: bool = True) -> dict:
    capability = {"capability": [major, minor], "is_exact": is_exact}
    return {"name": name, "backend": "cuda", "architecture": "sm", "warp_size": 32, **capability}


def manifest(*programs: dict, targets: Sequence[dict] = (), files: dict[str, bytes] | None = None):
    """A manifest whose binaries are `files`; one file, if not said."""
    listed = [
        {"path": p, "bytes": len(b), "sha256": hashlib.sha256(b).hexdigest(), "role": "binary"}
        for p, b in (files or {"k.cubin": IMAGE}).items()
    ]
    return {"targets": [*(targets or [target()])], "programs": [*programs], "files": listed}


def write_files(folder: Path, files: dict[str, bytes] | None = None) -> Path:
    for path, content in (files or {"k.cubin": IMAGE}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder
