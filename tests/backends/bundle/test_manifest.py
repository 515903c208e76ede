"""What a manifest may say: every other thing is refused, with the place and the reason."""

import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen.bundle import Bundle
from backends.triton_codegen.bundle import schema as schemas
from backends.triton_codegen.bundle.layout import json_text
from backends.triton_codegen.bundle.loading.folder import MANIFEST, SEAL, Folder, seal_text
from backends.triton_codegen.bundle.loading.reading import read_manifest
from backends.triton_codegen.bundle.loading.references import check_references
from loopir.errors import BundleError
from tests.support.json_schema import is_valid
from tests.support.mutated_bundles import WORDS, at, edited, mutated, places, seal, text


@pytest.fixture(scope="module")
def data(three: Path) -> Any:
    return json.loads((three / MANIFEST).read_bytes())


@pytest.fixture
def copied(three: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "bundle"
    shutil.copytree(three, folder)
    return folder


def read(data: Any) -> Any:
    manifest = read_manifest(text(data))
    check_references(manifest)
    return manifest


def test_the_text_of_a_manifest_reads_as_it_was(three: Path, data: Any):
    manifest = Folder(three).manifest
    assert json_text(asdict(manifest)).encode() == (three / MANIFEST).read_bytes()
    assert read(data) == manifest


# --- one change each

GEMM = ("programs", 0)
KERNEL = (*GEMM, "kernels", 0)
BUILD = (*KERNEL, "builds", 1)
VARIANT = (*BUILD, "variants", 0)
CHANGES: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "format": (
        ("format",),
        "other",
        r"manifest.format: expected one of loopir-bundle, got 'other'",
    ),
    "schema": (("schema",), 2, "manifest.schema: 2, and this loader reads 1"),
    "true for one": (("schema",), True, "manifest.schema: expected an integer, got True"),
    "text for a number": (
        (*VARIANT, "threads"),
        "256",
        r"variants\[0\].threads: expected an integer",
    ),
    "number for text": ((*GEMM, "pipeline"), 3, "pipeline: expected text, got 3"),
    "float": ((*VARIANT, "threads"), 256.0, "256.0 is no integer"),
    "nan": ((*VARIANT, "threads"), float("nan"), "NaN is no integer"),
    "many threads": ((*VARIANT, "threads"), 4096, "expected 32 to 2048, got 4096"),
    "65 bits": ((*VARIANT, "spill_bytes"), 2**64, "spill_bytes: expected 0 to 9223372036854775807"),
    "unknown key": ((*VARIANT, "hook"), "x", r"variants\[0\]: unknown key 'hook'"),
    "null": ((*VARIANT, "symbol"), None, "symbol: expected text, got None"),
    "list for an object": (KERNEL, [], r"kernels\[0\]: expected an object, got a list"),
    "no programs": (("programs",), [], "programs: expected 1 to 256 items, got 0"),
    "symbol": ((*VARIANT, "symbol"), "a b", "symbol: expected text like"),
    "dtype": ((*GEMM, "parameters", 0, "dtype"), "f31", "dtype: expected one of f8e4m3"),
    "element size": ((*GEMM, "parameters", 0, "element_bytes"), 4, "A: bf16 has 2 bytes"),
    "contiguous": ((*GEMM, "parameters", 0, "contiguous"), 2, "A: it has no dimension 2"),
    "same name": (("programs", 1, "name"), "gemm", "programs: gemm is there twice"),
    "same parameter": ((*GEMM, "parameters", 1, "name"), "A", "gemm: buffers: A is there twice"),
    "no such pair": ((*GEMM, "disjoint", 0), ["C", "Z"], "disjoint: C, Z are no two parameters"),
    "pair of one": ((*GEMM, "disjoint", 0), ["C"], "expected 2 to 2 items, got 1"),
    "value behind": ((*GEMM, "values", 0, "expression", "tree"), "N", "N is no value that stands"),
    "given": ((*GEMM, "values", 0, "kind"), "given", "a given value with these keys"),
    "picked late": (
        (*GEMM, "launch_values", 0, "kind"),
        "picked",
        "launch_values .*: it is picked",
    ),
    "address in a size": (
        (*KERNEL, "blocks", "tree"),
        ["address", "A"],
        "blocks: address has no place here",
    ),
    "no such dimension": (
        (*VARIANT, "conditions", 1, "expression", "tree"),
        ["extent", "A", 2],
        r"\['extent', 'A', 2\] is nothing that the program has",
    ),
    "sum with an address": (
        (*VARIANT, "conditions", 0, "expression", "tree"),
        ["add", ["address", "A"], 8],
        "of an address, only multiples of up to 16 count",
    ),
    "operation": (
        (*KERNEL, "blocks", "tree"),
        ["pow", 2, 3],
        "expected an operation and its operands",
    ),
    "operands": ((*KERNEL, "blocks", "tree"), ["sub", 1, 2, 3], "expected an operation and its"),
    "code": ((*KERNEL, "blocks", "tree"), "__import__('os')", "a name or an operation, got"),
    "zeroed": ((*KERNEL, "zeroed"), ["Z"], "Z is no buffer to set to zero"),
    "zeroed input": ((*KERNEL, "zeroed"), ["A"], "A is no buffer to set to zero"),
    "missing build": ((*BUILD, "target"), "cuda:80", "expected a build for each target"),
    "no last variant": (
        (*BUILD, "variants", 2, "conditions"),
        "first",
        "conditions: expected a list",
    ),
    "passed as": ((*VARIANT, "arguments", 0, "type"), "i32", "is passed as pointer"),
    "scratch": (
        (*VARIANT, "arguments", -1, "expression", "tree"),
        4096,
        "this loader has no scratch memory to give",
    ),
    "no such map": ((*VARIANT, "arguments", 2, "descriptor"), 7, "there is no tensor map 7"),
    "dims of a map": ((*VARIANT, "descriptors", 0, "dims"), [1, 1], "no tensor map of A has these"),
    "box of a map": ((*VARIANT, "descriptors", 0, "box"), [32], "has a box of 2 sides"),
    "capability": (("targets", 0, "capability"), [8], r"cuda:80: no compute capability is \[8\]"),
    "backend": (("targets", 0, "backend"), "hip", "no compute capability is"),
    "hash": (
        (*GEMM, "ir_sha256"),
        "0" * 64,
        "gemm: ir_sha256: programs/gemm/before.lir has another",
    ),
    "role": ((*VARIANT, "binary"), "loader.py", "loader.py is no binary of the bundle"),
    "same path": (("files", 1, "path"), "LOADER.PY", "files: loader.py is there twice"),
    "surrogate": ((*GEMM, "pipeline"), "\ud800", "pipeline: expected text like"),
    "no ascii": ((*GEMM, "name"), "gémm", "name: expected text like"),
}
PATHS = (
    "/etc/passwd",
    "../x",
    "a/../x",
    "a/./x",
    "a//b",
    "a/",
    ".hidden",
    "a\\b",
    "C:/x",
    "a\0",
    "",
    "a b",
)


@pytest.mark.parametrize("what", CHANGES)
def test_one_change_is_refused_with_its_place(data: Any, what: str):
    path, value, message = CHANGES[what]
    read(data)
    with pytest.raises(BundleError, match=message):
        read(edited(data, path, value))


def test_the_last_variant_has_no_conditions(data: Any):
    conditions = at(data, (*VARIANT, "conditions"))
    with pytest.raises(BundleError, match="the last variant has conditions, so none may suit"):
        read(edited(data, (*BUILD, "variants", 2, "conditions"), conditions))


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_may_lead_out_is_refused(data: Any, path: str):
    with pytest.raises(BundleError, match=r"files\[3\]\.path: expected text like"):
        read(edited(data, ("files", 3, "path"), path))


@pytest.mark.parametrize("where", [(), GEMM, VARIANT, (*VARIANT, "conditions", 0, "expression")])
def test_every_key_is_needed_and_no_other(data: Any, where: tuple[Any, ...]):
    for key in at(data, where):
        changed = copy.deepcopy(data)
        del at(changed, where)[key]
        with pytest.raises(BundleError, match=f"{key} is missing"):
            read(changed)
    with pytest.raises(BundleError, match="unknown key 'more'"):
        read(edited(data, (*where, "more"), 1))


def test_deep_and_wide_expressions_are_refused(data: Any):
    deep: Any = 1
    for _ in range(65):
        deep = ["add", deep, 1]
    for tree in (deep, ["add", *[1] * 5000]):
        with pytest.raises(BundleError, match="an expression can be 64 deep, of 4096 nodes"):
            read(edited(data, (*KERNEL, "blocks", "tree"), tree))


TEXTS = {
    "a key twice": (b'{"format": 1, "format": 2}', "an object has a key twice"),
    "no JSON": (b"import os", "no JSON that this loader reads"),
    "nothing": (b"", "no JSON that this loader reads"),
    "a list": (b"[]", "manifest: expected an object, got a list"),
    "UTF-8": ('{"é": 1}'.encode(), "no JSON that this loader reads"),
    "a byte-order mark": (b"\xef\xbb\xbf{}", "no JSON that this loader reads"),
    "deep": (b"[" * 100_000 + b"]" * 100_000, "manifest: "),
    "a long number": (b"[" + b"9" * 100_000 + b"]", "no JSON that this loader reads"),
    "infinity": (b'{"schema": -Infinity}', "-Infinity is no integer"),
}


@pytest.mark.parametrize("what", TEXTS)
def test_other_text_is_refused(what: str):
    given, message = TEXTS[what]
    with pytest.raises(BundleError, match=message):
        read_manifest(given)


# --- files


def refused(folder: Path, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Bundle.open(folder)


def test_a_whole_bundle_opens_and_so_does_one_with_files_beside_it(copied: Path):
    assert list(Bundle.open(copied).programs) == ["gemm", "conv", "gemv"]
    (copied / "mine.o").write_bytes(b"x")
    assert list(Bundle.open(copied).programs) == ["gemm", "conv", "gemv"]


def test_a_folder_that_is_no_bundle_is_named(tmp_path: Path):
    refused(tmp_path / "none", "/none: manifest.json: No such file")


def test_a_manifest_that_is_not_the_sealed_one_is_refused(copied: Path):
    sealed = (copied / MANIFEST).read_bytes()
    (copied / MANIFEST).write_bytes(sealed.replace(b'"schema": 1', b'"schema": 1 '))
    refused(copied, "manifest.json: its SHA-256 is not the one in manifest.sha256")
    seal(copied, (copied / MANIFEST).read_bytes())
    Bundle.open(copied)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped": (
        lambda p: p.write_bytes(bytes([p.read_bytes()[0] ^ 1]) + p.read_bytes()[1:]),
        "its SHA",
    ),
    "longer": (lambda p: p.write_bytes(p.read_bytes() + b"\0"), "bytes expected,"),
    "shorter": (lambda p: p.write_bytes(p.read_bytes()[:-1]), "bytes expected,"),
    "missing": (lambda p: p.unlink(), "No such file"),
    "folder": (lambda p: (p.unlink(), p.mkdir()), "no regular file|Is a directory"),
    "pipe": (lambda p: (p.unlink(), os.mkfifo(p)), "no regular file"),
    "link": (
        lambda p: (p.rename(p.with_suffix(".x")), p.symlink_to(p.with_suffix(".x"))),
        "a link",
    ),
}
FILES = ("manifest.json", "manifest.sha256", "loader.py", "programs/gemm/gemm.py", "CUBIN")


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_refused_by_its_name(copied: Path, file: str, what: str):
    path = next(copied.rglob("*.cubin")) if file == "CUBIN" else copied / file
    damage, message = DAMAGE[what]
    damage(path)
    name = path.relative_to(copied).as_posix()
    if file in (MANIFEST, SEAL) and what in ("flipped", "longer", "shorter"):
        name, message = MANIFEST, "its SHA-256 is not the one"
    refused(copied, f"{name}: .*({message})")


def test_a_folder_that_is_a_link_is_refused_within_a_bundle_and_not_above_it(copied: Path):
    moved = copied.parent / "elsewhere"
    (copied / "programs" / "gemm").rename(moved)
    (copied / "programs" / "gemm").symlink_to(moved)
    refused(copied, "programs/gemm/.*: a link, which no bundle has")
    (copied / "programs" / "gemm").unlink()
    moved.rename(copied / "programs" / "gemm")
    copied.with_name("alias").symlink_to(copied)
    Bundle.open(copied.with_name("alias"))


@pytest.mark.parametrize("size", [2**40, 2**63 - 1])
def test_a_size_beyond_all_memory_is_only_a_wrong_one(copied: Path, size: int):
    data = json.loads((copied / MANIFEST).read_bytes())
    data["files"][0]["bytes"] = size
    seal(copied, text(data))
    refused(copied, f": {size} bytes expected, ")


def test_a_folder_that_becomes_a_link_is_not_followed(
    copied: Path, monkeypatch: pytest.MonkeyPatch
):
    """Between the look at it and the opening of what is in it."""
    place, opens = copied / "programs" / "gemm", os.open

    def opened(path: Any, *rest: Any, **how: Any) -> int:
        found = opens(path, *rest, **how)
        if path == "gemm" and not place.is_symlink():
            place.rename(copied.parent / "moved")
            (copied.parent / "elsewhere").mkdir()
            place.symlink_to(copied.parent / "elsewhere")
        return found

    monkeypatch.setattr(os, "open", opened)
    refused(copied, "programs/gemm/.*: a link, which no bundle has")


def test_no_file_stays_open(copied: Path):
    before = sorted(os.listdir("/proc/self/fd"))
    Bundle.open(copied)
    (copied / "loader.py").unlink()
    refused(copied, "loader.py")
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_what_is_no_folder_of_a_bundle_is_refused(tmp_path: Path):
    refused(tmp_path, "manifest.json: No such file")
    refused(tmp_path / "none", "manifest.json: No such file")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "manifest.json: Not a directory")


def test_files_that_are_swapped_are_refused(copied: Path):
    first, second = sorted(copied.glob("programs/gemm/cuda-90/*.cubin"))[:2]
    a, b = first.read_bytes(), second.read_bytes()
    first.write_bytes(b)
    second.write_bytes(a)
    refused(copied, "cubin: .*(bytes expected|its SHA-256)")


# --- the published schema


def test_the_published_schema_is_the_one_of_the_model(request: pytest.FixtureRequest):
    path = Path(schemas.__file__).with_name("manifest.schema.json")
    made = json_text(schemas.manifest_schema())
    if request.config.getoption("--update-golden"):
        path.write_text(made)
    assert path.read_text() == made


def test_a_bundle_holds_the_schema_and_its_manifest_keeps_it(three: Path, data: Any):
    schema = json.loads((three / "manifest.schema.json").read_text())
    assert schema == schemas.manifest_schema()
    assert is_valid(data, schema)


def test_the_schema_and_the_loader_agree_on_every_word_at_every_key(data: Any):
    """Each key of each class once, with some of the odd values."""
    rng, schema = random.Random(7), schemas.manifest_schema()
    small = _one_of_each(data)
    kept = {_shape(path): path for path in places(small)}
    assert len(kept) > 90
    verdicts = set()
    for path in kept.values():
        for word in rng.sample(WORDS, 8):
            verdicts.add(_agree(edited(small, path, word), schema))
    assert verdicts == {True, False}


def test_the_schema_and_the_loader_agree_on_random_changes(data: Any):
    rng, schema, small = random.Random(5), schemas.manifest_schema(), _one_of_each(data)
    found = list(places(small))
    verdicts = [_agree(mutated(small, found, rng), schema) for _ in range(300)]
    assert 20 < sum(verdicts) < 280


def _agree(data: Any, schema: Any) -> bool:
    """Whether both take it; AssertionError where one does."""
    refusal = _refusal(data)
    assert is_valid(data, schema) == (refusal is None), refusal
    return refusal is None


def _refusal(data: Any) -> str | None:
    try:
        read_manifest(text(data))
    except BundleError as error:
        return str(error)
    return None


def _one_of_each(data: Any) -> Any:
    """Less of the same: a program, a target, few files."""
    small = copy.deepcopy(data)
    small["programs"] = small["programs"][:1]
    for kernel in small["programs"][0]["kernels"]:
        kernel["builds"] = kernel["builds"][1:2]
        kernel["builds"][0]["variants"] = kernel["builds"][0]["variants"][:1]
    small["files"] = small["files"][:2]
    return small


def _shape(path: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("*" if isinstance(key, int) else key for key in path)


def test_the_seal_is_a_line_that_sha256sum_checks(three: Path):
    import subprocess

    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    done = subprocess.run(["sha256sum", "-c", SEAL], cwd=three, capture_output=True, text=True)
    assert done.stdout == "manifest.json: OK\n"
    assert (three / SEAL).read_bytes() == seal_text((three / MANIFEST).read_bytes())
