"""Compilation ahead of time through the cache: a hit is what a compiler would give."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import triton
from triton import knobs

from backends.triton_codegen import AotKernel, Module, Settings, aot, compile, emit, parse_target
from backends.triton_codegen.aot import aligned_arguments, compile_function
from backends.triton_codegen.artifacts import compile_all
from backends.triton_codegen.cache import toolchain
from backends.triton_codegen.cache.entry import key_of
from backends.triton_codegen.tool import main
from loopir.build import gemm
from loopir.errors import CodegenError
from passes.cli import DONE
from passes.pipeline import parse_pipeline
from tests.support.texts import GEMM


def module(pipeline: str = "", tile: tuple[int, int, int] = (64, 64, 64), **settings) -> Module:
    program = gemm(512, 512, 1024, "bf16", "f32", tile=tile, b_layout="col")
    return emit(parse_pipeline(pipeline).run(program), Settings(**settings), pipeline)


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, what is compiled fails."""

    def fails(*arguments: object) -> None:
        raise AssertionError("it is compiled")

    return lambda: monkeypatch.setattr(aot, "_built", fails)


CASES: Mapping[str, tuple[str, Module]] = {
    "one kernel": ("cuda:90", module()),
    "two kernels and a workspace": ("cuda:90", module("stream-k{units=20 merge=fixup}")),
    "descriptors and pointers": ("cuda:90", module("descriptors")),
    "spills": ("cuda:80", module(tile=(256, 256, 32), num_warps=4, num_stages=2)),
    "AMD": ("hip:gfx942", module(num_stages=2)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_hit_is_the_very_kernel_that_a_compiler_gives(
    name: str, no_compiler: Callable[[], None], monkeypatch: pytest.MonkeyPatch
):
    target, compiled = CASES[name]
    monkeypatch.setenv("LOOPIR_CACHE", "off")
    fresh = compile(compiled, target)
    monkeypatch.setenv("LOOPIR_CACHE", "on")
    first = compile(compiled, target)
    no_compiler()
    hit = compile(compiled, target)
    assert isinstance(hit, AotKernel)
    assert hit == first == fresh
    assert len(hit.kernels) == len(compiled.kernels)
    assert (hit.fallback is not None) == (name == "descriptors and pointers")
    assert (hit.spill_bytes > 0) == (name == "spills")


def test_control_kernels_of_which_a_register_differs_are_not_equal():
    kernel = compile(CASES["one kernel"][1], "cuda:90")
    assert isinstance(kernel, AotKernel)
    assert replace(kernel, registers=kernel.registers + 1) != kernel


def test_each_function_is_an_entry(folder: Path):
    compile(CASES["descriptors and pointers"][1], "cuda:90")
    assert len(list(folder.iterdir())) == 2
    compile(CASES["one kernel"][1], "cuda:90")
    assert len(list(folder.iterdir())) == 3


def test_a_refused_kernel_is_refused_each_time_in_the_same_words(folder: Path):
    texts = set()
    for _ in range(2):
        with pytest.raises(CodegenError) as refused:
            compile(module(tile=(256, 256, 64), num_stages=8), "cuda:80")
        texts.add(str(refused.value))
    assert len(texts) == 1
    assert list(folder.iterdir()) == []


def test_a_damaged_entry_gives_the_same_kernel_again(folder: Path):
    first = compile(CASES["one kernel"][1], "cuda:90")
    (cubin,) = folder.glob("*/kernel.cubin")
    cubin.write_bytes(cubin.read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"is compiled again, kernel\.cubin"):
        assert compile(CASES["one kernel"][1], "cuda:90") == first
    assert compile(CASES["one kernel"][1], "cuda:90") == first


# --- what makes another entry


def key(found: Module, target: str = "cuda:90", is_aligned: bool = True) -> str:
    info, kernel = found.kernels[0], found.program.kernels[0]
    aligned = aligned_arguments(info, kernel) if is_aligned else ()
    return key_of(aot._identity(found, info, aligned, parse_target(target)))


def test_equal_modules_have_one_key():
    assert key(module()) == key(module())


OTHERS = {
    "tile": {"found": module(tile=(64, 128, 64))},
    "warps": {"found": module(num_warps=4)},
    "stages": {"found": module(num_stages=2)},
    "fusion": {"found": module(fp_fusion=False)},
    "pipeline": {"found": module("tile-order{group=4}")},
    "target": {"found": module(), "target": "cuda:80"},
    "alignment": {"found": module(), "is_aligned": False},
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_changes_the_binary_changes_the_key(name: str):
    assert key(**OTHERS[name]) != key(module())


@pytest.mark.parametrize(
    ("variable", "value"), [("TRITON_DISABLE_LINE_INFO", "1"), ("TRITON_OVERRIDE_ARCH", "sm80")]
)
def test_what_the_environment_says_to_triton_changes_the_key(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
):
    before = key(module())
    monkeypatch.setenv("OF_NO_INTEREST", "1")
    assert key(module()) == before
    monkeypatch.setenv(variable, value)
    assert key(module()) != before


def test_settings_count_beside_the_source_that_they_make():
    found = module()
    other = replace(found, settings=replace(found.settings, launch_pdl=True))
    assert other.source == found.source
    assert key(other) != key(found)


@pytest.mark.parametrize("change", [{"text": "cuda:90x"}, {"shared_bytes": 1000}])
def test_all_of_a_target_counts(change: dict[str, Any]):
    found, target = module(), parse_target("cuda:90")
    one, other = (
        key_of(aot._identity(found, found.kernels[0], (), t))
        for t in (target, replace(target, **change))
    )
    assert one != other


def test_the_library_that_triton_links_counts(tmp_path: Path):
    before = key(module())
    (tmp_path / "other.bc").write_bytes(b"other code")
    with knobs.nvidia.scope():
        knobs.nvidia.libdevice_path = str(tmp_path / "other.bc")
        assert key(module()) != before
    assert key(module()) == before


def test_versions_change_the_key(monkeypatch: pytest.MonkeyPatch):
    keys = {key(module())}
    monkeypatch.setattr(triton, "__version__", "3.6.1")
    keys.add(key(module()))
    monkeypatch.setattr(triton, "__file__", "/elsewhere/triton/__init__.py")
    keys.add(key(module()))
    monkeypatch.setattr(toolchain, "__version__", "9.9.9")
    keys.add(key(module()))
    monkeypatch.setattr(toolchain, "_our_digest", lambda: "other code")
    keys.add(key(module()))
    assert len(keys) == 5


def test_the_version_of_the_assembler_is_in_the_identity():
    found = module()
    identity = aot._identity(found, found.kernels[0], (), parse_target("cuda:90"))
    assert "Cuda compilation tools, release" in identity["toolchain"]["assembler"]
    assert json.dumps(identity) == json.dumps(json.loads(json.dumps(identity)))


def test_an_assembler_that_the_environment_names_later_counts(monkeypatch: pytest.MonkeyPatch):
    before = key(module())
    monkeypatch.setenv("TRITON_PTXAS_PATH", knobs.nvidia.ptxas_blackwell.path)
    assert key(module()) != before


# --- who uses it


def test_the_tool_compiles_from_the_cache(
    tmp_path: Path, no_compiler: Callable[[], None], folder: Path, capsys
):
    file = tmp_path / "gemm.lir"
    file.write_text(GEMM)
    command = ["compile", str(file), "--target", "cuda:90,hip:gfx942", "--num-stages", "2", "-o"]
    assert main([*command, str(tmp_path / "one")]) == DONE
    no_compiler()
    assert main([*command, str(tmp_path / "two")]) == DONE
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in ("one", "two"))
    assert one == two
    assert len(one) == 7
    assert len(list(folder.iterdir())) == 2


def test_one_function_with_other_alignments_is_an_entry_of_its_own(folder: Path):
    found, target = module(), parse_target("cuda:90")
    for aligned in ((), aligned_arguments(found.kernels[0], found.program.kernels[0])):
        compile_function(found, found.kernels[0], aligned, target)
    assert len(list(folder.iterdir())) == 2


def test_tables_of_both_are_equal_but_for_the_time():
    def table() -> list[list[str]]:
        text, refusals = compile_all(CASES["spills"][1], [parse_target("cuda:80")], None)
        assert refusals == ()
        return [line.split()[:-1] for line in text.splitlines()]

    assert table() == table()
