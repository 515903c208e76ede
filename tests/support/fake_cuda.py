"""A libcuda in Python: memory is the host's, kernels are the source in the bundle, interpreted.

Calls go through ctypes both ways, so a wrong type shows. Devices are numbered; contexts are 100 and
the device's number; a stream captures if its number is in `capturing`.
"""

import ctypes
import hashlib
import threading
from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.bundles import entry_parameters

CONTEXT = 100
_SLACK = 2**20  # bytes behind an allocation, for faults that write beyond it
_NUMBER = POINTER(c_int)
_CALLS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDeviceGet": (_NUMBER, c_int),
    "cuDeviceGetAttribute": (_NUMBER, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuModuleLoadData": (POINTER(c_void_p), c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), c_void_p),
    "cuLaunchKernelEx": (POINTER(c_ubyte), c_void_p, POINTER(c_void_p), c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemsetD2D8Async": (c_uint64, c_size_t, c_ubyte, c_size_t, c_size_t, c_void_p),
    "cuStreamIsCapturing": (c_void_p, _NUMBER),
    "cuThreadExchangeStreamCaptureMode": (_NUMBER,),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint, c_uint64, POINTER(c_uint64), POINTER(c_uint64)),
        *(POINTER(c_uint), POINTER(c_uint), c_int, c_int, c_int, c_int),
    ),
}


@dataclass(frozen=True)
class Launch:
    """A launch: what a driver is told, and the bytes of each parameter."""

    symbol: str
    binary: str
    blocks: int
    threads: int
    shared_bytes: int
    stream: int
    parameters: tuple[bytes, ...]
    overlaps: bool

    @property
    def variant(self) -> str:
        return self.binary.split(".")[-2]

    def numbers(self) -> tuple[int, ...]:
        return tuple(int.from_bytes(p, "little", signed=len(p) == 4) for p in self.parameters)


@dataclass
class FakeCuda:
    """`folder`: the bundle whose binaries are known. `run`: called with each launch. `fails`: codes
    of calls that fail, by name; of one call each. `fails_at`: number, from 1 on, of one more."""

    folder: Path
    capability: tuple[int, int] = (9, 0)
    sms: int = 4
    run: Callable[[Launch], None] | None = None
    fails: dict[str, int] = field(default_factory=dict)
    fails_at: int = 0
    capturing: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.calls: list[str] = []
        self.launches: list[Launch] = []
        self.memsets: list[tuple[int, int, int]] = []  # address, bytes or rows times width, stream
        self.maps: list[dict[str, Any]] = []
        self.events: list[str] = []
        self.shared: dict[str, int] = {}
        self.errors: list[BaseException] = []
        self._threads = threading.local()
        self._lock = threading.RLock()
        self.memory: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self._modules: list[str] = []
        self.loaded: set[int] = set()
        self._functions: list[tuple[str, str]] = []
        for name, types in _CALLS.items():
            setattr(self, name, CFUNCTYPE(c_int, *types)(self._guarded(name)))

    @property
    def contexts(self) -> list[int]:
        """The contexts of this thread, the current one last."""
        if not hasattr(self._threads, "contexts"):
            self._threads.contexts = []
        return self._threads.contexts

    def _guarded(self, name: str) -> Callable[..., int]:
        """An exception cannot pass through ctypes: it is kept, and the call fails."""
        method = getattr(self, f"_{name}")

        def called(*arguments: Any) -> int:
            self.calls.append(name)
            if name in self.fails or len(self.calls) == self.fails_at:
                return self.fails.pop(name, 700)
            try:
                with self._lock:
                    return method(*arguments) or 0
            except BaseException as error:
                self.errors.append(error)
                return 999

        return called

    # --- devices and contexts

    def _cuInit(self, flags: int) -> None:
        assert flags == 0

    def _cuDeviceGet(self, device: Any, number: int) -> int:
        device[0] = number
        return 0 if number in (0, 1) else 101

    def _cuDeviceGetAttribute(self, value: Any, which: int, device: int) -> None:
        value[0] = {16: self.sms, 75: self.capability[0], 76: self.capability[1]}[which]

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:
        context[0] = CONTEXT + device

    def _cuCtxGetCurrent(self, context: Any) -> None:
        context[0] = self.contexts[-1] if self.contexts else None

    def _cuCtxPushCurrent_v2(self, context: int) -> None:
        self.contexts.append(context)

    def _cuCtxPopCurrent_v2(self, context: Any) -> None:
        context[0] = self.contexts.pop()

    # --- binaries

    def _cuModuleLoadData(self, module: Any, image: int) -> None:
        assert self.contexts
        digest = hashlib.sha256(ctypes.string_at(image, _elf_bytes(image))).hexdigest()
        self._modules.append(self._binaries()[digest])
        module[0] = len(self._modules)
        self.loaded.add(len(self._modules))

    def _cuModuleUnload(self, module: int) -> None:
        self.loaded.remove(module)

    def _binaries(self) -> dict[str, str]:
        files = (p for p in self.folder.rglob("*") if p.suffix == ".cubin")
        return {hashlib.sha256(p.read_bytes()).hexdigest(): str(p) for p in files}

    def _cuModuleGetFunction(self, function: Any, module: int, symbol: bytes) -> None:
        self._functions.append((self._modules[module - 1], symbol.decode()))
        function[0] = len(self._functions)

    def _cuFuncSetAttribute(self, function: int, which: int, value: int) -> None:
        assert which == 8
        self.shared[self._functions[function - 1][0]] = value

    # --- launches

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        blocks, y, z, threads, u, v, shared, stream, values, extra = rest
        assert (y, z, u, v, extra) == (1, 1, 1, 1, None)
        self._launched(function, blocks, threads, shared, stream, values, False)

    def _cuLaunchKernelEx(self, config: Any, function: int, values: Any, extra: Any) -> None:
        raw = ctypes.string_at(config, 56)
        numbers = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, 28, 4)]
        stream, attributes = (int.from_bytes(raw[i : i + 8], "little") for i in (32, 40))
        assert numbers[1:3] == numbers[4:6] == [1, 1]
        assert int.from_bytes(raw[48:52], "little") == 1
        assert ctypes.string_at(attributes, 12) == b"\6\0\0\0\0\0\0\0\1\0\0\0"
        self._launched(function, numbers[0], numbers[3], numbers[6], stream, values, True)

    def _launched(
        self,
        function: int,
        blocks: int,
        threads: int,
        shared: int,
        stream: int | None,
        values: Any,
        overlaps: bool,
    ) -> None:
        assert self.contexts
        path, symbol = self._functions[function - 1]
        assert shared <= 48 * 1024 or self.shared.get(path, 0) >= shared
        sizes = entry_parameters(Path(path).with_suffix(".ptx").read_text(), symbol)
        passed = tuple(ctypes.string_at(values[i], size) for i, size in enumerate(sizes))
        found = Launch(symbol, path, blocks, threads, shared, stream or 0, passed, overlaps)
        self.launches.append(found)
        self.events.append(symbol)
        if self.run is not None:
            self.run(found)

    def _cuTensorMapEncodeTiled(self, place: int, *rest: Any) -> None:
        data_type, rank, start, extents, strides, box, steps, *options = rest
        assert place % 64 == 0
        lists = extents[:rank], strides[: rank - 1], box[:rank], steps[:rank]
        names = ("extents", "strides", "box", "steps")
        known = {"type": data_type, "start": start, "options": options}
        self.maps.append({**known, **dict(zip(names, lists, strict=True))})
        ctypes.memmove(place, len(self.maps).to_bytes(8, "little") + bytes(120), 128)

    # --- memory

    def _cuMemAlloc_v2(self, start: Any, size: int) -> None:
        assert self.contexts
        block = (c_ubyte * (size + _SLACK))()
        ctypes.memset(block, 0x5A, ctypes.sizeof(block))
        address = -(-ctypes.addressof(block) // 256) * 256
        self.memory[address] = block
        self.sizes[address] = size
        start[0] = address

    def wrote_beyond(self) -> bool:
        """Whether something was written behind an allocation."""
        return any(
            block[self.sizes[start] + 256 :] != [0x5A] * (_SLACK - 256)
            for start, block in self.memory.items()
        )

    def _cuMemFree_v2(self, start: int) -> None:
        del self.memory[start]

    def _cuMemsetD8Async(self, start: int, value: int, size: int, stream: int | None) -> None:
        self._cuMemsetD2D8Async(start, 0, value, size, 1, stream)

    def _cuMemsetD2D8Async(
        self, start: int, pitch: int, value: int, width: int, rows: int, stream: int | None
    ) -> None:
        assert value == 0
        self.events.append("zero")
        self.memsets.append((start, width * rows, stream or 0))
        for row in range(rows):
            ctypes.memset(start + row * pitch, 0, width)

    def _cuStreamIsCapturing(self, stream: int | None, status: Any) -> None:
        status[0] = int((stream or 0) in self.capturing)

    def _cuThreadExchangeStreamCaptureMode(self, mode: Any) -> None:
        mode[0] = 2 - mode[0]

    def _cuGetErrorString(self, code: int, text: Any) -> None:
        text[0] = b"as the test wants"


def _elf_bytes(address: int) -> int:
    """The size of the ELF file that lies at an address."""
    head = ctypes.string_at(address, 64)
    assert head[:4] == b"\x7fELF"
    tables = ((32, 54), (40, 58))  # of programs, of sections: where, and the size of an entry
    return max(
        int.from_bytes(head[at : at + 8], "little") + _entries(head, sizes) for at, sizes in tables
    )


def _entries(head: bytes, at: int) -> int:
    size, count = (int.from_bytes(head[i : i + 2], "little") for i in (at, at + 2))
    return size * count


def described(parameter: bytes, maps: list[dict[str, Any]]) -> dict[str, Any]:
    """What a tensor map among the parameters was made of."""
    return maps[int.from_bytes(parameter[:8], "little") - 1]
