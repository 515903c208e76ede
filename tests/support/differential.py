"""A program before and after passes, on the interpreter, with the same inputs."""

from collections.abc import Mapping
from random import Random

import numpy as np

from loopir.errors import LoopIRError
from loopir.interp import Seeded, WorkspaceMemory, random_inputs, run
from loopir.nodes import Program
from loopir.printer import to_text
from loopir.scope import launch_symbols
from passes.base import Pass
from passes.decomposition import Bounds
from passes.stream_k import Merge, StreamKPass
from passes.stream_k.atomics import ATOMIC_ADD
from passes.tile_order import TileOrderPass
from tests.support.interp import same_bits
from tests.support.legal_programs import Case

Arrays = dict[str, np.ndarray]


def random_stream_k(rng: Random, case: Case) -> StreamKPass:
    """Options that mostly fit the program."""
    style = rng.choice(("units", "units", "units", "splits", "launch"))
    divisors = [s for s in range(1, case.panels + 1) if case.panels % s == 0]
    return StreamKPass(
        merge=rng.choice(list(Merge)),
        units=rng.randint(1, 24) if style == "units" else None,
        splits=rng.choice(divisors) if style == "splits" else None,
        bounds=rng.choice(list(Bounds)),
        launch_constants=bool(case.sizes) or style == "launch",
        deterministic=rng.random() < 0.02,
        target=rng.choice(list(ATOMIC_ADD)),
    )


def random_tile_order(rng: Random, program: Program) -> tuple[TileOrderPass, ...]:
    """The pass, if it applies to the program."""
    options = ({"group": rng.randint(1, 3)}, {"order": "along_m"}, {"order": "along_n"})
    made = TileOrderPass(**rng.choice(options))
    return (made,) if made.can_be_applied(program) else ()


def difference(
    before: Program, after: Program, sizes: Mapping[str, int], seed: int, schedules: int = 1
) -> str:
    """How the results differ, under that many schedules, or nothing.

    Outputs start poisoned. Parameters that are declared aliases, and look alike, share storage.
    InterpError: of `before`, which has no result then.
    """
    expected = inputs(before, sizes, seed)
    run(before, expected, known(before, sizes), seed=seed)
    for schedule in range(seed, seed + schedules):
        found = _difference(before, after, sizes, expected, seed, schedule)
        if found:
            return f"{found}, schedule {schedule}"
    return ""


def _difference(
    before: Program,
    after: Program,
    sizes: Mapping[str, int],
    expected: Arrays,
    seed: int,
    schedule: int,
) -> str:
    rng, workspace = Random(schedule), WorkspaceMemory()
    units = {"UNITS": rng.randint(1, 24)}
    given = known(after, {**sizes, **units})
    try:
        if after.workspaces:
            run(after, inputs(before, sizes, seed + 1), given, seed=schedule, workspace=workspace)
        arrays = inputs(before, sizes, seed)
        resident = rng.choice((None, 1, 3))
        run(after, arrays, given, schedule=Seeded(schedule), workspace=workspace, resident=resident)
    except LoopIRError as error:
        return f"{type(error).__name__}: {error}"
    differing = [name for name in expected if not same_bits(expected[name], arrays[name])]
    return f"{', '.join(differing)} differ" if differing else ""


def inputs(program: Program, sizes: Mapping[str, int], seed: int) -> Arrays:
    arrays = random_inputs(program, seed, sizes=known(program, sizes))
    for alias in program.kernels[0].aliases:
        a, b = arrays[alias.a], arrays[alias.b]
        if (a.dtype, a.shape) == (b.dtype, b.shape):
            arrays[alias.b] = a
    return arrays


def known(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a program asks for."""
    asked = {n for kernel in program.kernels for n in launch_symbols(kernel)}
    return {name: value for name, value in sizes.items() if name in asked}


def reproducer(program: Program, seed: int, passes: tuple[Pass, ...], found: str) -> str:
    """A `.lir` text that says what it shows."""
    pipeline = ",".join(map(str, passes))
    comment = "".join(f"# {line}\n" for line in (f"seed {seed}, {pipeline}", *found.splitlines()))
    return comment + to_text(program)
