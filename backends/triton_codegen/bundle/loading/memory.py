"""Workspaces of launches."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from backends.triton_codegen.bundle.loading.arrays import Array, as_array
from backends.triton_codegen.bundle.loading.driver import Driver
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.model import PART_START, WORKSPACE_START
from backends.triton_codegen.bundle.loading.sizing import Room


class Workspace:
    """Memory for launches that run one after the other: counters, zero between launches, and behind
    them tiles. `lock` is held for a launch; one that raised has the next zero the counters."""

    def __init__(
        self, start: int, counter_bytes: int, tile_bytes: int, device: int, holder: Any = None
    ):
        self.start, self.device = start, device
        self.counter_bytes, self.tile_bytes = counter_bytes, tile_bytes
        self.lock, self.is_spoilt = threading.RLock(), False
        self._holder = holder  # what owns the memory

    @property
    def bytes(self) -> int:
        return self.counter_bytes + self.tile_bytes

    def holds(self, room: Room) -> bool:
        is_counted = room.counter_bytes <= self.counter_bytes
        return is_counted and room.tile_bytes <= self.tile_bytes

    def region(self, name: str) -> int:
        """The address at which a region starts."""
        return self.start if name == "counters" else self.start + self.counter_bytes

    def reset(self, driver: Driver, stream: int) -> None:
        """Zero the counters, on the stream."""
        driver.zero(self.start, self.counter_bytes, stream)
        self.is_spoilt = False


class Memory:
    """The workspaces that a program keeps, one for each device and stream."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._kept: dict[tuple[int, int], Workspace] = {}
        self._lock = threading.RLock()

    def of(self, device: int, stream: int, room: Room, torch: Any) -> Workspace:
        """What is kept for the stream, grown where it is too small; of a launch that a graph
        captures, memory of its own, whose counters the graph zeroes. `torch`: who allocates, None:
        the driver."""
        if self._driver.is_capturing(stream):
            return self.made(device, stream, room.counter_bytes, room.tile_bytes, torch)
        place = device, stream
        with self._lock:
            kept = self._kept.get(place)
            if kept is None or not kept.holds(room):
                counters, tiles = (kept.counter_bytes, kept.tile_bytes) if kept else (0, 0)
                most = max(counters, room.counter_bytes), max(tiles, room.tile_bytes)
                kept = self.made(device, stream, *most, torch, is_kept=True)
                self._kept[place] = kept
            return kept

    def made(
        self,
        device: int,
        stream: int,
        counter_bytes: int,
        tile_bytes: int,
        torch: Any,
        is_kept: bool = False,
    ) -> Workspace:
        """A new workspace, its counters zeroed on the stream. `is_kept`: outside any pool that this
        thread allocates from, as that of torch's CUDA-graph trees, which takes back what it finds
        there: a thread of its own allocates it."""
        size = counter_bytes + tile_bytes
        if torch is not None:
            place = torch, device, stream, size
            holder = _apart(_torch_memory, *place) if is_kept else _torch_memory(*place)
            start = holder.data_ptr()
        elif self._driver.is_capturing(stream):
            raise LaunchError("workspace: expected the caller's own, since a graph is captured")
        else:
            holder = _DriverMemory(self._driver, device, size)
            start = holder.start
        made = Workspace(start, counter_bytes, tile_bytes, device, holder)
        made.reset(self._driver, stream)
        return made

    def dropped(self, workspace: Workspace) -> None:
        """Forget one whose counters may not be zero."""
        workspace.is_spoilt = True
        with self._lock:
            for place in [p for p, kept in self._kept.items() if kept is workspace]:
                del self._kept[place]

    def release(self) -> None:
        """Let go of all that is kept; a later launch allocates again."""
        with self._lock:
            self._kept.clear()


def given_workspace(
    given: Any, device: int, room: Room, names: Sequence[str], spans: Sequence[tuple[int, int]]
) -> Workspace:
    """The caller's workspace, or one in a tensor of bytes, of which nothing is known: launches of
    other sizes have tiles where this one has counters. `spans`: where each tensor starts, and its
    bytes. LaunchError."""
    if not isinstance(given, Workspace):
        given = _in_tensor(as_array("workspace", given), room.counter_bytes, given)
    if given.device != device:
        _refuse_workspace(f"device {device}", f"{given.device}")
    if not given.holds(room):
        needs = f"{room.counter_bytes} bytes of counters and {room.tile_bytes} of tiles"
        _refuse_workspace(needs, f"{given.counter_bytes} and {given.tile_bytes}")
    for name, (start, size) in zip(names, spans, strict=True):
        if given.start < start + size and start < given.start + given.bytes and size:
            _refuse_workspace("memory of its own", f"bytes shared with {name}")
    return given


def _in_tensor(array: Array, counter_bytes: int, holder: Any) -> Workspace:
    is_bytes = array.dtype in ("torch.uint8", "u8", "i8") and len(array.shape) == 1
    if not is_bytes or (array.strides != (1,) and array.shape[0] > 1):
        _refuse_workspace(
            "a Workspace, or bytes of one dense dimension", f"{array.dtype} {list(array.shape)}"
        )
    size = array.shape[0] // PART_START * PART_START
    if size and array.address % WORKSPACE_START:
        _refuse_workspace(f"memory from a multiple of {WORKSPACE_START} on", hex(array.address))
    counters = min(counter_bytes, size)
    made = Workspace(array.address, counters, size - counters, array.device, holder)
    made.is_spoilt = True
    return made


def _refuse_workspace(expected: str, given: str) -> None:
    raise LaunchError(f"workspace: expected {expected}, got {given}")


class _DriverMemory:
    """Memory of the driver's own, freed with this object."""

    def __init__(self, driver: Driver, device: int, size: int):
        self._driver, self._device = driver, device
        self.start = driver.allocate(max(size, 1))

    def __del__(self) -> None:
        if getattr(self, "start", 0):
            with suppress(Exception), self._driver.on(self._device):  # when the process ends, too
                self._driver.free(self.start)


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def _torch_memory(torch: Any, device: int, stream: int, size: int) -> Any:
    with _torch_stream(torch, device, stream):
        return torch.empty(size, dtype=torch.uint8, device=torch.device("cuda", device))


@contextmanager
def _torch_stream(torch: Any, device: int, stream: int) -> Iterator[None]:
    """Makes `stream` torch's current one, so that its allocator knows where the memory is used."""
    if torch.cuda.current_stream(device).cuda_stream == stream:
        yield
        return
    cuda = torch.cuda
    other = cuda.ExternalStream(stream, device) if stream else cuda.default_stream(device)
    with torch.cuda.stream(other):
        yield


def torch_in_use() -> Any:
    """torch, where it is imported and has a GPU."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and torch.cuda.is_available() else None
