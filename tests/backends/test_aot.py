"""Compiling ahead of time, without a GPU: what comes out for each target, and what is refused in
words."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from backends.triton_codegen import TARGETS as TABLE
from backends.triton_codegen import (
    AotKernel,
    ArgKind,
    KernelArg,
    Module,
    Settings,
    compile,
    emit,
    parse_target,
)
from backends.triton_codegen.compile import AheadTarget
from backends.triton_codegen.dtypes import SIGNATURE_NAME
from backends.triton_codegen.load import load
from backends.triton_codegen.resources import from_ptxas, measure
from loopir.build import gemm
from loopir.errors import CodegenError
from loopir.parser import parse
from passes.stream_k import StreamKPass
from passes.stream_k.atomics import ATOMIC_ADD
from tests.support import kernels
from tests.support.texts import GEMM

TARGETS = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942")
TILES = [(128, 128, 64), (128, 256, 64)]


def program(tile: tuple[int, int, int] = (128, 128, 64), dtype: str = "bf16", split: bool = False):
    whole = gemm(1536, 1536, 4096, dtype, tile=tile, b_layout="col")
    return StreamKPass(units=132, merge="atomic").apply(whole) if split else whole


@cache
def compiled(target: str, tile=(128, 128, 64), dtype="bf16", split=False, **settings) -> AotKernel:
    found = compile(program(tile, dtype, split), target, **settings)
    assert isinstance(found, AotKernel)
    return found


def operations(sass: str) -> list[str]:
    """The machine operations of a disassembly, in order, predicates left out."""
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", sass, re.M)


@pytest.mark.parametrize("split", [False, True], ids=["data-parallel", "stream-k"])
@pytest.mark.parametrize("target", TARGETS)
def test_each_target_gives_a_binary_and_its_cost(target: str, split: bool):
    stages = 2 if target.startswith("hip") else 3
    kernel = compiled(target, split=split, num_stages=stages)
    assert kernel.binary[:4] == b"\x7fELF"
    assert 32 <= kernel.registers <= 512
    assert 0 < kernel.shared_bytes <= parse_target(target).shared_bytes
    assert kernel.metadata["num_warps"] == 8
    assert kernel.info.name in kernel.assembly
    assert kernel.warnings == ()


@pytest.mark.parametrize("split", [False, True], ids=["data-parallel", "stream-k"])
@pytest.mark.parametrize("tile", TILES, ids=str)
def test_hopper_uses_its_tensor_cores_and_asynchronous_copies_without_spills(tile, split: bool):
    kernel = compiled("cuda:90", tile, split=split)
    found = operations(kernel.sass)
    assert sum(op.startswith("HGMMA") for op in found) >= 4
    assert sum(op.startswith("LDGSTS") and op.endswith(".128") for op in found) >= 24
    assert not any(op.startswith(("LDG.", "LDL", "STL")) for op in found)
    assert kernel.spill_bytes == 0


def test_merge_atomics_are_vector_reductions_without_fences():
    found = operations(compiled("cuda:90", split=True).sass)
    reductions = [op for op in found if op.startswith("RED")]
    assert len(reductions) == 128 * 128 // 256 // 4
    assert not any(op.startswith(("MEMBAR", "CCTL")) for op in found)


def test_pipeline_holds_the_stages_asked_for():
    panel = 2 * (128 + 128) * 64
    assert compiled("cuda:90", num_stages=2).shared_bytes == 2 * panel
    assert compiled("cuda:90", num_stages=4).shared_bytes == 4 * panel


def test_blackwell_and_amd_use_their_matrix_units():
    assert any(op.startswith("UTC") and "MMA" in op for op in operations(compiled("cuda:100").sass))
    assert "v_mfma_f32" in compiled("hip:gfx942", num_stages=2).sass


@pytest.mark.parametrize(("target", "stages", "available"), [
    ("cuda:90", 8, "232,448"), ("cuda:80", 8, "166,912"), ("hip:gfx942", 4, "65,536"),
])  # fmt: skip
def test_kernel_over_the_shared_memory_limit_is_refused_with_figures(target, stages, available):
    with pytest.raises(CodegenError) as error:
        compile(program(), target, num_stages=stages)
    text = str(error.value)
    assert re.search(rf"needs [\d,]+ bytes of shared memory, a block can have {available}", text)
    assert f"lower num_stages (now {stages})" in text


def test_what_triton_cannot_compile_is_an_error_of_the_toolkit():
    program = gemm(64, 64, 64, "f32", tile=(32, 32, 32), precision="tf32x3")
    with pytest.raises(CodegenError, match="hip:gfx942: Triton cannot compile @gemm"):
        compile(program, "hip:gfx942")


PTXAS_LOG = """\
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async is serialized due to x
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    16 bytes stack frame, 24 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size
"""


def test_warnings_and_spills_of_the_assembler_are_read_from_its_log():
    found = from_ptxas(PTXAS_LOG)
    assert found.registers == 168
    assert found.spill_bytes == 32
    (warning,) = found.warnings
    assert "C7510" in warning


def test_a_kernel_called_warnings_is_none():
    log = PTXAS_LOG + "ptxas info    : Function properties for warnings\n"
    assert from_ptxas(log) == from_ptxas(PTXAS_LOG)


@pytest.mark.parametrize("wrong", ["cuda:9", "cuda90", "hip:gfx94", "", "metal"])
def test_unknown_target_is_refused_and_the_known_ones_listed(wrong: str):
    with pytest.raises(CodegenError, match=r"unknown target .*known: interpret, jit, cuda:80"):
        compile(program(), wrong)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i8", "f8e5m2", "f8e4m3"])
def test_operand_types_compile_for_hopper(dtype: str):
    kernel = compiled("cuda:90", (64, 64, 32), dtype, num_stages=2, num_warps=4)
    assert kernel.spill_bytes == 0


@pytest.mark.parametrize("name", kernels.NAMES)
def test_unforeseen_kernels_compile_for_hopper_and_amd(name: str):
    module = emit(parse(kernels.text(name)))
    assert compile(module, "cuda:90").spill_bytes == 0
    assert compile(module, "hip:gfx942", num_stages=2).binary


@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (64, 64, 0), (1, 1, 1)])
def test_empty_and_unit_sizes_compile(shape: tuple[int, int, int]):
    assert compile(gemm(*shape, tile=(32, 32, 32)), "cuda:90").binary


def test_strides_count_as_aligned_unless_the_rows_are_known_not_to_be():
    aligned, odd = (
        compile(parse(GEMM), "cuda:80"),
        compile(parse(GEMM.replace("N = 80", "N = 81")), "cuda:80"),
    )
    assert "A_stride0" not in "".join(aligned.assumptions)  # K = 100
    assert "B_stride0, C_stride0: multiples of 16 bytes" in aligned.assumptions
    assert not any("multiples of 16 bytes" in text for text in odd.assumptions)


@pytest.mark.parametrize(("rows", "is_whole"), [(520, True), (524, False)])
def test_rows_that_are_whole_steps_of_16_bytes_are_loaded_so(rows: int, is_whole: bool):
    program = gemm(256, 256, rows, tile=(64, 64, 32), b_layout="col")
    sass = compile(program, "cuda:90", num_warps=4).sass
    assert ("LDGSTS.E.BYPASS.128" in sass) is is_whole
    assert ("LDG.E.U16" in sass) is not is_whole


def test_loop_of_a_known_number_of_panels_is_not_unrolled_whole():
    """The control tells the assembler the number."""
    settings = Settings(num_warps=4, num_stages=8)
    program = gemm(16, 4096, 4096, "bf16", "bf16", (16, 16, 128), b_layout="col")
    module = emit(program, settings)
    told = replace(module, source=module.source.replace("opaque(P)", "P"))
    loop, unrolled = (compile(m, "cuda:90").sass for m in (module, told))
    assert unrolled.count("HMMA") > 4 * loop.count("HMMA") > 0


def triton_compiled(module: Module, source: str, values: dict[str, int]):
    """`source`, a variant of the module's, as Triton compiles it with the arguments in `values`
    as constants."""
    (info,) = module.kernels
    function = getattr(load(source), info.name)
    constants = {a.name: a.value for a in info.args if a.value is not None} | values
    signature = {a.name: kind_text(a, constants) for a in info.args}
    places = {(i,): constants[a.name] for i, a in enumerate(info.args) if a.name in constants}
    return triton.compile(ASTSource(function, signature, places, {}), GPUTarget("cuda", 80, 32))


def kind_text(arg: KernelArg, constants: dict[str, int]) -> str:
    if arg.kind is ArgKind.TENSOR and arg.dtype is not None:
        return f"*{SIGNATURE_NAME[arg.dtype]}"
    return "constexpr" if arg.name in constants else "i64"


def test_stride_and_size_of_one_are_taken_as_constants():
    """At a launch Triton passes 1 as a constant; the widening at the top must take one."""
    module = emit(gemm(None, None, None, tile=(32, 32, 32)))
    ones = {a.name: 1 for a in module.kernels[0].args if a.kind in (ArgKind.STRIDE, ArgKind.SIZE)}
    assert len(ones) == 7
    assert triton_compiled(module, module.source, ones).asm["cubin"]


def test_copy_of_a_tile_is_carried_around_a_loop_and_would_not_be_by_itself():
    """Triton takes `y = x` for no change of y while y is x; `own` is what prevents it."""
    module = emit(parse(kernels.COPY))
    bare = module.source.replace("own(current)", "current")
    carried = [
        re.search(r"iter_args\((.*?)\)", triton_compiled(module, source, {}).asm["ttir"])
        for source in (module.source, bare)
    ]
    assert [found.group(1).count("=") for found in carried if found] == [2, 1]


def test_variable_that_turns_compiling_off_is_named(monkeypatch):
    with knobs.runtime.scope():
        knobs.runtime.interpret = True
        with pytest.raises(CodegenError, match="TRITON_INTERPRET is set"):
            compile(gemm(64, 64, 64, "f16", tile=(64, 64, 32)), "cuda:90")


def test_without_its_assembly_a_kernel_is_not_compiled(monkeypatch):
    monkeypatch.setattr(knobs.compilation, "store_binary_only", True)
    with pytest.raises(CodegenError, match="TRITON_STORE_BINARY_ONLY is set"):
        compile(gemm(32, 32, 32, "f16", tile=(32, 32, 32)), "cuda:90")


SET_IN_A_LOOP = """\
kernel @k(A: f32[16], n: i32[1], out C: f32[16]) {
  grid (g) in [1] {
    alloc t: register f32[16]
    let trips = n[0]
    for i in 0 .. trips {
      load t, A[0 +: 16]
    }
    store C[0 +: 16], t
  }
}
"""


def test_what_measures_is_the_assembler_that_triton_takes(monkeypatch: pytest.MonkeyPatch):
    """torch.compile names a newer one in the environment, which gives newer PTX; and when it is
    gone, Triton's own has to be found again."""
    blackwell = knobs.nvidia.ptxas_blackwell.path
    newer, older, again = (compile_small(monkeypatch, p) for p in (blackwell, None, blackwell))
    assert version_of(older) < version_of(newer) == version_of(again)
    monkeypatch.delenv("TRITON_PTXAS_PATH")
    with pytest.raises(CodegenError, match=r"ptxas failed with 255: .*Unsupported \.version"):
        measure(parse_target("cuda:90"), newer.assembly, fp_fusion=True)


def test_assemblers_of_one_version_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Figures and machine code of each are its own, and none is found as another's."""
    other = tmp_path / "ptxas"
    other.write_text(f'#!/bin/sh\nexec "{knobs.nvidia.ptxas.path}" --opt-level 0 "$@"\n')
    other.chmod(0o755)
    own, others, again = (compile_small(monkeypatch, p) for p in (None, str(other), None))
    assert own.assembly == others.assembly
    assert own.registers != others.registers
    assert own.binary == again.binary != others.binary


def compile_small(monkeypatch: pytest.MonkeyPatch, ptxas: str | None) -> AotKernel:
    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    if ptxas is not None:
        monkeypatch.setenv("TRITON_PTXAS_PATH", ptxas)
    found = compile(program((64, 64, 32)), "cuda:90")
    assert isinstance(found, AotKernel)
    assert found.registers > 0
    return found


def version_of(kernel: AotKernel) -> str:
    """Of its PTX."""
    found = re.search(r"^\.version (\d\.\d)$", kernel.assembly, re.MULTILINE)
    assert found
    return found[1]


def test_an_assembler_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(tmp_path))
    with pytest.raises(CodegenError, match=f"TRITON_PTXAS_PATH, '{tmp_path}': .*Permission denied"):
        compile(program((64, 64, 32)), "cuda:90")


def test_options_of_the_assembler_count_in_what_is_measured():
    """As Triton passes on those of `PTXAS_OPTIONS`."""
    found = compiled("cuda:90", (128, 128, 64))
    same, other = (measure(found.target, found.assembly, True, o) for o in ("", "--opt-level 0"))
    assert same.registers == found.registers != other.registers


def test_tile_that_only_a_loop_sets_has_a_first_value():
    assert compile(parse(SET_IN_A_LOOP), "cuda:90").binary


def test_aliased_exchange_keeps_its_barrier():
    text = """\
kernel @k(A: f32[16], out C: f32[16]) {alias}{{
  grid (g) in [1] {{
    alloc a: register f32[16]
    alloc b: register f32[16]
    load a, A[0 +: 16]
    store C[0 +: 16], a
    barrier
    load b, A[0 +: 16]
    store C[0 +: 16], b
  }}
}}
"""
    barrier = "tl.debug_barrier()"
    assert barrier in emit(parse(text.format(alias="alias(A, C) "))).source
    by_a_third = text.replace("A: f32[16], ", "A: f32[16], Z: f32[16], ")
    assert barrier in emit(parse(by_a_third.format(alias="alias(A, Z)\n    alias(Z, C) "))).source
    assert barrier not in emit(parse(text.format(alias=""))).source


def test_every_target_is_one_that_types_and_atomics_know():
    ahead = {t for t in TABLE if ":" in t}
    assert set(get_args(AheadTarget)) == ahead == set(ATOMIC_ADD)
