"""What every launch of a program on tensors of one layout does."""

import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from backends.triton_codegen.bundle.loading.arrays import Array, as_array, is_torch
from backends.triton_codegen.bundle.loading.binaries import Binaries
from backends.triton_codegen.bundle.loading.calls import Call
from backends.triton_codegen.bundle.loading.checks import Pair, check_kind, check_layout
from backends.triton_codegen.bundle.loading.driver import Driver
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.memory import Workspace
from backends.triton_codegen.bundle.loading.model import Kernel, Program
from backends.triton_codegen.bundle.loading.sizing import (
    Room,
    add_values,
    block_counts,
    room,
    variant_for,
)
from backends.triton_codegen.bundle.loading.zeroing import Rows, rows_of, zero


class Zeroed(NamedTuple):
    """Rows of a buffer; `place`: of its address among those of a launch."""

    place: int
    rows: tuple[Rows, ...]


@dataclass(frozen=True)
class Step:
    """A kernel, None where it has no block, and what is zeroed before it."""

    zeroed: tuple[Zeroed, ...]
    call: Call | None


@dataclass(frozen=True)
class Plan:
    """The steps of a launch, what it needs, and what is checked at each: `pairs` share no byte.
    `torch`: whose tensors they are, None: the caller's. `lock` is held for a launch."""

    device: int
    context: int
    torch: Any
    starts: list[int]  # of the tensors that it was made for
    spans: list[int]
    pairs: tuple[Pair, ...]
    room: Room
    steps: tuple[Step, ...]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, driver: Driver, addresses: Sequence[int], stream: int) -> None:
        """All kernels, on the stream. `addresses`: of the tensors, then those of the parts."""
        for step in self.steps:
            for place, rows in step.zeroed:
                zero(driver, addresses[place], rows, stream)
            if step.call is not None:
                step.call(addresses, stream)

    def part_addresses(self, workspace: Workspace) -> list[int]:
        return [workspace.region(p.region) + p.offset for p in self.room.parts]


class Planner:
    """Makes the plans of a program. LaunchError: the argument that does not fit."""

    def __init__(self, binaries: Binaries, program: Program):
        self.binaries, self.program = binaries, program
        self.names = [p.name for p in program.parameters]
        buffers = [*self.names, *(p.name for p in program.workspace.parts)]
        self.places = {name: i for i, name in enumerate(buffers)}

    def plan(self, tensors: Sequence[Any], options: Mapping[str, Any]) -> Plan:
        arrays = {n: as_array(n, t) for n, t in zip(self.names, tensors, strict=True)}
        device = _device(arrays)
        for parameter in self.program.parameters:
            check_kind(parameter, arrays[parameter.name])
        driver = self.binaries.driver
        sizes = Sizes(arrays, addresses={n: a.address for n, a in arrays.items()})
        add_values(self.program, sizes, options, lambda: driver.sm_count(device))
        spans = [check_layout(p, arrays[p.name], sizes) for p in self.program.parameters]
        counts = block_counts(self.program, sizes)
        needs = room(self.program, counts, sizes)
        with driver.on(device):
            steps = self._steps(device, counts, needs, sizes)
        torch = sys.modules["torch"] if any(map(is_torch, tensors)) else None
        starts = [arrays[n].address for n in self.names]
        context = driver.context(device)
        return Plan(device, context, torch, starts, spans, self._pairs(spans), needs, steps)

    def _pairs(self, spans: list[int]) -> tuple[Pair, ...]:
        each = ((self.places[a], self.places[b]) for a, b in self.program.disjoint)
        return tuple(Pair(i, j, spans[i], spans[j]) for i, j in each if spans[i] and spans[j])

    def _steps(self, device: int, counts: list[int], needs: Room, sizes: Sizes) -> tuple[Step, ...]:
        target = self.binaries.target_for(device)
        each = zip(self.program.kernels, counts, strict=True)
        return tuple(
            Step(self._zeroed(k, needs, sizes), self._call(device, target, k, blocks, sizes))
            for k, blocks in each
        )

    def _zeroed(self, kernel: Kernel, needs: Room, sizes: Sizes) -> tuple[Zeroed, ...]:
        """A part of the workspace too, where the launch has one."""
        element_bytes = {p.name: p.element_bytes for p in self.program.parameters}
        found: dict[str, tuple[Rows, ...]] = {
            part.name: (Rows(0, 0, part.bytes, 1),) for part in needs.parts
        }
        for name in kernel.zeroed:
            if name in sizes.arrays:
                found[name] = rows_of(sizes.arrays[name], element_bytes[name])
        return tuple(Zeroed(self.places[n], found[n]) for n in kernel.zeroed if n in found)

    def _call(
        self, device: int, target: str, kernel: Kernel, blocks: int, sizes: Sizes
    ) -> Call | None:
        if blocks <= 0:
            return None
        variant, driver = variant_for(kernel, target, sizes), self.binaries.driver
        function = self.binaries.function(device, variant)
        how = self.places, kernel.launch_pdl
        return Call(driver, function, variant, blocks, sizes, *how)


def _device(arrays: Mapping[str, Array]) -> int:
    first, *_ = arrays
    device = arrays[first].device
    for name, array in arrays.items():
        if array.device != device:
            text = f"expected device {device}, as {first}, got device {array.device}"
            raise LaunchError(f"{name}: {text}")
    return device
