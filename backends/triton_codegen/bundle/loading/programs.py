"""A program of a bundle: checks what it is given, finds or makes the plan, launches."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.binaries import Binaries
from backends.triton_codegen.bundle.loading.checks import at_least, check_disjoint
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.memory import (
    Memory,
    Workspace,
    given_workspace,
    torch_in_use,
)
from backends.triton_codegen.bundle.loading.model import MOST, WORKSPACE_START, Program
from backends.triton_codegen.bundle.loading.plans import Plan, Planner
from backends.triton_codegen.bundle.loading.sizing import (
    Room,
    add_values,
    block_counts,
    measured,
    picks,
    room,
)

_MOST_PLANS = 1024


class LaunchableProgram:
    """A program of a bundle; `parameters`: the names of its tensors, in order; `options`: the other
    keywords of a launch."""

    def __init__(self, binaries: Binaries, program: Program):
        self._binaries, self.program = binaries, program
        self.parameters = tuple(p.name for p in program.parameters)
        each = ("blocks_per_sm",) if picks(program) else ()
        self.options = (*(v.option for v in program.values if v.option), *each)
        self._planner = Planner(binaries, program)
        self._plans: dict[Any, Plan] = {}

    def launch(
        self, /, *tensors: Any, stream: Any = None, workspace: Any = None, **options: Any
    ) -> None:
        """Run the kernels on tensors in the order of `parameters`, or given by name.

        Tensors are torch's, or `Array`s. stream: a number, or what has a `cuda_stream`; None:
        torch's current one, of Arrays the default one. workspace: None: memory that is kept for the
        stream, grown where it is too small; else, for launches that run one after the other, a
        Workspace, or a tensor of `workspace_bytes()` bytes, whose counters each launch zeroes.
        options: the sizes that no tensor shows; where the program picks its blocks, at most how
        many, and `blocks_per_sm`.
        LaunchError (a ValueError): the argument that does not fit. DriverError: a call that failed.
        """
        given, options = self._sorted_out(tensors, options)
        starts, key = _found(given, options)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._planned(given, options, key)
            starts = plan.starts
        check_disjoint(plan.pairs, starts, self.parameters)
        handle, driver = stream_handle(stream, plan.device, plan.torch), self._binaries.driver
        if driver.is_current(plan.context):
            self._run(plan, starts, handle, workspace)
            return
        with driver.on(plan.device):
            self._run(plan, starts, handle, workspace)

    # --- arguments

    def _sorted_out(
        self, tensors: Sequence[Any], options: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The tensors in their order, and the other options."""
        names = self.parameters
        if len(tensors) == len(names) and not options:
            return tensors, options
        if len(tensors) > len(names):
            raise LaunchError(f"expected {len(names)} tensors, got {len(tensors)}")
        given = dict(zip(names, tensors, strict=False))
        given |= {n: t for n, t in options.items() if n in names and n not in given}
        rest = {n: v for n, v in options.items() if n not in names or n in names[: len(tensors)]}
        for name in rest:
            if name not in self.options:
                raise LaunchError(f"{name}: {self._expected(names, tensors)}")
        if missing := ", ".join(n for n in names if n not in given):
            raise LaunchError(f"{missing}: no tensor is given")
        return [given[n] for n in names], rest

    def _expected(self, names: Sequence[str], tensors: Sequence[Any]) -> str:
        known = ", ".join([*names[len(tensors) :], *self.options])
        return f"expected one of {known}" if known else "expected no other keyword"

    # --- kernels

    def _run(self, plan: Plan, starts: list[int], stream: int, given: Any) -> None:
        if not plan.room.parts:
            self._check_none(given)
            with plan.lock:
                plan.run(self._binaries.driver, starts, stream)
            return
        memory = self._workspace(plan, starts, stream, given)
        with memory.lock, plan.lock:  # other host threads may launch on this stream
            try:
                if memory.is_spoilt:
                    memory.reset(self._binaries.driver, stream)
                plan.run(self._binaries.driver, starts + plan.part_addresses(memory), stream)
            except BaseException:
                self.memory.dropped(memory)
                raise

    def _check_none(self, given: Any) -> None:
        if given is not None and not self.program.workspace.parts:
            raise LaunchError(
                f"workspace: expected None, which is all that {self.program.name} needs, "
                f"got {type(given).__name__}"
            )

    def _workspace(self, plan: Plan, starts: list[int], stream: int, given: Any) -> Workspace:
        if given is None:
            return self.memory.of(plan.device, stream, plan.room, plan.torch)
        spans = [*zip(starts, plan.spans, strict=True)]
        return given_workspace(given, plan.device, plan.room, self.parameters, spans)

    def _planned(self, tensors: Sequence[Any], options: dict[str, Any], key: Any) -> Plan:
        plan = self._planner.plan(tensors, options)
        if key is not None:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    # --- workspaces

    @cached_property
    def memory(self) -> Memory:
        return Memory(self._binaries.driver)

    def workspace_bytes(self, **sizes: Any) -> int:
        """Bytes of the workspace that a launch needs. sizes: those that tensors show, by name in
        the program (M=4096), and what a launch takes as options; `sms`: of the device, if not said
        of device 0. LaunchError: a size that is missing, unknown or none."""
        needs = self._needs(sizes, 0)
        return needs.counter_bytes + needs.tile_bytes

    def new_workspace(self, device: int = 0, *, stream: Any = None, **sizes: Any) -> Workspace:
        """A Workspace for launches of these sizes or smaller ones, in torch's memory where torch is
        imported, else in the driver's; counters are zeroed on the stream."""
        needs, torch = self._needs(sizes, device), torch_in_use()
        place = device, stream_handle(stream, device, torch)
        with self._binaries.driver.on(device):
            return self.memory.made(*place, needs.counter_bytes, needs.tile_bytes, torch)

    def release_workspaces(self) -> None:
        """Let go of the memory that launches keep; a later launch allocates again."""
        self.memory.release()

    def _needs(self, given: dict[str, Any], device: int) -> Room:
        program, shown = self.program, measured(self.program)
        known = [*shown, *self.options, *(["sms"] if picks(program) else [])]
        for name in given:
            if name not in known:
                text = f"one of {', '.join(known)}" if known else "no size, since none is open"
                raise LaunchError(f"{name}: expected {text}")
        for name in shown:
            if name not in given:
                raise LaunchError(f"{name}: no size is given")
        sizes = Sizes({}, {n: at_least(0, n, given[n]) for n in shown})
        add_values(program, sizes, given, lambda: self._sm_count(given.get("sms"), device))
        return room(program, block_counts(program, sizes), sizes)

    def _sm_count(self, given: Any, device: int) -> int:
        """What the caller says, so that no GPU is needed, or what the device has."""
        if given is None:
            return self._binaries.driver.sm_count(device)
        return at_least(1, "sms", given)


def _found(tensors: Sequence[Any], options: dict[str, Any]) -> tuple[list[int], Any]:
    """Where tensors start, and all that a plan depends on; no key of what cannot be looked up,
    whose plan says what is wrong. True and 1.0 equal 1, so types of options are part of it."""
    try:
        starts = [t.address if type(t) is Array else t.data_ptr() for t in tensors]
        layouts = [
            (Array, t.shape, t.strides, t.dtype, t.device)
            if type(t) is Array
            else (t.shape, t.stride(), t.dtype, t.device, t.layout, t.is_neg(), t.is_conj())
            for t in tensors
        ]
        key = (*layouts, *[_alignment(start) for start in starts], *options.items())
        key = (*key, *map(type, options.values())) if options else key
        hash(key)
    except (AttributeError, RuntimeError, TypeError):
        return [], None
    return starts, key


def _alignment(start: Any) -> int | tuple[int]:
    """What a plan depends on of an address; of one that can be none, all, so that the plan of no
    other address serves it."""
    if type(start) is not int:
        raise TypeError
    return start % WORKSPACE_START if 0 < start <= MOST else (start,)


def stream_handle(stream: Any, device: int, torch: Any) -> int:
    """The handle of a stream. LaunchError: it is none."""
    if stream is None:
        return 0 if torch is None else _current_stream(torch, device)
    found = getattr(stream, "cuda_stream", stream)
    if type(found) is not int or not 0 <= found < 2**64:
        raise LaunchError(f"stream: expected a number or a torch.cuda.Stream, got {stream!r}")
    return found


def _current_stream(torch: Any, device: int) -> int:
    """torch's current stream; its own shortcut where there is one."""
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return raw(device) if raw else torch.cuda.current_stream(device).cuda_stream
