"""Programs with workspaces and several kernels, compiled ahead of time: what an arrival costs and
guarantees, and what the tools say and write."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from backends.triton_codegen import AotKernel, compile, emit, tool
from loopir.parser import parse, parse_expr
from loopir.scope import launch_symbols, resized
from loopir.symbols import evaluate, names_of
from tests.support.workspace_texts import FIXUP, PICKED, STREAM_K, TEXTS

BIG = {"M": 1536, "N": 1536, "K": 4096, "BM": 128, "BN": 128, "BK": 64, "BR": 32, "UNITS": 132}
ARRIVING = [name for name in TEXTS if name != "fixup"]


@cache
def compiled(name: str, target: str = "cuda:90", **settings: int) -> AotKernel:
    found = compile(resized(parse(TEXTS[name]), BIG), target, **settings)
    assert isinstance(found, AotKernel)
    return found


def memory_operations(sass: str) -> list[str]:
    """The operations of a disassembly that order or move global memory, and its barriers."""
    found = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", sass, re.M)
    kinds = r"(ATOMG?|RED|REDG|MEMBAR|CCTL|LDG|STG|BAR)\b"
    return [op for op in found if re.match(kinds, op)]


@pytest.mark.parametrize("name", TEXTS)
def test_hopper_runs_each_kernel_without_spills_or_waiting_for_its_tensor_cores(name: str):
    for kernel in compiled(name).kernels:
        assert kernel.spill_bytes == 0
        assert kernel.warnings == ()


@pytest.mark.parametrize("name", ARRIVING)
def test_an_arrival_is_one_acquire_release_atomic_a_block(name: str):
    ptx = compiled(name).assembly
    atomics = re.findall(r"^\s*(?:@\S+ )?(atom\.\S+)", ptx, re.M)
    ordered = [atomic for atomic in atomics if "relaxed" not in atomic]
    assert ordered == ["atom.global.gpu.acq_rel.add.u32"]
    assert (atomics != ordered) is (name == "atomic")
    lines = [line.strip() for line in ptx.splitlines()]
    at = next(i for i, line in enumerate(lines) if "acq_rel" in line)
    barriers = [i for i, line in enumerate(lines) if line.startswith("bar.sync")]
    stores = [i for i, line in enumerate(lines) if re.match(r"(@\S+ )?(st|red|atom)\.global", line)]
    before = max(i for i in barriers if i < at)
    assert not [i for i in stores if before < i < at]
    assert any(i > at for i in barriers)


@pytest.mark.parametrize("name", ARRIVING)
def test_an_arrival_is_a_fence_before_and_an_invalidated_cache_behind(name: str):
    found = memory_operations(compiled(name).sass)
    (at,) = [i for i, op in enumerate(found) if op.startswith("ATOM")]
    assert found[at - 1] == "MEMBAR.ALL.GPU"
    assert found[at + 1].startswith("CCTL.IVALL")
    assert found[at - 2].startswith("BAR")
    after = found[at + 2 :]
    assert any(op.startswith("BAR") for op in after[: after.index("STG.E") + 2])


@pytest.mark.parametrize("name", ARRIVING)
def test_partial_tiles_are_loaded_from_the_shared_cache(name: str):
    (kernel,) = compiled(name).kernels
    assert "ld.global.cg" in kernel.assembly
    found = memory_operations(kernel.sass)
    assert any(op.startswith("LDG") and "STRONG.GPU" in op for op in found)


def test_a_second_kernel_takes_no_shared_memory():
    """Beside blocks of the first, which leave none, it finds room."""
    first, last = compiled("fixup").kernels
    assert first.shared_bytes > last.shared_bytes == 0


@pytest.mark.sampled
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_other_targets_take_workspaces_too(name: str, target: str):
    settings = {"num_stages": 2} if target.startswith("hip") else {}
    for kernel in compiled(name, target, **settings).kernels:
        assert kernel.binary[:4] == b"\x7fELF"


def test_each_kernel_of_a_program_has_its_binary_and_the_bytes_of_the_workspace():
    first = compiled("fixup")
    assert [k.info.symbol for k in first.kernels] == ["gemm", "gemm_fixup"]
    assert len({k.binary for k in first.kernels}) == 2
    tiles = 12 * 12 * 3 * 128 * 128 * 4
    assert {k.workspace for k in first.kernels} == {f"{tiles:,} bytes"}
    assert "partials" in first.assumptions[0]


def test_bytes_that_follow_from_the_launch_are_an_expression_of_its_symbols():
    program = resized(parse(PICKED), {"BM": 64, "BN": 64, "BK": 32})
    kernel = compile(program, "cuda:90")
    assert isinstance(kernel, AotKernel)
    total = parse_expr(kernel.workspace.removesuffix(" bytes"))
    assert names_of(total) == {"M", "N", "UNITS"} < {*launch_symbols(program.kernels[0])}
    sizes = {"M": 640, "N": 1000, "K": 512, "UNITS": 7}
    assert evaluate(total, sizes) == emit(program).workspace_bytes(sizes) > 0


# --- the tool


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "program.lir"
        path.write_text(text)
        return str(path)

    return write


def test_emit_writes_every_kernel(file, capsys: pytest.CaptureFixture[str]):
    assert tool.main(["emit", file(FIXUP)]) == 0
    source = capsys.readouterr().out
    assert source == emit(parse(FIXUP)).source
    assert source.count("@triton.jit\ndef gemm") == 2


def test_compile_has_a_row_and_files_for_each_kernel(file, tmp_path, capsys):
    folder = tmp_path / "out"
    code = tool.main(["compile", file(FIXUP), "--target", "cuda:90", "-o", str(folder)])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert [line.split()[0] for line in lines] == ["target", "cuda:90", "@gemm_fixup", "workspace:"]
    assert lines[-1] == "workspace: 36,864 bytes"
    written = {p.name for p in folder.iterdir()}
    stems = ("gemm.cuda-90", "gemm_fixup.cuda-90")
    assert written == {"gemm.py", *(f"{s}.{e}" for s in stems for e in ("cubin", "json", "ptx"))}
    described = json.loads((folder / "gemm_fixup.cuda-90.json").read_text())
    assert described["workspace"] == "36,864 bytes"
    assert [a["symbol"] for a in described["arguments"]] == ["bias", "C", "partials", "C"]


@pytest.mark.parametrize("text", [FIXUP, STREAM_K], ids=["fixup", "stream-k"])
def test_run_compares_with_the_reference(text: str, file, capsys):
    assert tool.main(["run", file(text), "--target", "interpret"]) == 0
    assert "the outputs agree" in capsys.readouterr().out


def test_run_of_open_sizes_takes_units(file, capsys):
    sizes = [f"--size={name}={n}" for name, n in (("M", 40), ("N", 50), ("K", 90))]
    code = tool.main(["run", file(PICKED), "--target", "interpret", "--units", "7", *sizes])
    assert code == 0
    assert "the outputs agree" in capsys.readouterr().out
