"""What a bundle holds: every kernel for every target, described as its binary is; the same bytes
wherever it is made."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen import AotKernel, compile, emit
from backends.triton_codegen.bundle import Entry, bundle
from backends.triton_codegen.bundle.loading.folder import Folder
from backends.triton_codegen.settings import Settings
from loopir.build import gemm
from loopir.errors import BundleError, CodegenError, NotApplicable
from loopir.parser import parse
from loopir.printer import to_text
from passes.pipeline import parse_pipeline
from tests.support.bundles import TARGETS, entry_parameters, three_programs, variants

ROOT = Path(__file__).parents[3]
BYTES = {"pointer": 8, "i64": 8, "i32": 4, "tensor_map": 128}


@pytest.fixture(scope="module")
def manifest(three: Path) -> Any:
    return Folder(three).manifest


def test_every_kernel_is_there_for_every_target(manifest: Any):
    names = {p.name: [k.name for k in p.kernels] for p in manifest.programs}
    assert names == {
        "gemm": ["gemm"],
        "conv": ["conv2d_nhwc", "conv2d_nhwc_fixup"],
        "gemv": ["gemv_columns"],
    }
    for program in manifest.programs:
        for kernel in program.kernels:
            assert [b.target for b in kernel.builds] == list(TARGETS)


def test_hopper_and_newer_have_the_variant_with_descriptors(manifest: Any):
    (kernel,) = manifest.programs[0].kernels
    found = {b.target: [v.name for v in b.variants] for b in kernel.builds}
    pointers = ["aligned", "plain"]
    assert found["cuda:90"] == found["cuda:100"] == ["descriptors", *pointers]
    assert found["cuda:80"] == found["hip:gfx942"] == pointers


def test_arguments_are_the_parameters_of_the_binary(three: Path, manifest: Any):
    """PTX declares each parameter with its bytes."""
    checked = 0
    for target, variant in variants(manifest):
        if target.startswith("cuda"):
            text = (three / variant.assembly).read_text()
            wanted = entry_parameters(text, variant.symbol)
            assert [BYTES[a.type] for a in variant.arguments] == wanted
            assert f".reqntid {variant.threads}" in text
            checked += 1
    assert checked >= 17  # of three programs for three targets


def test_arguments_are_the_parameters_of_an_amd_binary(three: Path, manifest: Any):
    for target, variant in variants(manifest):
        if target.startswith("hip"):
            text = (three / variant.assembly).read_text()
            kinds = Counter(re.findall(r"\.value_kind:\s+(\w+)", text))
            pointers = sum(a.type == "pointer" for a in variant.arguments)
            assert kinds["global_buffer"] == pointers
            assert kinds["by_value"] == len(variant.arguments) - pointers
            assert f".max_flat_workgroup_size: {variant.threads}" in text


def test_the_plain_variant_relies_on_no_alignment(three: Path, manifest: Any):
    """Its parameters are pointers, no more is known: copies of 16 bytes are gone."""
    gemm = next(p for p in manifest.programs if p.name == "gemm")
    hopper = gemm.kernels[0].builds[1]
    text = {v.name: (three / v.assembly).read_text() for v in hopper.variants}
    assert "cp.async" in text["aligned"]
    assert "cp.async.bulk" in text["descriptors"]
    assert "cp.async.cg" not in text["plain"]
    assert {v.name: bool(v.conditions) for v in hopper.variants} == {
        "descriptors": True,
        "aligned": True,
        "plain": False,
    }


def test_the_manifest_says_how_the_program_came_to_be(three: Path, manifest: Any):
    for entry, program in zip(three_programs(), manifest.programs, strict=True):
        assert program.pipeline == str(entry.pipeline)
        assert parse((three / program.ir_before).read_text()) == entry.program
        after = entry.pipeline.run(entry.program)
        assert (three / program.ir_after).read_text() == to_text(after)
        module = emit(after, entry.settings, str(entry.pipeline))
        assert (three / program.source).read_text() == module.source
    assert [p.determinism for p in manifest.programs] == ["fixed", "fixed", "arrival-order"]


def test_what_must_be_zero_is_said(manifest: Any):
    gemm, conv, gemv = manifest.programs
    assert [(p.name, p.region) for p in gemm.workspace.parts] == [
        ("arrivals", "counters"),
        ("partials", "tiles"),
    ]
    assert [(p.name, p.region) for p in conv.workspace.parts] == [("partials", "tiles")]
    assert [k.zeroed for k in gemv.kernels] == [("y",)]
    assert [k.zeroed for k in conv.kernels] == [(), ()]


def test_no_file_names_a_place_of_this_machine(three: Path):
    places = [sys.prefix, str(ROOT), str(three.parent), str(Path.home()), "/tmp/"]
    for path in (p for p in three.rglob("*") if p.is_file()):
        for place in places:
            assert place.encode() not in path.read_bytes(), path


def test_binaries_have_no_line_information(three: Path):
    """Control: those of `compile` have."""
    entry = three_programs()[0]
    found = compile(entry.pipeline.run(entry.program), "cuda:90", settings=entry.settings)
    texts = [path.read_text() for path in three.rglob("*.ptx")]
    assert isinstance(found, AotKernel)
    assert "\t.loc\t" in found.assembly
    assert not any("\t.loc\t" in text or "\t.file\t" in text for text in texts)


MAKE = """
import sys
from tests.support.bundles import TARGETS, three_programs
from backends.triton_codegen.bundle import bundle
bundle(three_programs(), TARGETS, sys.argv[1])
"""


def test_another_folder_process_and_hash_seed_give_the_same_bytes(three: Path, tmp_path: Path):
    """Compiled anew, with a cache of its own."""
    other = tmp_path / "deep" / "er" / "bundle"
    places = {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment = {**os.environ, **places, "PYTHONHASHSEED": "77"}
    command = [sys.executable, "-c", MAKE, str(other)]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    assert contents(other) == contents(three)


def contents(folder: Path) -> dict[str, bytes]:
    files = (p for p in sorted(folder.rglob("*")) if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


# --- in place, or not at all

SMALL = gemm(64, 64, 64, "f16", tile=(32, 32, 32))


def small(folder: Path, **how: Any) -> Any:
    return bundle(how.pop("programs", SMALL), "cuda:80", folder, Settings(4, 1), **how)


def test_a_bundle_takes_the_place_of_an_older_one(tmp_path: Path):
    folder = tmp_path / "bundle"
    small(folder)
    small(folder, programs=Entry(SMALL, name="other"))
    assert [p.name for p in Folder(folder).manifest.programs] == ["other"]
    assert not (folder / "programs" / "gemm").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_an_empty_folder_is_taken_and_python_litter_does_not_count(tmp_path: Path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    small(folder)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "loader.pyc").write_bytes(b"x")
    small(folder)


OCCUPIED = {
    "a file of mine": (lambda f: (f.mkdir(), (f / "thesis.tex").write_text("x")), "is no bundle"),
    "a file": (lambda f: f.write_text("x"), "a file or a link of that name"),
    "a link": (lambda f: f.symlink_to(f.parent), "a file or a link of that name"),
    "a damaged bundle": (
        lambda f: (small(f), (f / "loader.py").write_text("")),
        "is no bundle .loader.py: ",
    ),
    "a bundle and a link to a folder": (
        lambda f: (small(f), (f / "mine").symlink_to(f.parent)),
        "it holds mine, which is no file of the bundle",
    ),
    "a bundle and more": (
        lambda f: (small(f), (f / "programs" / "mine.c").write_text("x")),
        "it holds programs/mine.c, which is no file of the bundle",
    ),
}


@pytest.mark.parametrize("what", OCCUPIED)
def test_what_is_no_bundle_is_left_alone(tmp_path: Path, what: str):
    folder = tmp_path / "place"
    occupy, message = OCCUPIED[what]
    occupy(folder)
    before = contents(folder) if folder.is_dir() else None
    with pytest.raises(BundleError, match=message):
        small(folder)
    assert before is None or contents(folder) == before


@pytest.mark.parametrize("name", [".", "..", "x/..", "/"])
def test_a_place_without_a_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BundleError, match="no name of a folder"):
        small(Path(name))
    assert list(tmp_path.iterdir()) == []


def test_a_name_may_be_as_long_as_names_are(tmp_path: Path):
    small(tmp_path / ("ü" * 127))
    assert [p.name for p in tmp_path.iterdir()] == ["ü" * 127]


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_old_bundle_stays_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, error: type[BaseException]
):
    """Interrupted behind one of the two steps, or stopped before."""
    folder, steps, replace = tmp_path / "bundle", [], os.replace
    small(folder)
    before = contents(folder)

    def stops(source: Any, target: Any) -> None:
        steps.append(source)
        if error is OSError and len(steps) == at:
            raise error
        replace(source, target)
        if len(steps) == at:
            raise error

    monkeypatch.setattr(os, "replace", stops)
    with pytest.raises(error):
        small(folder, programs=Entry(SMALL, name="other"))
    monkeypatch.undo()
    is_done = error is KeyboardInterrupt and at == 2
    assert (contents(folder) == before) == (not is_done)
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]
    Folder(folder)


def test_a_bundle_that_cannot_be_finished_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "bundle"
    small(folder)
    before, write = contents(folder), Path.write_bytes

    def fails(self: Path, data: bytes) -> int:
        if self.name == "manifest.json":
            raise OSError(28, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(OSError, match="No space left"):
        small(folder, programs=Entry(SMALL, name="other"))
    monkeypatch.undo()
    assert contents(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


# --- refusals


def test_no_program_and_two_of_one_name_are_refused(tmp_path: Path):
    with pytest.raises(BundleError, match="none is given"):
        small(tmp_path / "b", programs=[])
    with pytest.raises(BundleError, match="gemm: two programs have that name"):
        small(tmp_path / "b", programs=[SMALL, Entry(SMALL, name="GEMM")])


@pytest.mark.parametrize("name", ["../x", "a b", "é", "a/b", "3d"])
def test_a_name_that_is_no_identifier_is_refused(tmp_path: Path, name: str):
    with pytest.raises(BundleError, match="a program's name is an identifier"):
        small(tmp_path / "b", programs=Entry(SMALL, name=name))


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ("jit", "^jit: compiles nothing ahead of time"),
        ("interpret", "^interpret: compiles nothing ahead of time"),
        ("cuda:90,jit", "^jit: compiles nothing ahead of time"),
        ("cuda:80,cuda:80", "^cuda:80: given twice"),
    ],
)
def test_targets_that_compile_nothing_or_come_twice_are_refused(
    tmp_path: Path, targets: str, message: str
):
    with pytest.raises(BundleError, match=message):
        bundle(SMALL, targets, tmp_path / "b")
    with pytest.raises(CodegenError, match="unknown target 'cuda:81'"):
        bundle(SMALL, "cuda:81", tmp_path / "b")


def test_a_kernel_that_a_target_cannot_do_stops_the_bundle(tmp_path: Path):
    with pytest.raises(CodegenError, match=r"cuda:86: @gemm needs .* bytes of shared memory"):
        bundle(gemm(512, 512, 512), ["cuda:90", "cuda:86"], tmp_path / "b", Settings(8, 5))
    assert not (tmp_path / "b").exists()


@pytest.mark.long
def test_processes_make_the_same_bundle(three: Path, tmp_path: Path):
    entries = [e for e in three_programs() if e.name == "gemv"]
    bundle(entries, ["cuda:80", "cuda:90"], tmp_path / "two", processes=2)
    bundle(entries, ["cuda:80", "cuda:90"], tmp_path / "one")
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    path = "programs/gemv/cuda-90/gemv_columns.plain.cubin"
    assert contents(tmp_path / "two")[path] == contents(three)[path]


def test_a_pipeline_that_does_not_apply_is_refused(tmp_path: Path):
    entry = Entry(SMALL, parse_pipeline("stream-k{splits=7}"))
    with pytest.raises(NotApplicable):
        small(tmp_path / "b", programs=entry)


def test_the_manifest_is_text_for_people(three: Path):
    text = (three / "manifest.json").read_text()
    assert max(map(len, text.splitlines())) <= 130
    assert text.index('"format"') < text.index('"targets"') < text.index('"programs"')
    assert json.loads(text)["programs"][0]["kernels"][0]["blocks"] == {
        "tree": "UNITS",
        "text": "UNITS",
    }
