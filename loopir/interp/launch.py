"""Running a program: its kernels in order, their blocks interleaved, the checks at the end."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from loopir.interp.arguments import Arrays, check_arrays, check_sizes, known, launch_values
from loopir.interp.buffers import fill_zeros, parameter_buffers, with_shadows
from loopir.interp.errors import InterpError
from loopir.interp.grid import blocks
from loopir.interp.memory import Buffer, Memory, check_counter
from loopir.interp.schedule import Schedule, Seeded, explore, interleave
from loopir.interp.workspace import WorkspaceMemory, counters
from loopir.nodes import Program


@dataclass(frozen=True)
class Result:
    """What a launch used: its arrays, and the values of the launch symbols and `where` names of
    each kernel."""

    arrays: Arrays
    values: tuple[Mapping[str, int], ...]


def run(
    program: Program,
    arrays: Arrays,
    sizes: Mapping[str, int] | None = None,
    *,
    seed: int = 0,
    schedule: Schedule | None = None,
    workspace: WorkspaceMemory | None = None,
    resident: int | None = None,
) -> Result:
    """Run a verified program's kernels in order on `arrays`, one for each parameter; outputs are
    written in place.

    Arrays have the parameters' shapes, in any memory layout; bf16 and fp8 ones are float32 or
    float64 and hold values of the type. `sizes`: launch symbols that no shape tells; one that
    `at_most` bounds is 4 if not said. `schedule` orders the blocks, by default `Seeded(seed)`;
    `resident`: how many are under way at a time, all if None. `workspace` carries workspaces from
    launch to launch.

    LaunchError: arguments that do not fit. InterpError, by its subclass: a race, a read of poison,
    an access outside its buffer, a counter that does not end at zero; outputs are then undefined.
    """
    schedule = schedule or Seeded(seed)
    workspace = workspace or WorkspaceMemory()
    sizes = sizes or {}
    check_arrays(program, arrays)
    check_sizes(program, sizes)
    values = tuple(launch_values(kernel, arrays, sizes) for kernel in program.kernels)
    try:
        buffers = _buffers(program, arrays, values[0], workspace)
        with np.errstate(all="ignore"):
            _run_kernels(program, buffers, values, schedule, resident)
    except InterpError as error:
        workspace.drop()
        error.locate(program, str(schedule))
        raise
    return Result(arrays, values)


def all_schedules(
    program: Program,
    arrays_factory: Callable[[], Arrays],
    limit: int = 10_000,
    *,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[Result]:
    """`run` once for every order of atomics, arrivals and block ends, each on the fresh arrays of
    an `arrays_factory()`. RunawayError: more than `limit`; meant for 4 blocks or fewer."""
    return explore(lambda s: run(program, arrays_factory(), sizes, schedule=s), limit)


def _buffers(
    program: Program, arrays: Arrays, values: Mapping[str, int], workspace: WorkspaceMemory
) -> dict[str, Buffer]:
    buffers = parameter_buffers(program, arrays)
    counting = counters(program)
    for w in program.workspaces:
        shape = tuple(known(e, values, f"the shape of {w.name}") for e in w.shape)
        buffers[w.name] = workspace.buffer(w, shape, w.name in counting)
    return buffers


def _run_kernels(
    program: Program,
    buffers: Mapping[str, Buffer],
    values: tuple[Mapping[str, int], ...],
    schedule: Schedule,
    resident: int | None,
) -> None:
    for i, kernel in enumerate(program.kernels):
        fill_zeros(kernel, buffers)
        memory = Memory(with_shadows(program, kernel, buffers))
        under_way = (b.steps() for b in blocks(kernel, ("kernels", i), values[i], memory))
        interleave(under_way, schedule, resident)
        _check_counters(program, buffers)


def _check_counters(program: Program, buffers: Mapping[str, Buffer]) -> None:
    counting = counters(program)
    for i, w in enumerate(program.workspaces):
        try:
            if w.name in counting:
                check_counter(buffers[w.name])
        except InterpError as error:
            error.inside(("workspaces", i))
            raise
