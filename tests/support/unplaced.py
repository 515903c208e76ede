"""The way back from a canonical program: parallel loops in the place of its grid, local tiles in
the place of placed ones. And the nest in one block, which says what its iterations do in order.
"""

from dataclasses import replace

from loopir.nodes import Alloc, Barrier, Body, For, Grid, GridAxis, Kernel, Load, Program, Stmt
from loopir.symbols import to_expr
from loopir.types import ForKind, Space
from loopir.walk import grid_band, map_bodies


def with_parallel_loops(program: Program) -> Program:
    """`program` with its grids as parallel loops, one for each axis."""
    return _with_roots(program, lambda axes, body: _loops(axes, body, ForKind.PARALLEL))


def in_one_block(program: Program) -> Program:
    """`program` with its grids as loops of one block, which runs all iterations in order."""
    return _with_roots(program, _one_block)


def _with_roots(program: Program, made) -> Program:
    def changed(kernel: Kernel) -> Kernel:
        (root,) = kernel.body
        if not isinstance(root, Grid):
            return kernel
        grids = [grid for _, grid in grid_band(root, ())]
        axes = tuple(axis for grid in grids for axis in grid.axes)
        return replace(kernel, body=made(axes, grids[-1].body))

    return replace(program, kernels=tuple(map(changed, program.kernels)))


def _one_block(axes: tuple[GridAxis, ...], body: Body) -> Body:
    loops = _loops(axes, body, ForKind.SEQUENTIAL)
    return (Grid((GridAxis("the_one", to_expr(1)),), loops),)


def _loops(axes: tuple[GridAxis, ...], body: Body, kind: ForKind) -> Body:
    for axis in reversed(axes):
        body = (For(axis.iv, to_expr(0), axis.extent, to_expr(1), body, kind),)
    return body


def with_local_tiles(program: Program) -> Program:
    """`program` with all its tiles local, and without the barriers that order shared ones."""
    kernels = (replace(k, body=_local(k.body)) for k in program.kernels)
    return replace(program, kernels=tuple(kernels))


def _local(body: Body) -> Body:
    kept = (stmt for stmt in body if not isinstance(stmt, Barrier))
    return tuple(map_bodies(_unplaced(stmt), _local) for stmt in kept)


def _unplaced(stmt: Stmt) -> Stmt:
    match stmt:
        case Alloc():
            return replace(stmt, space=Space.LOCAL)
        case Load():
            return replace(stmt, cooperative=False)
    return stmt
