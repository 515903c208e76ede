"""The loader asks the driver for what Triton's own launcher asks for: blocks, threads, memory, the
bytes of every parameter, every tensor map."""

import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen.bundle import Bundle
from tests.support.bundles import entry_parameters, variants
from tests.support.c_launcher import mock_driver
from tests.support.mocked_loader import mocked_launches
from tests.support.triton_launches import STREAM, triton_launches

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
    pytest.mark.skipif(
        not Path(sysconfig.get_paths()["include"], "Python.h").exists(),
        reason="Triton builds its launcher with Python.h, which is not installed",
    ),
]
SMS, PROGRAMS = 7, ("workspace", "fixup")

#: sizes M, N, K; elements between rows and bytes before the start of A, B, C; the variant
CASES = {
    "dense": ((130, 136, 200), (0, 0, 0), (0, 0, 0), "descriptors"),
    "one tile": ((8, 8, 8), (0, 0, 0), (0, 0, 0), "descriptors"),
    "gaps between rows": ((130, 136, 200), (8, 16, 4), (16, 32, 48), "descriptors"),
    "odd rows": ((130, 136, 200), (1, 3, 1), (0, 0, 0), "plain"),
    "odd starts": ((130, 136, 200), (0, 0, 0), (2, 4, 4), "plain"),
    "odd sizes": ((61, 67, 71), (0, 0, 0), (0, 0, 0), "plain"),
    "no panels": ((64, 64, 0), (0, 0, 0), (0, 0, 0), "aligned"),
}


def tensors(case: str) -> list[dict[str, Any]]:
    """A [M, K], B [K, N] with dimension 0 contiguous, C [M, N]."""
    (m, n, k), (a, b, c), offsets, _ = CASES[case]
    shapes = ((m, k), (k, n), (m, n))
    strides = ((k + a, 1), (1, k + b), (n + c, 1))
    dtypes = ("bfloat16", "bfloat16", "float32")
    names = ("sizes", "strides", "dtype", "offset")
    each = zip(shapes, strides, dtypes, offsets, strict=True)
    return [dict(zip(names, values, strict=True)) for values in each]


@pytest.fixture(scope="module")
def logs(opened: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Of each program and case the calls of Triton's launcher, then those of the loader."""
    folder = tmp_path_factory.mktemp("against_triton")
    driver = mock_driver(folder / "driver")
    found = {}
    for program in PROGRAMS:
        found |= _logs(opened, folder, driver, program)
    return found


def _logs(opened: Path, folder: Path, driver: Path, name: str) -> dict[tuple[str, str], Any]:
    manifest = Bundle.open(opened).manifest
    program = next(p for p in manifest.programs if p.name == name)
    parameters = folder / f"{name}.parameters"
    parameters.write_text(_parameter_lines(opened, manifest, program))
    requests = [_request(opened, folder, program, case) for case in CASES]
    mock = {"PARAMS": parameters, "SMS": SMS}
    theirs = triton_launches(driver, requests, **mock)
    for request, places in zip(requests, theirs, strict=True):
        where = {"places": places["tensors"], "workspace": places["workspace"]}
        request |= where | {"log": request["log"] + " ours"}
    mocked_launches(driver, requests, **mock)
    return {
        (name, case): (_calls(f"{folder}/{name} {case}"), _calls(f"{folder}/{name} {case} ours"))
        for case in CASES
    }


def _parameter_lines(opened: Path, manifest: Any, program: Any) -> str:
    """Of each function its name and the bytes of its parameters, as the PTX declares them."""
    lines = {}
    for _, v in variants(manifest):
        if v.assembly.startswith(f"programs/{program.name}/"):
            sizes = entry_parameters((opened / v.assembly).read_text(), v.symbol)
            lines[v.symbol] = " ".join([v.symbol, *map(str, sizes)])
    return "\n".join(lines.values())


def _request(opened: Path, folder: Path, program: Any, case: str) -> dict[str, Any]:
    m, n, k = CASES[case][0]
    settings = {name: getattr(program.settings, name) for name in program.settings.__annotations__}
    launchable = Bundle.open(opened).programs[program.name]
    sms = {"sms": SMS} if "units" in launchable.options else {}
    return {
        "program": (opened / program.ir_after).read_text(),
        "pipeline": program.pipeline,
        "settings": settings,
        "target": "cuda:90",
        "tensors": tensors(case),
        "workspace_bytes": launchable.workspace_bytes(M=m, N=n, K=k, **sms),
        "sms": SMS,
        "is_aligned": CASES[case][3] != "plain",
        "log": f"{folder}/{program.name} {case}",
        "bundle": str(opened),
        "name": program.name,
        "dtypes": ["bf16", "bf16", "f32"],
        "stream": STREAM,
    }


def _calls(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def of_kind(calls: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [c for c in calls if c["call"] == kind]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_driver_is_asked_for_the_same(logs: dict, program: str, case: str):
    theirs, ours = logs[program, case]
    launches = of_kind(theirs, "launch")
    assert of_kind(ours, "launch") == launches
    assert len(launches) == (2 if program == "fixup" else 1)
    assert not any(c["params"] == "unknown" for c in launches)
    assert of_kind(ours, "cuTensorMapEncodeTiled") == of_kind(theirs, "cuTensorMapEncodeTiled")


@pytest.mark.parametrize("case", CASES)
def test_the_cases_have_what_they_are_for(logs: dict, case: str):
    """Controls: maps where boxes are copied, an overlapping second kernel, bytes that differ."""
    theirs, _ = logs["workspace", case]
    maps = len(of_kind(theirs, "cuTensorMapEncodeTiled"))
    assert maps == (3 if CASES[case][3] == "descriptors" else 0)
    assert [c["overlaps"] for c in of_kind(logs["fixup", case][0], "launch")] == [0, 1]
    others = [logs["workspace", other][1] for other in CASES if other != case]
    assert all(of_kind(theirs, "launch") != of_kind(other, "launch") for other in others)
