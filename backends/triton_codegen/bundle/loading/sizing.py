"""The numbers of a launch: sizes, blocks, room, and the variant that suits its tensors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backends.triton_codegen.bundle.loading.checks import at_least
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.expressions import Sizes
from backends.triton_codegen.bundle.loading.model import (
    MOST_BLOCKS,
    Condition,
    Kernel,
    Program,
    Value,
    Variant,
)


@dataclass(frozen=True)
class PlannedPart:
    """Where a part of the workspace lies in its region, in bytes."""

    name: str
    region: str
    offset: int
    bytes: int


@dataclass(frozen=True)
class Room:
    """What a launch needs beside its tensors, in bytes."""

    counter_bytes: int
    tile_bytes: int
    parts: tuple[PlannedPart, ...]


def picks(program: Program) -> list[Value]:
    """The values that the host picks."""
    return [v for v in program.values if v.kind == "picked"]


def measured(program: Program) -> list[str]:
    """The values that are read off a tensor."""
    values = (*program.values, *program.launch_values)
    return [v.name for v in values if v.expression and _is_extent(v.expression.tree)]


def _is_extent(tree: Any) -> bool:
    return type(tree) is tuple and tree[0] == "extent"


def add_values(
    program: Program, sizes: Sizes, options: Mapping[str, Any], sms: Callable[[], int]
) -> None:
    """Computes `values`, in order, but those that `sizes` has. LaunchError: an option that is
    missing or no size. `sms`: a function, since few programs ask."""
    for value in program.values:
        if value.name not in sizes.values:
            sizes.values[value.name] = _value(value, sizes, options, sms)


def _value(value: Value, sizes: Sizes, options: Mapping[str, Any], sms: Callable[[], int]) -> int:
    if value.kind == "given":
        if value.option not in options:
            raise LaunchError(f"{value.option}: no size is given")
        return at_least(0, value.option, options[value.option])
    assert value.expression is not None
    most = sizes.of(value.expression)
    if value.kind == "computed":
        return most
    each = at_least(1, "blocks_per_sm", options.get("blocks_per_sm", 1))
    asked = options.get(value.option)
    limit = most if asked is None else at_least(1, value.option, asked)
    return min(each * sms(), most, limit)


def block_counts(program: Program, sizes: Sizes) -> list[int]:
    """Blocks of each kernel; LaunchError: more than a grid can have."""
    counts = [sizes.of(k.blocks) for k in program.kernels]
    for kernel, count in zip(program.kernels, counts, strict=True):
        if count > MOST_BLOCKS:
            limit = f"fewer than {MOST_BLOCKS + 1:,} blocks"
            raise LaunchError(f"@{kernel.name}: expected {limit}, got {count}")
    return counts


def room(program: Program, counts: list[int], sizes: Sizes) -> Room:
    """What a launch of so many blocks needs; none without a block. Also computes `launch_values`.
    LaunchError: a part of negative size."""
    if all(count <= 0 for count in counts):
        return Room(0, 0, ())
    for value in program.launch_values:
        assert value.expression is not None
        sizes.values[value.name] = sizes.of(value.expression)
    layout = program.workspace
    parts = tuple(
        PlannedPart(p.name, p.region, sizes.of(p.offset), sizes.of(p.bytes)) for p in layout.parts
    )
    for part in parts:
        if part.bytes < 0 or part.offset < 0:
            raise LaunchError(f"{part.name}: expected at least 0 bytes, got {part.bytes}")
    return Room(sizes.of(layout.counter_bytes), sizes.of(layout.tile_bytes), parts)


def variant_for(kernel: Kernel, target: str, sizes: Sizes) -> Variant:
    """The first variant for the target whose conditions the tensors meet."""
    build = next(b for b in kernel.builds if b.target == target)
    return next(v for v in build.variants if all(_holds(c, sizes) for c in v.conditions))


def _holds(condition: Condition, sizes: Sizes) -> bool:
    value = sizes.of(condition.expression)
    return condition.least <= value <= condition.most and value % condition.multiple_of == 0
