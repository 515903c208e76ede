"""The CUDA driver, through ctypes: the few calls that a launch needs, each checked."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from functools import cached_property
from typing import Any

from backends.triton_codegen.bundle.loading.errors import DriverError

MAP_BYTES, MAP_START = 128, 64
_MAJOR, _MINOR, _SMS = 75, 76, 16  # of CUdevice_attribute
_SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_STATIC_LIMIT = 48 * 1024
_OVERLAP = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class _Attribute(ctypes.Structure):
    _fields_ = (("id", c_int), ("pad", c_int), ("value", c_int * 16))


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(_Attribute)),
        ("attribute_count", c_uint),
    )


_CALLS = {
    "cuInit": (c_uint,),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "cuLaunchKernelEx": (POINTER(_Config), c_void_p, c_void_p, c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuMemsetD2D8Async": (c_uint64, c_size_t, c_ubyte, c_size_t, c_size_t, c_void_p),
    "cuStreamIsCapturing": (c_void_p, POINTER(c_int)),
    "cuThreadExchangeStreamCaptureMode": (POINTER(c_int),),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuTensorMapEncodeTiled": (
        *(c_void_p, c_int, c_uint, c_uint64, c_void_p, c_void_p, c_void_p, c_void_p),
        *(c_int, c_int, c_int, c_int),
    ),
}


class Driver:
    """libcuda, or an object with functions of the same names. Contexts are the primary ones, as
    torch's and the CUDA runtime's. `launch` and `launch_configured` are cuLaunchKernel and
    cuLaunchKernelEx, as they are. DriverError: a call fails, or the library is not there."""

    def __init__(self, library: Any = None):
        self._library = library if library is not None else _loaded()
        self._calls: dict[str, Any] = {}
        self._contexts: dict[int, int] = {}
        self._attributes: dict[tuple[int, int], int] = {}
        self._lock = threading.RLock()
        self.call("cuInit", 0)
        self.launch = self._function("cuLaunchKernel")
        self._current = self._function("cuCtxGetCurrent")
        self._captures = self._function("cuStreamIsCapturing")

    @cached_property
    def launch_configured(self) -> Any:
        """Drivers before CUDA 11.8 have none."""
        return self._function("cuLaunchKernelEx")

    def call(self, name: str, *arguments: Any) -> None:
        self.check(name, self._function(name)(*arguments))

    def check(self, name: str, code: int) -> None:
        """DriverError where `code` is no success."""
        if code:
            raise DriverError(f"{name}: error {code}, {self._text(code)}")

    def _function(self, name: str) -> Any:
        found = self._calls.get(name)
        if found is None:
            found = getattr(self._library, name, None)
            if found is None:
                raise DriverError(f"{name}: this CUDA driver has no such function")
            found.argtypes, found.restype = _CALLS[name], c_int
            self._calls[name] = found
        return found

    def _text(self, code: int) -> str:
        text = c_char_p()
        self._function("cuGetErrorString")(code, byref(text))
        return (text.value or b"unknown").decode(errors="replace")

    # --- devices

    def attribute(self, device: int, which: int) -> int:
        found = self._attributes.get((device, which))
        if found is None:
            number = c_int()
            self.call("cuDeviceGetAttribute", byref(number), which, self._handle(device))
            found = self._attributes[device, which] = number.value
        return found

    def capability(self, device: int) -> tuple[int, int]:
        return self.attribute(device, _MAJOR), self.attribute(device, _MINOR)

    def sm_count(self, device: int) -> int:
        return self.attribute(device, _SMS)

    def _handle(self, device: int) -> int:
        handle = c_int()
        self.call("cuDeviceGet", byref(handle), device)
        return handle.value

    def context(self, device: int) -> int:
        """The primary context of a device, kept for the life of the process."""
        with self._lock:
            if device not in self._contexts:
                context = c_void_p()
                self.call("cuDevicePrimaryCtxRetain", byref(context), self._handle(device))
                self._contexts[device] = context.value or 0
            return self._contexts[device]

    def is_current(self, context: int) -> bool:
        current = c_void_p()
        self._current(byref(current))
        return (current.value or 0) == context

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Makes the primary context of the device the current one of this thread."""
        context = self.context(device)
        if self.is_current(context):
            yield
            return
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(c_void_p()))

    # --- binaries

    def function(self, image: bytes, symbol: str, shared_bytes: int) -> int:
        """A function of a binary, in the current context, with leave for so much shared memory."""
        module, mode = c_void_p(), c_int(_RELAXED)
        # loading may allocate, which a capture forbids its thread
        self.call("cuThreadExchangeStreamCaptureMode", byref(mode))
        try:
            self.call("cuModuleLoadData", byref(module), image)
            return self._function_of(module, symbol, shared_bytes)
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", byref(mode))

    def _function_of(self, module: Any, symbol: str, shared_bytes: int) -> int:
        function = c_void_p()
        try:
            self.call("cuModuleGetFunction", byref(function), module, symbol.encode())
            if shared_bytes > _STATIC_LIMIT:
                self.call("cuFuncSetAttribute", function, _SHARED_BYTES, shared_bytes)
        except DriverError:
            self._function("cuModuleUnload")(module)
            raise
        return function.value or 0

    # --- memory

    def allocate(self, size: int) -> int:
        start = c_uint64()
        self.call("cuMemAlloc_v2", byref(start), size)
        return start.value

    def free(self, start: int) -> None:
        self.call("cuMemFree_v2", start)

    def zero(self, start: int, size: int, stream: int) -> None:
        if size:
            self.call("cuMemsetD8Async", start, 0, size, stream)

    def zero_rows(self, start: int, pitch: int, width: int, rows: int, stream: int) -> None:
        self.call("cuMemsetD2D8Async", start, pitch, 0, width, rows, stream)

    def is_capturing(self, stream: int) -> bool:
        status = c_int()
        code = self._captures(stream, byref(status))
        if code:
            self.check("cuStreamIsCapturing", code)
        return status.value != 0

    def tensor_map(
        self,
        how: tuple[int, int, int, int, int],
        start: int,
        extents: list[int],
        strides: list[int],
        box: tuple[int, ...],
        steps: tuple[int, ...],
    ) -> Any:
        """128 bytes, at a multiple of 64, behind the address `.value` of what is returned. `how`:
        data type, interleave, swizzle, L2 promotion and fill; lists with the contiguous dimension
        first, strides in bytes without it."""
        kept = (ctypes.c_char * (MAP_BYTES + MAP_START))()
        address = -(-ctypes.addressof(kept) // MAP_START) * MAP_START
        rank = len(extents)
        lists = (c_uint64 * rank)(*extents), (c_uint64 * max(1, rank - 1))(*strides)
        sides = (c_uint * rank)(*box), (c_uint * rank)(*steps)
        data_type, *rest = how
        self.call("cuTensorMapEncodeTiled", address, data_type, rank, start, *lists, *sides, *rest)
        return TensorMap(address, kept)


class Overlapping:
    """A configuration of blocks that may start while the kernel before them on the stream runs.
    `shape`: blocks and threads in three dimensions each, bytes of shared memory."""

    __slots__ = ("_attribute", "_config", "place")

    def __init__(self, shape: tuple[int, ...]):
        self._attribute = _Attribute(_OVERLAP, 0, (c_int * 16)(1))
        grid, block = (c_uint * 3)(*shape[:3]), (c_uint * 3)(*shape[3:6])
        self._config = _Config(grid, block, shape[6], None, ctypes.pointer(self._attribute), 1)
        self.place = ctypes.pointer(self._config)

    def on(self, stream: int) -> Any:
        """What cuLaunchKernelEx takes for the stream; good until the next call."""
        self._config.stream = stream
        return self.place


class TensorMap:
    """An encoded tensor map; `address` is valid while this object lives."""

    __slots__ = ("_kept", "address")

    def __init__(self, address: int, kept: Any):
        self.address, self._kept = address, kept


def _loaded() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DriverError(f"{error}; is an NVIDIA driver installed?") from None
