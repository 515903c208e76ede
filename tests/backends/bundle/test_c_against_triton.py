"""The launcher in C asks the driver for what Triton's own launcher asks for, byte for byte."""

import json
import sysconfig
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.c_launcher import (
    Launcher,
    Outcome,
    Tensor,
    image_hash,
    needs_gcc,
    parameter_lines,
    shared_folder,
)
from tests.support.triton_launches import STREAM, triton_launches

pytestmark = [
    needs_gcc,
    pytest.mark.timeout(120),  # all launches of Triton's are recorded before the first test
    pytest.mark.skipif(
        not Path(sysconfig.get_paths()["include"], "Python.h").exists(),
        reason="Triton builds its launcher with Python.h, which is not installed",
    ),
]
SMS, TORCH = 7, {"bf16": "bfloat16", "f32": "float32"}


class Built:
    """A bundle, compiled with its launcher in C."""

    def __init__(self, factory: pytest.TempPathFactory, bundle: Path):
        self.folder, self.bundle = factory.mktemp("built"), bundle
        self.manifest = json.loads((self.bundle / "manifest.json").read_text())
        self.params = self.folder / "params"
        self.params.write_text("\n".join(parameter_lines(self.bundle, self.manifest)))
        shared = shared_folder(factory)
        self.launcher = Launcher(shared, self.folder, self.manifest, self.bundle)
        self.mock = {"PARAMS": self.params, "SMS": SMS}

    def program(self, name: str) -> dict[str, Any]:
        return next(p for p in self.manifest["programs"] if p["name"] == name)

    def image(self, name: str, kernel: int, variant: str) -> str:
        """The hash that the mock gives to a binary."""
        (build,) = self.program(name)["kernels"][kernel]["builds"]
        path = next(v["binary"] for v in build["variants"] if v["name"] == variant)
        return image_hash((self.bundle / path).read_bytes())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, opened: Path) -> Built:
    return Built(tmp_path_factory, opened)


# --- cases: sizes M, N, K; padding of rows in elements, offsets in bytes

CASES = {
    "dense": ((130, 136, 200), (0, 0, 0), (0, 0, 0), "descriptors"),
    "one tile": ((8, 8, 8), (0, 0, 0), (0, 0, 0), "descriptors"),
    "padded rows": ((130, 136, 200), (8, 16, 4), (16, 32, 48), "descriptors"),
    "odd rows": ((130, 136, 200), (1, 3, 1), (0, 0, 0), "plain"),
    "odd starts": ((130, 136, 200), (0, 0, 0), (2, 4, 4), "plain"),
    "odd sizes": ((61, 67, 71), (0, 0, 0), (0, 0, 0), "plain"),
    "no panels": ((64, 64, 0), (0, 0, 0), (0, 0, 0), "aligned"),
    "no rows": ((0, 64, 64), (0, 0, 0), (0, 0, 0), ""),
}


def spec(sizes: tuple[int, ...], pads: tuple[int, ...], offsets: tuple[int, ...]) -> list[dict]:
    """A [M, K], B [K, N] with dimension 0 contiguous, C [M, N]."""
    m, n, k = sizes
    rows = [((m, k), "bf16", False), ((k, n), "bf16", True), ((m, n), "f32", False)]
    return [
        {
            "sizes": shape,
            "strides": (1, shape[0] + pad) if turned else (shape[1] + pad, 1),
            "dtype": TORCH[dtype],
            "offset": offset,
        }
        for (shape, dtype, turned), pad, offset in zip(rows, pads, offsets, strict=True)
    ]


def commands(tensors: list[dict], places: list[int]) -> list[str]:
    names = {v: k for k, v in TORCH.items()}
    return [
        Tensor(place, tuple(t["sizes"]), names[t["dtype"]], tuple(t["strides"])).command
        for t, place in zip(tensors, places, strict=True)
    ]


class Pair(NamedTuple):
    """The calls of Triton's launcher, what its file zeroed, and the outcome of ours."""

    theirs: list[dict[str, Any]]
    events: list[Any]
    ours: Outcome


ALL = [(name, case) for name in ("workspace", "fixup", "atomic") for case in CASES]


@pytest.fixture(scope="module")
def pairs(built: Built) -> dict[tuple[str, str], Pair]:
    """Both launchers, for tensors in the same places; Triton's in one process."""
    requests = [request_of(built, name, case) for name, case in ALL]
    driver = built.launcher.shared / "driver"
    found = triton_launches(driver, requests, **built.mock)
    each = zip(ALL, requests, found, strict=True)
    return {key: pair_of(built, key[0], request, theirs) for key, request, theirs in each}


def request_of(built: Built, name: str, case: str) -> dict[str, Any]:
    sizes, pads, offsets, best = CASES[case]
    tensors, program = spec(sizes, pads, offsets), built.program(name)
    given = commands(tensors, [4096, 2**20, 2**24])
    opened = f"open {built.bundle}", f"find {name}"
    asked = built.launcher.run(*opened, *given, "bytes", **built.mock).lines[-1]
    idle = 2**16 if program["workspace"]["parts"] else 0  # Python wants room without a block too
    return {
        "program": (built.bundle / program["ir_after"]).read_text(),
        "pipeline": program["pipeline"],
        "settings": program["settings"],
        "target": "cuda:90",
        "tensors": tensors,
        "workspace_bytes": sum(map(int, asked.split()[1:])) or idle,
        "sms": SMS,
        "is_aligned": best != "plain",
        "log": str(built.folder / f"{name} {case}"),
    }


def pair_of(built: Built, name: str, request: dict[str, Any], found: dict[str, Any]) -> Pair:
    room = f"workspace {found['workspace']} {request['workspace_bytes']} 0 1"
    given = commands(request["tensors"], found["tensors"])
    ours = built.launcher.launch(name, *given, room, f"stream {STREAM}", **built.mock)
    assert ours.code("launch") == 0, ours.said
    return Pair(json_lines(Path(request["log"])), found["events"], ours)


@pytest.mark.parametrize(("name", "case"), ALL)
def test_the_driver_is_asked_for_the_same(pairs: dict, name: str, case: str):
    theirs, events, ours = pairs[name, case]
    launches = [c for c in theirs if c["call"] == "launch"]
    assert ours.launches == launches
    assert not any(c["params"] == "unknown" for c in launches)
    assert zeroed_before_launches(ours.enqueued) == zeroed_by(events)
    assert maps(ours.calls) == maps(theirs)
    assert images(ours.calls) == images(theirs)


@pytest.mark.parametrize(("name", "case"), ALL)
def test_the_variant_is_the_best_that_the_tensors_allow(
    built: Built, pairs: dict, name: str, case: str
):
    best, ours = CASES[case][3], pairs[name, case].ours
    builds = built.program(name)["kernels"][0]["builds"]
    has = {v["name"] for v in builds[0]["variants"]}
    loaded = [c["image"] for c in ours.calls if c["call"] == "cuModuleLoadData"]
    if best:
        assert loaded[0] == built.image(name, 0, best if best in has else "aligned")
    else:
        assert loaded == []


def test_the_cases_have_what_they_are_for(built: Built, pairs: dict):
    """Controls: maps, an overlapping launch, zeroed outputs, all variants."""
    dense = {name: pairs[name, "dense"] for name in ("workspace", "fixup", "atomic")}
    assert len(maps(dense["workspace"].theirs)) == 3
    assert [c["overlaps"] for c in dense["fixup"].ours.launches] == [0, 1]
    assert [e[0] for e in dense["atomic"].events] == ["zero", "launch"]
    assert pairs["atomic", "padded rows"].ours.enqueued[0]["height"] == 130
    images = {c["image"] for p in pairs.values() for c in p.ours.calls if "image" in c}
    for variant in ("descriptors", "aligned", "plain"):
        assert built.image("workspace", 0, variant) in images


def test_the_comparison_sees_a_difference(pairs: dict):
    """Control: other tensors give other bytes, maps and zeroed rows."""
    dense, padded = pairs["workspace", "dense"], pairs["workspace", "padded rows"]
    assert dense.ours.launches != [c for c in padded.theirs if c["call"] == "launch"]
    assert maps(dense.ours.calls) != maps(padded.theirs)
    dense, padded = pairs["atomic", "dense"], pairs["atomic", "padded rows"]
    assert zeroed_before_launches(dense.ours.enqueued) != zeroed_by(padded.events)


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def images(calls: Any) -> list[Any]:
    return [c["image"] for c in calls if c["call"] == "cuModuleGetFunction"]


def maps(calls: Any) -> list[Any]:
    return [c for c in calls if c["call"] == "cuTensorMapEncodeTiled"]


def zeroed_before_launches(enqueued: list[dict[str, Any]]) -> list[Any]:
    """The bytes zeroed, and the names launched, in order."""
    found: list[Any] = []
    for c in enqueued:
        if c["call"] == "launch":
            found.append(c["symbol"])
        else:
            rows = [c["start"] + i * c["pitch"] for i in range(c["height"])]
            found.append(sorted((row, c["width"]) for row in rows))
    return merged(found)


def zeroed_by(events: list[Any]) -> list[Any]:
    found: list[Any] = []
    for kind, *event in events:
        if kind == "launch":
            found.append(event[0])
            continue
        start, (rows, columns), (pitch, _), width = event
        found.append([(start + i * pitch * width, columns * width) for i in range(rows)])
    return merged(found)


def merged(found: list[Any]) -> list[Any]:
    """Rows that touch as one; nothing that is empty."""
    return [one if isinstance(one, str) else joined_rows(one) for one in found if one]


def joined_rows(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, width in rows:
        if out and sum(out[-1]) == start:
            out[-1] = out[-1][0], out[-1][1] + width
        else:
            out.append((start, width))
    return out
