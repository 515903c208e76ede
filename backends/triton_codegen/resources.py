"""What a compiled kernel costs a device: registers, spills, and the warnings of its assembler."""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.triton_codegen.targets import Target
from loopir.errors import CodegenError


@dataclass(frozen=True)
class Resources:
    """Registers a thread, bytes of spill stores and loads a thread, and assembler warnings as
    text."""

    registers: int
    spill_bytes: int
    warnings: tuple[str, ...] = ()


def measure(target: Target, assembly: str, fp_fusion: bool, options: str = "") -> Resources:
    """The resources of PTX, as an assembler with these `options` gives them, or of amdgcn text.
    CodegenError: the assembler refuses it."""
    if target.backend == "hip":
        return _from_amdgcn(assembly)
    return from_ptxas(_ptxas_log(target, assembly, fp_fusion, options.split()))


def assembler(target: Target) -> Any:
    """The ptxas that Triton takes for an NVIDIA target at this moment, with its `path` and
    `version`. `TRITON_PTXAS_PATH` names another than Triton's own, whose PTX is of that one's
    version; torch.compile sets it, too, where CUDA is newer than Triton's. CodegenError: what it
    names cannot be run."""
    return _tool("ptxas_blackwell" if int(target.arch) >= 100 else "ptxas")


def assembler_key(target: Target) -> str:
    """What tells that assembler from all others, one that took its place included."""
    if target.backend == "hip":
        return ""
    tool = assembler(target)
    about = os.stat(tool.path)
    return f"{tool.version} {os.path.realpath(tool.path)} {about.st_size} {about.st_mtime_ns}"


def is_tritons_own(target: Target) -> bool:
    """Whether it is the one that comes with Triton."""
    import triton

    own = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return target.backend == "hip" or Path(assembler(target).path).parent.samefile(own)


def _tool(name: str) -> Any:
    from triton import knobs

    try:
        return getattr(knobs.nvidia, name)
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        variable = f"TRITON_{name.upper()}_PATH"
        raise CodegenError(f"{variable}, {os.environ.get(variable, '')!r}: {error}") from error


def is_current(target: Target, assembly: str) -> bool:
    """Whether PTX is of the version that Triton writes for the assembler of this moment."""
    from triton.backends.nvidia.compiler import ptx_get_version

    if target.backend == "hip":
        return True
    version = divmod(ptx_get_version(assembler(target).version), 10)
    return f".version {version[0]}.{version[1]}\n" in assembly


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin, through the nvdisasm of Triton."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.cubin")
        path.write_bytes(cubin)
        return _run([_tool("nvdisasm").path, "-c", str(path)]).stdout


def from_ptxas(log: str) -> Resources:
    """The resources that `ptxas -v` prints."""
    registers = sum(map(int, re.findall(r"Used (\d+) registers", log)))
    spills = sum(map(int, re.findall(r"(\d+) bytes spill (?:stores|loads)", log)))
    warnings = [
        line.strip() for line in log.splitlines() if re.search(r"\bC7\d\d\d\b|warning\s*:", line)
    ]
    return Resources(registers, spills, tuple(dict.fromkeys(warnings)))


def _from_amdgcn(assembly: str) -> Resources:
    def count(key: str) -> int:
        return max(map(int, re.findall(rf"\.{key}:\s*(\d+)", assembly)), default=0)

    spilled = count("vgpr_spill_count") + count("sgpr_spill_count")
    return Resources(count("vgpr_count"), 4 * spilled)


def _ptxas_log(target: Target, ptx: str, fp_fusion: bool, options: list[str]) -> str:
    from triton import knobs

    arch = int(target.arch)
    suffix = "a" if arch >= 90 else ""
    options = options if fp_fusion else ["--fmad=false", *options]
    if knobs.nvidia.disable_ptxas_opt:
        options = ["-g", "--opt-level", "0", *options]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.ptx")
        path.write_text(ptx)
        asked = "-v", "-lineinfo", *options, f"--gpu-name=sm_{arch}{suffix}"
        return _run([assembler(target).path, *asked, str(path), "-o", os.devnull]).stderr


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        name = Path(command[0]).name
        raise CodegenError(f"{name} failed with {result.returncode}: {result.stderr.strip()}")
    return result
