"""A program as a manifest describes it, but for its binaries: parameters, workspace, kernels."""

from itertools import combinations
from typing import Literal

from backends.triton_codegen.bundle.loading.model import (
    PART_START,
    Parameter,
    Part,
    Settings,
    WorkspaceLayout,
)
from backends.triton_codegen.bundle.trees import expression
from backends.triton_codegen.headers import Header
from backends.triton_codegen.module import Module
from loopir.deps import alias_classes
from loopir.nodes import Atomic, Param, Program, Workspace
from loopir.symbols import Expr, ceildiv, to_expr
from loopir.types import Direction, DType, ReduceOp
from loopir.walk import walk_program
from loopir.workspaces import Parts, part_bytes


def parameter(param: Param) -> Parameter:
    """A tensor of a launch."""
    return Parameter(
        param.name,
        param.dtype.value,
        param.dtype.bytes,
        param.direction.value,
        tuple(map(expression, param.shape)),
        param.contiguous,
    )


def disjoint(header: Header) -> tuple[tuple[str, str], ...]:
    """Pairs of tensors that may not share a byte: those of which one is written, unless `alias`
    says that they may."""
    shared = alias_classes(header.kernel)
    return tuple(
        (b.name, a.name)
        for a, b in combinations(header.params, 2)
        if b.name not in shared[a.name] and not a.direction is b.direction is Direction.IN
    )


def workspace(parts: Parts) -> WorkspaceLayout:
    """Counters, then tiles, each part of a region behind the one before it."""
    counters, counter_bytes = _region("counters", parts.counters)
    tiles, tile_bytes = _region("tiles", parts.tiles)
    sizes = expression(counter_bytes), expression(tile_bytes)
    return WorkspaceLayout(PART_START, *sizes, (*counters, *tiles))


def _region(name: str, workspaces: tuple[Workspace, ...]) -> tuple[list[Part], Expr]:
    offset, found = to_expr(0), []
    for w in workspaces:
        size = part_bytes(w)
        place = expression(offset), expression(size)
        found.append(Part(w.name, w.dtype.value, name, *place))  # pyright: ignore
        offset = offset + PART_START * ceildiv(size, PART_START)
    return found, offset


def settings(module: Module) -> Settings:
    """How the module is compiled."""
    s = module.settings
    return Settings(s.num_warps, s.num_stages, s.fp_fusion, s.max_num_imprecise_acc, s.launch_pdl)


def determinism(program: Program) -> Literal["fixed", "arrival-order"]:
    """Whether the bits of a result may follow the order in which blocks arrive: float sums by
    atomic adds do."""
    dtypes = _dtypes(program)
    atomics = (s for _, s in walk_program(program) if isinstance(s, Atomic))
    sums = (dtypes[s.target.buffer] for s in atomics if s.op is ReduceOp.ADD)
    return "arrival-order" if any(dtype.is_float for dtype in sums) else "fixed"


def _dtypes(program: Program) -> dict[str, DType]:
    params = (p for k in program.kernels for p in k.params)
    return {b.name: b.dtype for b in (*params, *program.workspaces)}
