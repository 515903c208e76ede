"""A bundle with something wrong in it is refused with a reason, or does no harm: no other error, no
hang, nothing run. Seeds are fixed; each counts its cases."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen.bundle import Bundle
from backends.triton_codegen.bundle.loading.errors import DriverError
from backends.triton_codegen.bundle.loading.folder import MANIFEST, SEAL, Folder
from backends.triton_codegen.bundle.loading.reading import read_manifest
from backends.triton_codegen.bundle.loading.references import check_references
from loopir.errors import BundleError, LaunchError
from tests.support.bundled_product import product
from tests.support.fake_cuda import FakeCuda
from tests.support.mutated_bundles import edited, mutated, places, seal, text


@pytest.fixture(scope="module")
def small(three: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The product for cuda:90 alone, so that a thousand copies of it are read in seconds."""
    folder = tmp_path_factory.mktemp("fuzz") / "bundle"
    data = json.loads((three / MANIFEST).read_bytes())
    data["programs"] = data["programs"][:1]
    data["targets"] = data["targets"][1:2]
    for kernel in data["programs"][0]["kernels"]:
        kernel["builds"] = kernel["builds"][1:2]
    kept = ("loader.py", "programs/gemm/cuda-90", "programs/gemm/gemm.py")
    is_kept = lambda f: f["path"].startswith(kept) or f["path"].endswith(".lir")  # noqa: E731
    data["files"] = [f for f in data["files"] if is_kept(f) and "conv" not in f["path"]]
    for file in data["files"]:
        (folder / file["path"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(three / file["path"], folder / file["path"])
    seal(folder, text(data))
    Bundle.open(folder)
    return folder


def opens(folder: Path) -> bool:
    """Whether it opens; any error but a refusal fails the test."""
    try:
        Folder(folder)
    except BundleError:
        return False
    return True


def test_no_flip_of_a_byte_goes_unseen(small: Path):
    """In the manifest, its seal, and each file."""
    rng, seen = random.Random(1), 0
    paths = sorted(p for p in small.rglob("*") if p.is_file())
    for path in paths:
        whole = path.read_bytes()
        for _ in range(40):
            at, bit = rng.randrange(len(whole)), 1 << rng.randrange(8)
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            seen += not opens(small)
        path.write_bytes(whole)
    assert seen == 40 * len(paths) >= 400
    assert opens(small)


def test_no_cut_and_no_addition_goes_unseen(small: Path):
    rng, seen = random.Random(2), 0
    paths = sorted(p for p in small.rglob("*") if p.is_file())
    for path in paths:
        whole = path.read_bytes()
        for _ in range(10):
            cut = rng.randrange(len(whole))
            more = rng.randbytes(rng.randrange(1, 9))
            for changed in (whole[:cut], whole + more, whole[:cut] + more + whole[cut:]):
                path.write_bytes(changed)
                seen += not opens(small)
        path.write_bytes(whole)
    assert seen == 30 * len(paths) >= 300


def test_sealed_random_bytes_are_refused(small: Path):
    """The reader itself: text that the seal does not protect it from."""
    rng = random.Random(3)
    whole = (small / MANIFEST).read_bytes()
    refused = 0
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        refused += not reads(bytes(data))
    assert refused > 350


def reads(data: bytes) -> bool:
    try:
        check_references(read_manifest(data))
    except BundleError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_a_sealed_manifest_that_says_something_else_is_refused_or_does_no_harm(
    small: Path, seed: int
):
    """What opens can be launched: it launches, or says why it does not."""
    rng = random.Random(seed)
    data = json.loads((small / MANIFEST).read_bytes())
    found, counts = list(places(data)), {"refused": 0, "launched": 0, "stopped": 0}
    before = (small / MANIFEST).read_bytes(), (small / SEAL).read_bytes()
    for _ in range(250):
        seal(small, text(mutated(data, found, rng)))
        counts[outcome(small)] += 1
    (small / MANIFEST).write_bytes(before[0])
    (small / SEAL).write_bytes(before[1])
    assert counts["refused"] > 100
    assert counts["launched"] > 10


def outcome(folder: Path) -> str:
    try:
        fake = FakeCuda(folder)
        bundle = Bundle.open(folder, fake)
    except BundleError:
        return "refused"
    try:
        next(iter(bundle.programs.values())).launch(*product())
    except (LaunchError, DriverError, BundleError):
        return "stopped"
    return "launched"


def test_the_fuzzer_sees_a_check_that_is_missing(small: Path, monkeypatch: pytest.MonkeyPatch):
    """Control: without the seal, flips in the manifest go unseen."""
    data: Any = json.loads((small / MANIFEST).read_bytes())
    changed = edited(data, ("programs", 0, "kernels", 0, "builds", 0, "variants", 0, "threads"), 32)
    whole = (small / MANIFEST).read_bytes()
    (small / MANIFEST).write_bytes(text(changed))
    assert not opens(small)
    target = "backends.triton_codegen.bundle.loading.folder.seal_text"
    monkeypatch.setattr(target, lambda _: (small / SEAL).read_bytes())
    assert opens(small)
    (small / MANIFEST).write_bytes(whole)
