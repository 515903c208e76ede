"""Compiling for several targets at once: a table of what each costs, and the files of each."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

from backends.triton_codegen.aot import AotKernel, compile_ahead
from backends.triton_codegen.module import Module
from backends.triton_codegen.targets import Target
from loopir.errors import CodegenError

_ROW = "{:<12} {:>9} {:>9} {:>9} {:>9} {:>8}"
_HEAD = _ROW.format("target", "registers", "spills B", "shared B", "binary B", "time s")
_SUFFIXES = {"cuda": ("ptx", "cubin"), "hip": ("amdgcn", "hsaco")}


def compile_all(
    module: Module, targets: Sequence[Target], folder: Path | None
) -> tuple[str, tuple[str, ...]]:
    """The table of results, a row a kernel, and the text of each refusal. Files go to `folder`, if
    any; OSError."""
    rows, refusals = [_HEAD], []
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{module.kernels[0].name}.py").write_text(module.source, encoding="utf-8")
    for target in targets:
        start = time.perf_counter()
        try:
            first = compile_ahead(module, target)
        except CodegenError as error:
            refusals.append(str(error))
            rows.append(f"{target.text:<12} refused")
            continue
        seconds = time.perf_counter() - start
        for kernel in first.kernels:
            label = target.text if kernel is first else f"  @{kernel.info.symbol}"
            rows.append(_row(label, kernel, f"{seconds:.2f}" if kernel is first else ""))
            rows += [f"  warning: {text}" for text in kernel.warnings]
            if kernel.fallback:
                rows.append(_row("  pointers", kernel.fallback, ""))
                rows += [f"  warning: {text}" for text in kernel.fallback.warnings]
            for each in (kernel, kernel.fallback):
                if folder and each:
                    write_artifacts(each, folder)
    if module.program.workspaces:
        rows.append(f"workspace: {module.workspace_text}")
    return "\n".join(rows), tuple(refusals)


def _row(label: str, kernel: AotKernel, seconds: str) -> str:
    return _ROW.format(
        label,
        kernel.registers,
        kernel.spill_bytes,
        kernel.shared_bytes,
        len(kernel.binary),
        seconds,
    ).rstrip()


def write_artifacts(kernel: AotKernel, folder: Path) -> None:
    """The binary, its assembly and a JSON file of what a loader needs, named by kernel and
    target."""
    stem = f"{kernel.info.name}.{kernel.target.text.replace(':', '-')}"
    assembly, binary = _SUFFIXES[kernel.target.backend]
    (folder / f"{stem}.{assembly}").write_text(kernel.assembly, encoding="utf-8")
    (folder / f"{stem}.{binary}").write_bytes(kernel.binary)
    text = json.dumps(_description(kernel), indent=2, sort_keys=True)
    (folder / f"{stem}.json").write_text(f"{text}\n", encoding="utf-8")


def _description(kernel: AotKernel) -> dict:
    args = [{"name": a.name, "kind": a.kind.value, "symbol": a.symbol} for a in kernel.info.args]
    return {
        "kernel": kernel.metadata["name"],
        "target": kernel.target.text,
        "num_warps": kernel.metadata["num_warps"],
        "shared_bytes": kernel.shared_bytes,
        "registers": kernel.registers,
        "spill_bytes": kernel.spill_bytes,
        "arguments": [a for a in args if a["kind"] != "constant"],
        "assumptions": list(kernel.assumptions),
        "workspace": kernel.workspace,
    }
