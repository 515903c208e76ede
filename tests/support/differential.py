"""A program before and after passes, on the interpreter, with the same inputs."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from loopir.errors import LoopIRError
from loopir.interp import Seeded, WorkspaceMemory, random_inputs, run
from loopir.nodes import Program
from loopir.printer import to_text
from loopir.scope import launch_symbols
from passes.base import Pass
from passes.decomposition import Bounds, Direction, HybridKind, SlotOrder
from passes.stream_k import Decomposition, Merge, Part, StreamKPass
from passes.stream_k.atomics import ATOMIC_ADD
from passes.tile_order import TileOrderPass
from tests.support.interp import same_bits
from tests.support.legal_programs import Case

Arrays = dict[str, np.ndarray]


#: how a random schedule is asked for; "launch" leaves the count of units to the launcher
STYLES = (
    "units",
    "units",
    "splits",
    "launch",
    "split-k",
    "hybrid",
    "hybrid",
    "k-aligned",
    "data-parallel",
)


def random_schedule(rng: Random, panels: int, style: str) -> dict[str, Any]:
    """The options of a schedule that fits a program with so many panels, known or not."""
    ranges: dict[str, Any] = {
        "bounds": rng.choice(list(Bounds)),
        "direction": rng.choice(list(Direction)),
        "min_panels": rng.choice((1, 1, 1, 2, 3)),
    }
    slices = {"slot_order": rng.choice(list(SlotOrder))}
    permuted = {"permuted": rng.random() < 0.25}
    match style:
        case "units":
            return {"units": rng.randint(1, 24), **ranges, **permuted}
        case "launch":
            return ranges | ({"min_panels": 1} if ranges["bounds"] is Bounds.CEIL else {})
        case "splits":
            divisors = [s for s in range(1, panels + 1) if panels % s == 0]
            return {"splits": rng.choice(divisors), **slices, **permuted}
        case "split-k":
            splits = {"splits": rng.randint(1, panels + 1)}
            return {"decomposition": Decomposition.SPLIT_K, **splits, **slices, **permuted}
        case "hybrid":
            parts = {"tail": rng.choice(list(HybridKind)), "first": rng.choice(list(Part))}
            units = {"decomposition": Decomposition.HYBRID, "units": rng.randint(2, 6)}
            return {**units, **parts, **ranges, **permuted}
        case "k-aligned":
            parts = {"cost": rng.choice((0, 0, 0, 1)), "min_panels": ranges["min_panels"]}
            units = {"decomposition": Decomposition.K_ALIGNED, "units": rng.randint(2, 14)}
            return {**units, **parts, **permuted}
        case "data-parallel":
            units = {"units": rng.choice((None, *range(1, 10)))}
            return {"decomposition": Decomposition.DATA_PARALLEL, **units, **permuted}
    raise ValueError(style)


def random_stream_k(rng: Random, case: Case) -> StreamKPass:
    """Options that mostly fit the program."""
    style = rng.choice(STYLES)
    made = StreamKPass(
        merge=rng.choice(list(Merge)),
        **random_schedule(rng, case.panels, style),
        launch_constants=bool(case.sizes) or style == "launch",
        deterministic=rng.random() < 0.02,
        target=rng.choice(list(ATOMIC_ADD)),
    )
    is_fixup = made.merge is Merge.FIXUP
    return replace(made, pieces=rng.choice((None, 2, 2, 4))) if is_fixup else made


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
            first = with_order(after, inputs(before, sizes, seed + 1), given, schedule)
            run(after, first, given, seed=schedule, workspace=workspace)
        arrays = with_order(after, inputs(before, sizes, seed), given, schedule)
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


def with_order(after: Program, arrays: Arrays, sizes: Mapping[str, int], seed: int) -> Arrays:
    """`arrays`, and a permutation for the parameter that a permuted schedule adds."""
    added = {p.name for p in after.kernels[0].params} - arrays.keys()
    made = random_inputs(after, seed, sizes=sizes) if added else {}
    return arrays | {name: made[name] for name in added}


def known(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a program asks for."""
    asked = {n for kernel in program.kernels for n in launch_symbols(kernel)}
    return {name: value for name, value in sizes.items() if name in asked}


def reproducer(program: Program, seed: int, passes: tuple[Pass, ...], found: str) -> str:
    """A `.lir` text that says what it shows."""
    pipeline = ",".join(map(str, passes))
    comment = "".join(f"# {line}\n" for line in (f"seed {seed}, {pipeline}", *found.splitlines()))
    return comment + to_text(program)
