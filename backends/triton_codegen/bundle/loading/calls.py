"""Kernels with all that a launch gives them, ready to be launched again and again."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.driver import Driver, Overlapping
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.model import Descriptor, Tree, Variant

_MOST_MAPS = 256


class Call:
    """A variant of a kernel with everything a launch gives it but addresses. `function`: its
    handle; `places`: where the address of each buffer stands among those of a launch; `overlaps`:
    whether its blocks may start while the kernel before it runs."""

    def __init__(
        self,
        driver: Driver,
        function: int,
        variant: Variant,
        blocks: int,
        sizes: Sizes,
        places: Mapping[str, int],
        overlaps: bool,
    ):
        self._driver, self._function = driver, function
        self._shape = blocks, 1, 1, variant.threads, 1, 1, variant.shared_bytes
        self._overlapping = Overlapping(self._shape) if overlaps else None
        arguments = variant.arguments
        self._slots = (ctypes.c_uint64 * max(1, len(arguments)))()
        at, step = ctypes.addressof(self._slots), ctypes.sizeof(ctypes.c_uint64)
        self._values = (ctypes.c_void_p * max(1, len(arguments)))()
        self._pointers: list[tuple[int, int]] = []
        self._maps: list[tuple[int, _Maps]] = []
        for i, argument in enumerate(arguments):
            self._values[i] = at + i * step
            if argument.expression is None:
                descriptor = variant.descriptors[argument.descriptor or 0]
                place = places[descriptor.parameter]
                self._maps.append((i, _Maps(driver, descriptor, sizes.arrays, place)))
            elif buffer := _buffer(argument.expression.tree):
                self._pointers.append((i, places[buffer]))
            else:
                self._slots[i] = _bits(argument.name, argument.type, sizes.of(argument.expression))

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launch, on the current context; for one thread at a time."""
        slots, values = self._slots, self._values
        for i, place in self._pointers:
            slots[i] = addresses[place]
        for i, maps in self._maps:
            values[i] = maps.at(addresses)
        driver, function = self._driver, self._function
        if self._overlapping is None:
            code = driver.launch(function, *self._shape, stream, values, None)
        else:
            code = driver.launch_configured(self._overlapping.on(stream), function, values, None)
        if code:
            driver.check("cuLaunchKernel" + ("Ex" if self._overlapping else ""), code)


def _buffer(tree: Tree) -> str:
    """Whose address it is; "": of none."""
    return tree[1] if type(tree) is tuple and tree[0] == "address" else ""


def _bits(name: str, kind: str, value: int) -> int:
    """A scalar as the 8 bytes whose first 4 or 8 the driver copies, on a little-endian host."""
    if kind == "i32" and not -(2**31) <= value < 2**31:
        raise LaunchError(f"{name}: expected 32 bits, got {value}")
    return value % 2**64


class _Maps:
    """The tensor maps of one argument, by the address of the tensor: all else is one plan's."""

    def __init__(
        self, driver: Driver, descriptor: Descriptor, arrays: Mapping[str, Array], place: int
    ):
        self._driver, self._descriptor, self._place = driver, descriptor, place
        array, dims = arrays[descriptor.parameter], descriptor.dims
        self._extents = [array.shape[d] for d in dims]
        self._strides = [array.strides[d] * descriptor.element_bytes for d in dims[1:]]
        self._kept: dict[int, Any] = {}

    def at(self, addresses: Sequence[int]) -> int:
        start = addresses[self._place]
        found = self._kept.get(start)
        if found is None:
            if len(self._kept) >= _MOST_MAPS:
                self._kept.clear()
            found = self._kept[start] = self._encoded(start)
        return found.address

    def _encoded(self, start: int) -> Any:
        d = self._descriptor
        how = d.data_type, d.interleave, d.swizzle, d.l2_promotion, d.oob_fill
        lists = self._extents, self._strides, d.box, d.element_strides
        return self._driver.tensor_map(how, start, *lists)
