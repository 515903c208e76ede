"""What a launch from a bundle does, and refuses: variants, arguments, workspaces, streams."""

import ctypes
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from backends.triton_codegen.bundle import Array, Bundle
from backends.triton_codegen.bundle.loading.driver import Driver
from backends.triton_codegen.bundle.loading.errors import DriverError
from backends.triton_codegen.bundle.loading.memory import Workspace
from loopir.errors import BundleError, LaunchError
from tests.support.bundled_product import ELSEWHERE, A, B, C, K, M, N, product
from tests.support.bundles import variants
from tests.support.fake_cuda import CONTEXT, FakeCuda, described


def open_product(m: int = 64, n: int = 72, k: int = 200) -> list[Array]:
    """The same, B with dimension 0 contiguous."""
    return product(m, n, k, b=Array(B, "bf16", (k, n), (1, k)))


class Open:
    """A bundle, a driver that notes what it is asked, and a program."""

    def __init__(self, folder: Path, name: str, **how: Any):
        self.fake = FakeCuda(folder, **how)
        self.bundle = Bundle.open(folder, self.fake)
        self.program = self.bundle.programs[name]

    def launch(self, *tensors: Array, **options: Any) -> Any:
        """The last kernel's launch."""
        self.program.launch(*tensors, **options)
        assert self.fake.errors == []
        return self.fake.launches[-1]


@pytest.fixture
def gemm(three: Path) -> Open:
    return Open(three, "gemm")


@pytest.fixture
def sized(opened: Path) -> Open:
    return Open(opened, "workspace")


# --- variants

VARIANTS = {
    "descriptors": {},
    "aligned": {"c": Array(C, "f32", (M, N), (2**38, 1))},
    "plain": {"a": Array(A + 2, "bf16", (M, K), (K, 1))},
}
SHIFTED = {
    "start of A": {"a": Array(A + 8, "bf16", (M, K), (K, 1))},
    "start of C": {"c": Array(C + 4, "f32", (M, N), (N, 1))},
    "rows of A": {"a": Array(A, "bf16", (M, K), (K + 1, 1))},
    "rows of B": {"b": Array(B, "bf16", (K, N), (N + 4, 1))},
    "rows that overlap": {"a": Array(A, "bf16", (M, K), (4, 1))},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_best_variant_that_suits_is_launched(gemm: Open, name: str):
    assert gemm.launch(*product(**VARIANTS[name])).variant == name


@pytest.mark.parametrize("what", SHIFTED)
def test_what_is_no_multiple_of_16_takes_the_plain_variant(gemm: Open, what: str):
    assert gemm.launch(*product(**SHIFTED[what])).variant == "plain"


def test_rows_of_stride_0_are_read_by_pointers(gemm: Open):
    repeated = Array(A, "bf16", (M, K), (0, 1))
    assert gemm.launch(*product(a=repeated)).variant == "aligned"


def test_the_variant_is_chosen_anew_where_a_tensor_has_moved(gemm: Open):
    moved = Array(A + 2, "bf16", (M, K), (K, 1))
    found = [gemm.launch(*product(**changes)).variant for changes in ({}, {"a": moved}, {})]
    assert found == ["descriptors", "plain", "descriptors"]


CAPABILITIES = {(8, 0): "cuda-80", (8, 9): "cuda-80", (9, 0): "cuda-90", (10, 0): "cuda-100"}


@pytest.mark.parametrize(("capability", "target"), CAPABILITIES.items(), ids=str)
def test_a_device_gets_the_binary_of_its_kind(
    three: Path, capability: tuple[int, int], target: str
):
    found = Open(three, "gemm", capability=capability).launch(*product())
    assert Path(found.binary).parent.name == target


@pytest.mark.parametrize("capability", [(7, 5), (9, 1), (10, 3), (12, 0)])
def test_a_device_without_a_binary_is_refused(three: Path, capability: tuple[int, int]):
    found = Open(three, "gemm", capability=capability)
    with pytest.raises(LaunchError, match=r"expected one of cuda:80, .* got compute capability"):
        found.launch(*product())


# --- arguments


def test_a_launch_says_blocks_threads_memory_and_stream(gemm: Open):
    found = gemm.launch(*product(), stream=77)
    variant = gemm.program.program.kernels[0].builds[1].variants[0]
    assert (found.blocks, found.threads, found.stream) == (5, 128, 77)
    assert found.shared_bytes == variant.shared_bytes > 0


def test_addresses_of_the_workspace_lie_in_it_counters_first(gemm: Open):
    found = gemm.launch(*product())
    (start,) = gemm.fake.memory
    names = [a.name for a in gemm.program.program.kernels[0].builds[1].variants[0].arguments]
    passed = dict(zip(names, found.numbers(), strict=True))
    assert passed["arrivals"] == start
    assert passed["partials"] == start + 256
    assert gemm.fake.memsets == [(start, 256, 0)]


def test_tensor_maps_follow_the_tensor_and_are_kept_by_its_address(gemm: Open):
    gemm.launch(*product())
    first = [m["start"] for m in gemm.fake.maps]
    gemm.launch(*product())
    assert len(gemm.fake.maps) == len(first) == 3
    gemm.launch(*product(a=Array(ELSEWHERE, "bf16", (M, K), (K, 1))))
    assert [m["start"] for m in gemm.fake.maps[3:]] == [ELSEWHERE]
    assert gemm.fake.maps[3]["extents"] == [K, M]
    assert gemm.fake.maps[3]["strides"] == [2 * K]


def test_kernels_run_in_order_and_the_second_may_overlap(opened: Path):
    found = Open(opened, "fixup")
    found.launch(*open_product())
    assert [(x.symbol, x.overlaps) for x in found.fake.launches] == [
        ("gemm_descriptors", False),
        ("gemm_fixup_descriptors", True),
    ]


def test_an_output_is_zeroed_before_the_kernel_on_its_stream_and_no_gap(opened: Path):
    found = Open(opened, "atomic")
    buffer = bytearray(b"\7" * 4 * 80 * 64)
    start = ctypes.addressof((ctypes.c_ubyte * len(buffer)).from_buffer(buffer))
    a, b, c = open_product()
    found.launch(a, b, replace(c, address=start, strides=(80, 1)), stream=9)
    assert found.fake.events == ["zero", "gemm"]
    assert found.fake.memsets == [(start, 64 * 72 * 4, 9)]
    for row in range(64):
        assert not any(buffer[row * 320 : row * 320 + 288])
        assert set(buffer[row * 320 + 288 : row * 320 + 320]) == {7}


def test_tensors_can_be_given_by_name(gemm: Open):
    a, b, c = product()
    assert gemm.launch(C=c, B=b, A=a) == gemm.launch(a, b, c)
    with pytest.raises(LaunchError, match="B: no tensor is given"):
        gemm.launch(a, C=c)


def test_a_launch_without_blocks_loads_and_allocates_nothing(sized: Open):
    sized.program.launch(*open_product(0, 64, 64))
    assert (sized.fake.launches, sized.fake.memory, sized.fake.memsets) == ([], {}, [])


def test_the_context_of_the_device_is_current_for_the_launch_only(gemm: Open):
    contexts: list[int] = []
    gemm.fake.run = lambda launch: contexts.append(gemm.fake.contexts[-1])
    second = [replace(t, device=1) for t in product()]
    gemm.launch(*product())
    gemm.launch(*second)
    assert contexts == [CONTEXT, CONTEXT + 1]
    assert gemm.fake.contexts == []


def test_binaries_can_be_loaded_before_the_first_launch(gemm: Open):
    gemm.bundle.load()
    loaded = len(gemm.fake._modules)
    gemm.launch(*product())
    binaries = [v for target, v in variants(gemm.bundle.manifest) if target == "cuda:90"]
    assert loaded == len(gemm.fake._modules) == len(binaries) > 4


# --- workspaces


def test_each_stream_has_a_workspace_that_grows_and_is_zeroed_once(sized: Open):
    for stream in (1, 2, 1, 2):
        sized.launch(*open_product(8, 8, 8), stream=stream)
    assert len(sized.fake.memory) == 2
    assert [stream for *_, stream in sized.fake.memsets] == [1, 2]
    sized.launch(*open_product(640, 640, 200), stream=1)
    assert len(sized.fake.memory) == 2
    assert [stream for *_, stream in sized.fake.memsets] == [1, 2, 1]
    sized.launch(*open_product(), stream=1)
    assert len(sized.fake.memsets) == 3


def test_a_launch_that_failed_has_the_next_one_zero_its_counters(sized: Open):
    sized.launch(*open_product())
    sized.fake.fails["cuLaunchKernel"] = 700
    with pytest.raises(DriverError, match="cuLaunchKernel: error 700, as the test wants"):
        sized.program.launch(*open_product())
    sized.launch(*open_product())
    assert len(sized.fake.memsets) == 2


def test_a_workspace_of_the_callers_is_zeroed_after_a_launch_that_failed(sized: Open):
    mine = sized.program.new_workspace(M=64, N=72, K=200)
    sized.fake.fails["cuLaunchKernel"] = 700
    with pytest.raises(DriverError):
        sized.program.launch(*open_product(), workspace=mine)
    sized.launch(*open_product(), workspace=mine)
    assert [start for start, *_ in sized.fake.memsets] == [mine.start] * 2
    assert len(sized.fake.memory) == 1


def test_bytes_of_the_callers_serve_as_a_workspace_whose_counters_are_zeroed(sized: Open):
    """Launches of other sizes have tiles where these have counters."""
    size = sized.program.workspace_bytes(M=64, N=72, K=200)
    memory = torch.full((size + 256,), 7, dtype=torch.uint8)
    start = -(-memory.data_ptr() // 256) * 256
    mine = Array(start, "i8", (size,), (1,))
    for _ in range(2):
        sized.launch(*open_product(), workspace=mine)
    assert (sized.fake.memory, sized.fake.memsets) == ({}, [(start, 256, 0)] * 2)
    assert int(memory.count_nonzero()) == size
    with pytest.raises(LaunchError, match="workspace: expected 256 bytes of counters and"):
        sized.program.launch(*open_product(), workspace=replace(mine, shape=(size - 1,)))


def test_workspace_bytes_are_those_of_the_emitted_file(sized: Open, three: Path):
    program = sized.program
    bytes_of = [program.workspace_bytes(M=64, N=72, K=200, units=u, sms=99) for u in (1, 2, 99)]
    assert bytes_of == sorted(set(bytes_of))
    assert program.workspace_bytes(M=0, N=72, K=200, sms=99) == 0
    assert Open(three, "gemv").program.workspace_bytes() == 0
    with pytest.raises(LaunchError, match=r"^sms: expected no size, since none is open"):
        Open(three, "gemv").program.workspace_bytes(sms=99)
    for sizes in (
        {"M": 64, "N": 72},
        {"M": 64, "N": 72, "K": -1},
        {"M": 1, "N": 1, "K": 1, "Z": 1},
    ):
        with pytest.raises(LaunchError):
            program.workspace_bytes(**sizes)


def test_a_captured_launch_asks_for_the_callers_memory_without_torch(sized: Open):
    sized.fake.capturing.add(5)
    with pytest.raises(LaunchError, match="expected the caller's own, since a graph is captured"):
        sized.program.launch(*open_product(), stream=5)
    mine = sized.program.new_workspace(M=64, N=72, K=200)
    sized.launch(*open_product(), stream=5, workspace=mine)


def test_a_program_without_a_workspace_takes_none(opened: Path):
    found = Open(opened, "atomic")
    with pytest.raises(LaunchError, match="workspace: expected None, which is all that atomic"):
        found.program.launch(*open_product(), workspace=Array(1 << 30, "i8", (4096,), (1,)))
    assert found.fake.events == []


def test_an_idle_launch_may_be_given_one(sized: Open):
    mine = sized.program.new_workspace(M=64, N=72, K=200)
    sized.program.launch(*open_product(0, 64, 64), workspace=mine)


def test_shapes_may_be_lists(sized: Open):
    lists = [replace(t, shape=[*t.shape], strides=[*t.strides]) for t in open_product()]  # pyright: ignore
    assert sized.launch(*lists).variant == sized.launch(*open_product()).variant == "descriptors"


def test_memory_is_given_back(sized: Open):
    sized.launch(*open_product(), stream=1)
    sized.program.release_workspaces()
    assert sized.fake.memory == {}


@pytest.mark.parametrize("call", ["cuModuleGetFunction", "cuFuncSetAttribute"])
def test_a_binary_that_cannot_be_used_is_unloaded_again(sized: Open, opened: Path, call: str):
    driver, image = Driver(sized.fake), next(opened.rglob("*.cubin")).read_bytes()
    with driver.on(0):
        sized.fake.fails[call] = 1
        with pytest.raises(DriverError, match=f"{call}: error 1"):
            driver.function(image, "gemm", 2**16)
        assert sized.fake.loaded == set()
        driver.function(image, "gemm", 2**16)
        assert len(sized.fake.loaded) == 1


def test_threads_share_a_stream(sized: Open):
    """Each launch has its own tensors, whatever the others do meanwhile."""
    wrong: list[object] = []

    def run(i: int) -> None:
        tensors = [replace(t, address=t.address + i * 4096) for t in open_product(8, 8, 8)]
        for _ in range(20):
            try:
                sized.program.launch(*tensors)
            except BaseException as error:
                wrong.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == sized.fake.errors == []
    found = Counter(tensors_of(launch, sized.fake.maps) for launch in sized.fake.launches)
    assert found == {(A + i * 4096, B + i * 4096, C + i * 4096): 20 for i in range(4)}


def tensors_of(launch: Any, maps: list[dict[str, Any]]) -> tuple[int, ...]:
    """Where the tensors lie whose maps a launch was given."""
    return tuple(described(p, maps)["start"] for p in launch.parameters if len(p) == 128)


# --- refusals

WRONG: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "no tensor": ("A: expected a torch.Tensor or an Array, got int", lambda: [1, *product()[1:]]),
    "dtype": ("A: expected dtype bf16, got f16", lambda: product(a=_a(dtype="f16"))),
    "rank": ("A: expected 2 dimensions, got", lambda: product(a=_a(shape=(K,), strides=(1,)))),
    "shape": (r"A: expected shape \[M, K\] = \[100, 136\], got \[99", lambda: product(m=99)),
    "inner stride": (
        "A: expected stride 1 in dimension 1",
        lambda: product(a=_a(strides=(300, 2))),
    ),
    "device": ("B: expected device 0, as A, got device 1", lambda: product(b=_b(device=1))),
    "no device": ("error 101", lambda: [replace(t, device=3) for t in product()]),
    "alias": ("C: expected memory of its own, got bytes shared with A", lambda: product(c=_c(A))),
    "partial alias": ("bytes shared with B", lambda: product(c=_c(B + 2 * N * K - 4))),
    "rows of C overlap": ("C: expected an output whose", lambda: product(c=_c(strides=(N - 1, 1)))),
    "rows of C repeat": ("C: expected an output whose", lambda: product(c=_c(strides=(0, 1)))),
    "negative stride": (
        "A: expected integers of at least 0",
        lambda: product(a=_a(strides=(-1, 1))),
    ),
    "half an element": ("A: expected the address of a bf16", lambda: product(a=_a(address=A + 1))),
    "strides": ("A: expected a stride for each dimension", lambda: product(a=_a(strides=(1,)))),
    "too many": ("expected 3 tensors, got 4", lambda: [*product(), product()[0]]),
    "null": ("A: expected the address of a bf16, got 0x0", lambda: product(a=_a(address=0))),
    "negative address": (
        "A: expected integers of at least 0",
        lambda: product(a=_a(address=A - 2**40)),
    ),
    "address of 64 bits": (
        "A: expected integers of at least 0",
        lambda: product(a=_a(address=A + 2**63)),
    ),
    "fraction": (
        "A: expected integers of at least 0",
        lambda: product(a=_a(address=float(A))),  # pyright: ignore[reportArgumentType]
    ),
    "64 bits": ("A: expected fewer than 2.63 bytes", lambda: product(a=_a(strides=(2**60, 1)))),
}


def _a(**changes: Any) -> Array:
    return replace(product()[0], **changes)


def _b(**changes: Any) -> Array:
    return replace(product()[1], **changes)


def _c(address: int = C, **changes: Any) -> Array:
    return replace(product()[2], address=address, **changes)


@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(gemm: Open, what: str):
    message, tensors = WRONG[what]
    with pytest.raises((LaunchError, DriverError), match=message):
        gemm.program.launch(*tensors())
    assert gemm.fake.launches == []
    gemm.launch(*product())
    with pytest.raises((LaunchError, DriverError), match=message):
        gemm.program.launch(*tensors())
    assert len(gemm.fake.launches) == 1


def test_an_empty_tensor_may_have_no_address(sized: Open):
    """The plan of one serves no other tensor."""
    for address in (0, A):
        a, b, c = open_product(k=0)
        sized.launch(replace(a, address=address), b, c)
    with pytest.raises(LaunchError, match="A: expected integers of at least 0"):
        sized.program.launch(replace(a, address=-16), b, c)
    assert len(sized.fake.launches) == 2


WRONG_OPTIONS = {
    "unknown": ({"fast": 1}, "fast: expected one of units, blocks_per_sm"),
    "zero": ({"units": 0}, "units: expected an int of at least 1, got 0"),
    "true": ({"units": True}, "units: expected an int of at least 1, got True"),
    "text": ({"units": "3"}, "units: expected an int of at least 1, got '3'"),
    "huge": ({"units": 2**63}, "units: expected an int of at least 1"),
    "blocks": ({"blocks_per_sm": 0}, "blocks_per_sm: expected an int of at least 1"),
    "stream": ({"stream": "now"}, "stream: expected a number or a torch.cuda.Stream"),
    "workspace": ({"workspace": 3}, "workspace: expected a torch.Tensor or an Array, got int"),
    "twice": ({"A": 3}, "A: expected one of units, blocks_per_sm"),
}


@pytest.mark.parametrize("what", WRONG_OPTIONS)
def test_options_that_do_not_fit_are_refused(sized: Open, what: str):
    options, message = WRONG_OPTIONS[what]
    with pytest.raises(LaunchError, match=message):
        sized.program.launch(*open_product(), **options)
    sized.launch(*open_product(), units=2, blocks_per_sm=3)


def test_a_program_without_options_takes_no_keyword(gemm: Open):
    assert gemm.program.options == ()
    with pytest.raises(LaunchError, match=r"^units: expected no other keyword$"):
        gemm.program.launch(*product(), units=2)


def test_without_a_driver_it_is_asked_for(three: Path, monkeypatch: pytest.MonkeyPatch):
    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    bundle = Bundle.open(three)
    monkeypatch.setattr(ctypes, "CDLL", absent)
    with pytest.raises(DriverError, match=r"^libcuda.so.1: cannot .*; is an NVIDIA driver"):
        bundle.load(0)


def test_true_is_no_one_after_a_launch_with_1(sized: Open):
    sized.launch(*open_product(), units=1)
    with pytest.raises(LaunchError, match="got True"):
        sized.program.launch(*open_product(), units=True)


BAD_MEMORY = {
    "device": (lambda w: Workspace(w.start, 2**20, 2**24, 1), "expected device 0, got 1"),
    "few counters": (lambda w: Workspace(w.start, 0, 2**24, 0), "bytes of counters and"),
    "shared": (lambda w: Workspace(A - 4096, 2**20, 2**24, 0), "expected memory of its own"),
    "start": (lambda w: Array(8, "i8", (2**24,), (1,)), "from a multiple of 16 on"),
    "one byte": (lambda w: Array(16, "i8", (2**24,), (0,)), "bytes of one dense dimension"),
    "dtype": (lambda w: Array(16, "f32", (2**24,), (1,)), "bytes of one dense dimension"),
    "rank": (lambda w: Array(16, "i8", (1, 2**24), (1, 1)), "bytes of one dense dimension"),
}


@pytest.mark.parametrize("what", BAD_MEMORY)
def test_memory_that_cannot_be_the_workspace_is_refused(sized: Open, what: str):
    make, message = BAD_MEMORY[what]
    mine = sized.program.new_workspace(M=64, N=72, K=200)
    with pytest.raises(LaunchError, match=f"workspace: .*{message}"):
        sized.program.launch(*open_product(), workspace=make(mine))
    sized.launch(*open_product(), workspace=mine)


def test_a_binary_that_changed_since_the_bundle_was_opened_is_refused(three: Path, tmp_path: Path):
    folder = tmp_path / "copy"
    shutil.copytree(three, folder)
    found = Open(folder, "gemm")
    for path in folder.rglob("*.cubin"):
        path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(BundleError, match="cubin: its SHA-256 is not the one in the manifest"):
        found.launch(*product())
