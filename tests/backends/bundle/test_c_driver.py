"""The launcher in C opens a bundle and asks the driver: files, devices, contexts, refusals."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.c_launcher import (
    Launcher,
    Tensor,
    codes,
    launcher_of,
    mock_driver,
    needs_gcc,
)
from tests.support.manifests import (
    IMAGE,
    argument,
    condition,
    expression,
    kernel,
    map_argument,
    parameter,
    part,
    picked,
    program,
    target,
    variant,
    workspace,
)

pytestmark = needs_gcc
CODES = codes()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return launcher_of(tmp_path_factory, program(kernels=[kernel(1, variant("k"))]))


# --- opening


def test_a_bundle_is_opened_and_nothing_is_loaded_yet(plain: Launcher):
    outcome = plain.run(f"open {plain.bundle}", "find p", "close", context=-1)
    assert [s.code for s in outcome.said] == [0, 0]
    assert outcome.calls == ()


def opened(plain: Launcher, folder: Path, **mock: Any) -> Any:
    (said,) = plain.run(f"open {folder}", **mock).said
    return said


def copied(plain: Launcher, place: Path) -> Path:
    return Path(shutil.copytree(plain.bundle, place / "copy"))


def test_a_file_that_is_missing_or_a_link_is_refused(plain: Launcher, tmp_path: Path):
    folder = copied(plain, tmp_path)
    (folder / "k.cubin").rename(folder / "other")
    said = opened(plain, folder)
    assert said.code == CODES["NO_FILE"]
    assert said.detail.startswith("k.cubin: cannot be opened in")
    (folder / "k.cubin").symlink_to("other")
    assert opened(plain, folder).code == CODES["NO_FILE"]
    (folder / "k.cubin").unlink()
    (folder / "k.cubin").mkdir()
    assert opened(plain, folder).code == CODES["NO_FILE"]
    (folder / "k.cubin").rmdir()
    os.mkfifo(folder / "k.cubin")  # which nobody writes to
    assert opened(plain, folder).code == CODES["NO_FILE"]
    assert opened(plain, tmp_path / "nowhere").code == CODES["NO_FILE"]


@pytest.mark.parametrize("at", range(0, len(IMAGE), 7))
def test_a_flipped_byte_is_refused(plain: Launcher, tmp_path: Path, at: int):
    folder = copied(plain, tmp_path)
    flipped = bytes(b ^ (1 << at % 8) if i == at else b for i, b in enumerate(IMAGE))
    (folder / "k.cubin").write_bytes(flipped)
    said = opened(plain, folder)
    assert (said.code, said.detail) == (CODES["WRONG_HASH"], "k.cubin: its SHA-256 is another")
    (folder / "k.cubin").write_bytes(IMAGE)
    assert opened(plain, folder).code == 0


def test_a_file_of_another_length_is_refused(plain: Launcher, tmp_path: Path):
    folder = copied(plain, tmp_path)
    (folder / "k.cubin").write_bytes(IMAGE + b" ")
    said = opened(plain, folder)
    assert said.code == CODES["WRONG_HASH"]
    assert said.detail == f"k.cubin: expected {len(IMAGE)} bytes, got {len(IMAGE) + 1}"


def test_a_link_above_a_file_is_refused(tmp_path_factory: pytest.TempPathFactory):
    files = {"programs/p/k.cubin": IMAGE}
    whole = program(kernels=[kernel(1, variant("k", binary="programs/p/k.cubin"))])
    nested = launcher_of(tmp_path_factory, whole, files=files)
    assert opened(nested, nested.bundle).code == 0
    (nested.bundle / "programs").rename(nested.bundle / "real")
    (nested.bundle / "programs").symlink_to("real")
    assert opened(nested, nested.bundle).code == CODES["NO_FILE"]


def test_a_program_that_is_not_there_is_named(plain: Launcher):
    said = plain.run(f"open {plain.bundle}", "find q").said[-1]
    assert (said.code, said.detail) == (CODES["NO_PROGRAM"], "q: no such program in the bundle")


# --- the driver


def test_a_machine_without_a_driver_is_told(plain: Launcher, tmp_path: Path):
    (said,) = plain.run(f"open {plain.bundle}", driver=tmp_path).said
    assert said.code == CODES["NO_DRIVER"]
    assert "libcuda.so.1" in said.detail
    said = opened(plain, plain.bundle, FAIL="cuInit=100")
    assert (said.code, said.detail) == (CODES["NO_DRIVER"], "cuInit() failed: is there a GPU?")


def test_a_driver_that_is_too_old_is_told(plain: Launcher):
    said = opened(plain, plain.bundle, VERSION=11080)
    assert said.code == CODES["OLD_DRIVER"]
    assert said.detail == "expected a driver of CUDA 12.0 or later, got 11.8"
    assert opened(plain, plain.bundle, VERSION=12000).code == 0


def test_a_thread_without_a_context_is_told(plain: Launcher):
    outcome = plain.launch("p", context=-1)
    assert outcome.code("launch") == CODES["NO_CONTEXT"]
    assert outcome.said[-1].detail.startswith("no CUDA context is current: call cuCtxSetCurrent")


@pytest.mark.parametrize("call", ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"])
def test_what_the_driver_refuses_is_told(plain: Launcher, call: str):
    outcome = plain.launch("p", FAIL=f"{call}=700")
    assert outcome.code("launch") == CODES["DRIVER_FAILED"]
    assert outcome.said[-1].detail == f"{call}: CUDA_ERROR_ILLEGAL_ADDRESS (700)"
    assert plain.launch("p").code("launch") == 0


@pytest.fixture(scope="module")
def all_calls(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """Two kernels, one of them large, behind counters and an output that are zeroed."""
    shape = parameter("C", ["extent", "C", 0], out=True)
    large = variant("large", shared_bytes=2**16)
    room = workspace(256, 0, part("s", "counters", 0, 4))
    kernels = [kernel(1, variant("first"), zeroed=["C"]), kernel(1, large, name="second")]
    whole = program(parameters=[shape], workspace=room, kernels=kernels)
    return launcher_of(tmp_path_factory, whole)


WHOLE = ["memset", "memset", "first", "large"]


@pytest.mark.parametrize("at", range(1, 25))
def test_a_call_that_fails_once_leaves_the_next_launch_whole(all_calls: Launcher, at: int):
    """And no memory, and no module, that is not given back: the sanitizer looks."""
    tensor, room = Tensor(4096, (8,)).command, "workspace 1048576 256 0 0"
    setup = (f"open {all_calls.bundle}", "find p", tensor, room)
    outcome = all_calls.run(*setup, *["launch"] * 3, "close", FAIL_AT=at)
    if at <= 2:
        assert outcome.said[0].code == CODES["NO_DRIVER"]
        assert outcome.enqueued == []
        return
    assert sorted(s.code for s in outcome.said) == [0, 0, 0, 0, CODES["DRIVER_FAILED"]]
    done = [c.get("symbol", c["call"]) for c in outcome.enqueued]
    begun = [WHOLE[:i] for i in range(len(WHOLE))]
    assert done in [b + 2 * WHOLE for b in begun] + [WHOLE + b + WHOLE for b in begun]
    kinds = [c["call"] for c in outcome.calls if "failed" not in c]
    assert kinds.count("cuModuleUnload") == kinds.count("cuModuleLoadData") == 1


# --- devices


def test_the_build_for_the_device_is_loaded(tmp_path_factory: pytest.TempPathFactory):
    names = {"80": (8, 0, False), "86": (8, 6, False), "90": (9, 0, True), "120": (12, 0, True)}
    files = {f"{n}.cubin": n.encode() for n in names}
    builds = [
        {"target": f"cuda:{n}", "variants": [variant(f"k{n}", binary=f"{n}.cubin")]} for n in names
    ]
    amd = {"target": "hip:gfx942", "variants": [variant("amd", binary="amd.hsaco")]}
    whole = kernel(1, builds=[*builds, amd])
    targets = [target(f"cuda:{n}", *of) for n, of in names.items()]
    targets.append({**target("hip:gfx942"), "backend": "hip", "capability": []})
    fat = launcher_of(tmp_path_factory, program(kernels=[whole]), targets=targets, files=files)
    for capability, symbol in {
        "8.0": "k80",
        "8.6": "k86",
        "8.9": "k86",
        "9.0": "k90",
        "12.0": "k120",
    }.items():
        assert fat.launch("p", CAPABILITY=capability).launches[0]["symbol"] == symbol
    for capability in ("7.5", "9.1", "10.0", "12.1"):
        outcome = fat.launch("p", CAPABILITY=capability)
        assert (outcome.code("launch"), outcome.launches) == (CODES["NO_IMAGE"], [])
        assert (
            outcome.said[-1].detail == f"@k: nothing is built for compute capability {capability}"
        )


def test_a_driver_that_finds_no_code_in_a_binary_is_told(plain: Launcher):
    outcome = plain.launch("p", FAIL="cuModuleLoadData=209")
    assert outcome.code("launch") == CODES["NO_IMAGE"]


@pytest.mark.parametrize(("size", "asks"), [(49152, False), (49153, True), (232448, True)])
def test_shared_memory_above_48_kib_is_asked_for(
    tmp_path_factory: pytest.TempPathFactory, size: int, asks: bool
):
    whole = kernel(1, variant("k", shared_bytes=size))
    outcome = launcher_of(tmp_path_factory, program(kernels=[whole])).launch("p")
    asked = [(c["attribute"], c["value"]) for c in outcome.calls if "attribute" in c]
    assert asked == ([(8, size)] if asks else [])
    assert outcome.launches[0]["shared"] == size


def test_shared_memory_that_the_device_lacks_is_told(tmp_path_factory: pytest.TempPathFactory):
    whole = kernel(1, variant("k", shared_bytes=100_000))
    big = launcher_of(tmp_path_factory, program(kernels=[whole]))
    outcome = big.launch("p", SHARED=99_999)
    assert (outcome.code("launch"), outcome.launches) == (CODES["SHARED_MEMORY"], [])
    assert big.launch("p", SHARED=100_000).code("launch") == 0


# --- contexts and threads


def loads(outcome: Any) -> int:
    return sum(c["call"] == "cuModuleLoadData" for c in outcome.calls)


def test_modules_are_loaded_once_a_context_and_unloaded_at_the_end(plain: Launcher):
    commands = [f"open {plain.bundle}", "find p", "launch", "launch", "context 1", "launch"]
    outcome = plain.run(*commands, "context 0", "launch", "close")
    assert (loads(outcome), len(outcome.launches)) == (2, 4)
    assert sum(c["call"] == "cuModuleUnload" for c in outcome.calls) == 2


def test_threads_that_launch_at_once_load_once(plain: Launcher):
    outcome = plain.run(f"open {plain.bundle}", "find p", "threads", "close")
    assert (outcome.code("threads"), loads(outcome), len(outcome.launches)) == (0, 1, 400)


def test_load_leaves_nothing_to_load_for_a_launch(tmp_path_factory: pytest.TempPathFactory):
    suits = [condition(["address", "A"], multiple_of=16)]
    both = variant("aligned", conditions=suits), variant("plain")
    shape = parameter("A", ["extent", "A", 0], dtype="f16")
    two = launcher_of(tmp_path_factory, program(parameters=[shape], kernels=[kernel(1, *both)]))
    given = Tensor(4096, (8,), "f16").command
    outcome = two.run(f"open {two.bundle}", "find p", "load", given, "launch", "close")
    kinds = [c["call"] for c in outcome.calls if c["call"] != "cuModuleUnload"]
    functions = ["cuModuleGetFunction"] * 2
    assert kinds == ["cuModuleLoadData", *functions, "launch"]


# --- maps, overlap, drivers without them


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """By a tensor map, else by pointers; overlapping the kernel before."""
    descriptor = {
        "parameter": "A",
        "data_type": 6,
        "element_bytes": 2,
        "dims": [1, 0],
        "box": [64, 32],
        "element_strides": [1, 1],
        "interleave": 0,
        "swizzle": 3,
        "l2_promotion": 2,
        "oob_fill": 0,
    }
    arguments = [map_argument(0), argument(["extent", "A", 0], "i32")]
    variants = (
        variant("boxes", arguments, descriptors=[descriptor]),
        variant("pointers", [argument(["address", "A"], "pointer")]),
    )
    shape = parameter("A", ["extent", "A", 0], ["extent", "A", 1], dtype="f16")
    whole = program(parameters=[shape], kernels=[kernel(1, *variants, launch_pdl=True)])
    return launcher_of(tmp_path_factory, whole)


GIVEN = Tensor(4096, (100, 96), "f16").command


def test_a_map_is_encoded_from_the_tensor(mapped: Launcher):
    outcome = mapped.launch("p", GIVEN)
    (found,) = (c for c in outcome.calls if c["call"] == "cuTensorMapEncodeTiled")
    assert found["dims"] == [[96, 192, 64, 1], [100, 0, 32, 1]]
    assert (found["type"], found["start"], found["options"]) == (6, 4096, [0, 3, 2, 0])
    assert (outcome.launches[0]["symbol"], outcome.launches[0]["overlaps"]) == ("boxes", 1)


def test_a_map_that_the_driver_refuses_gives_way_to_pointers(mapped: Launcher):
    outcome = mapped.launch("p", GIVEN, FAIL="cuTensorMapEncodeTiled=1")
    assert (outcome.code("launch"), outcome.launches[0]["symbol"]) == (0, "pointers")


def test_a_driver_without_maps_and_overlap_gets_neither(mapped: Launcher, tmp_path: Path):
    old = mock_driver(tmp_path / "old", "-DOLD")
    outcome = mapped.launch("p", GIVEN, driver=old)
    assert outcome.code("launch") == 0
    assert (outcome.launches[0]["symbol"], outcome.launches[0]["overlaps"]) == ("pointers", 0)


def test_an_argument_of_32_bits_does_not_wrap(mapped: Launcher):
    wide = Tensor(4096, (2**31, 8), "f16", (0, 1)).command
    outcome = mapped.launch("p", wide)
    assert (outcome.code("launch"), outcome.launches) == (CODES["OVERFLOW"], [])
    assert outcome.said[-1].detail == "boxes: argument 1 does not fit in 32 bits"


# --- what is enqueued, and when


def test_kernels_run_in_order_on_the_stream_of_the_call(tmp_path_factory: pytest.TempPathFactory):
    shape = parameter("C", ["extent", "C", 0], out=True)
    kernels = [
        kernel(3, variant("first"), name="first", zeroed=["C"]),
        kernel(0, variant("none"), name="none"),
        kernel(2, variant("second"), name="second", zeroed=["C"]),
    ]
    three = launcher_of(tmp_path_factory, program(parameters=[shape], kernels=kernels))
    outcome = three.launch("p", Tensor(4096, (8,)).command, "stream 77")
    kinds = [c.get("symbol", c["call"]) for c in outcome.enqueued]
    assert kinds == ["memset", "first", "memset", "second"]
    assert {c["stream"] for c in outcome.enqueued} == {77}


def test_nothing_is_enqueued_where_a_later_kernel_cannot_run(
    tmp_path_factory: pytest.TempPathFactory,
):
    late = [condition(["extent", "C", 0], least=9)]
    shape = parameter("C", ["extent", "C", 0], out=True)
    kernels = [
        kernel(1, variant("first"), zeroed=["C"]),
        kernel(1, variant("second", conditions=late)),
    ]
    two = launcher_of(tmp_path_factory, program(parameters=[shape], kernels=kernels))
    outcome = two.launch("p", Tensor(4096, (8,)).command)
    assert (outcome.code("launch"), outcome.enqueued) == (CODES["MISALIGNED"], [])
    assert len(two.launch("p", Tensor(4096, (9,)).command).launches) == 2


def test_the_bytes_of_a_grid_that_follows_the_device_want_a_context(
    tmp_path_factory: pytest.TempPathFactory,
):
    room = {"counter_bytes": expression(["mul", "UNITS", 256]), "tile_bytes": expression(0)}
    counters = {"name": "c", "dtype": "i32", "region": "counters"}
    parts = [{**counters, "offset": expression(0), "bytes": expression("UNITS")}]
    whole = program(
        values=[picked("UNITS", "units", 1000)],
        workspace={"alignment": 256, **room, "parts": parts},
        kernels=[kernel("UNITS", variant("k"))],
    )
    picking = launcher_of(tmp_path_factory, whole)
    commands = f"open {picking.bundle}", "find p", "bytes"
    assert picking.run(*commands, SMS=5).lines[-1] == "= 1280 0"
    assert picking.run(*commands, context=-1).code("bytes") == CODES["NO_CONTEXT"]
