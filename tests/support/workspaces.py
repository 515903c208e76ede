"""Workspaces that tests own: guarded, poisoned, dirtied."""

from collections.abc import Sequence
from typing import Any, Protocol

import pytest
import torch

from backends.triton_codegen import CompiledKernel

_GUARD = 0xA5
_PAD = 512  # bytes on each side of a part: 64 elements of eight bytes, and parts stay aligned
_MOST_PARTS = 8


class Guards:
    """Mixed into the `Workspace` of an emitted file: parts lie apart, known bytes between them."""

    memory: torch.Tensor
    counter_bytes: int

    def _cut(self, parts, start: int):
        for size, dtype in parts:
            start += _PAD
            self._spans()[start, start + size] = start < self.counter_bytes
            if start < self.counter_bytes:
                self.memory[start : start + size].zero_()
            yield self.memory[start : start + size].view(dtype)
            start += -(-size // 256) * 256 + _PAD

    def _spans(self) -> dict[tuple[int, int], bool]:
        """Start and end of each part in use, in bytes: whether it holds counters."""
        return self.__dict__.setdefault("spans", {})

    def _parts(self, is_counter: bool) -> list[torch.Tensor]:
        spans = (span for span, kind in self._spans().items() if kind is is_counter)
        return [self.memory[start:stop] for start, stop in spans]

    def poison(self) -> None:
        """NaN in the partial tiles, -1 in integers."""
        for tiles in self._parts(is_counter=False):
            tiles.fill_(0xFF)

    def dirty(self) -> None:
        """One in each counter."""
        for counters in self._parts(is_counter=True):
            counters.view(torch.int32).fill_(1)

    def check(self) -> None:
        """AssertionError: a counter is not zero, or a byte around a part was written."""
        for counters in self._parts(is_counter=True):
            assert not counters.any(), "counters are not zero"
        outside = self.memory.clone()
        for start, stop in self._spans():
            outside[start:stop] = _GUARD
        changed = outside.ne(_GUARD).nonzero().flatten().tolist()
        assert not changed, f"bytes around the workspace were written, at {changed[:8]}"


def guarded_workspace(kernel: CompiledKernel, device: int = -1, **sizes: int) -> Any:
    """A workspace for launches of these sizes, with guards around its parts."""
    plain = kernel.new_workspace(device, **sizes)
    kind = type("GuardedWorkspace", (Guards, type(plain)), {})
    room = 2 * _MOST_PARTS * _PAD
    count = plain.memory.numel() + 2 * room
    memory = torch.full((count,), _GUARD, dtype=torch.uint8, device=plain.memory.device)
    return kind(memory, plain.counter_bytes + room)


class OneLaunch(Protocol):
    """Arguments of a launch on a GPU. `check`: AssertionError where an output is wrong."""

    @property
    def tensors(self) -> Sequence[torch.Tensor]: ...
    def poison(self) -> None: ...
    def check(self) -> None: ...


def check_dirty_graph_is_seen(kernel: CompiledKernel, launch: OneLaunch) -> None:
    """AssertionError: a graph that starts with dirty counters gives right outputs all the same.

    A graph zeroes its own counters, but not those of a workspace that the caller owns.
    """
    memory = guarded_workspace(kernel, torch.cuda.current_device())
    launch.poison()
    kernel(*launch.tensors, workspace=memory)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(*launch.tensors, workspace=memory)
    launch.poison()
    graph.replay()
    launch.check()
    memory.poison()
    memory.dirty()
    launch.poison()
    graph.replay()
    with pytest.raises(AssertionError, match="elements are wrong"):
        launch.check()
