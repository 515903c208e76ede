"""Wave loops become whole-tile operations: Triton cannot slice a tile, and shares one among the
warps by itself.

Before:
    wave w in 0 .. 4 {
      alloc x: register f32[WM, BN]
      load x, X[ti * BM + w * WM +: WM, tj * BN +: BN] masked
      store Y[ti * BM + w * WM +: WM, tj * BN +: BN], x masked
    }
After:
    alloc x: register f32[4 * WM, BN]
    load x, X[ti * BM +: 4 * WM, tj * BN +: BN] masked
    store Y[ti * BM +: 4 * WM, tj * BN +: BN], x masked
"""

from dataclasses import dataclass, replace
from typing import Any

from backends.triton_codegen.wave_axes import Splits, tile_splits
from backends.triton_codegen.wave_loop import Wave
from backends.triton_codegen.wave_order import check_order
from loopir.effects import access_of, buffers_read, buffers_written
from loopir.nodes import Access, Alloc, Atomic, Barrier, Body, Let, Load, Program, Stmt, Store
from loopir.symbols import substitute, to_expr
from loopir.walk import Path, is_wave_loop, map_bodies, substitute_node, walk_program


def collapse_waves(program: Program) -> Program:
    """A verified program without wave loops that computes the same values, by the same operations
    on each element.

    Each tile that the waves of a loop hold parts of, side by side and in order along one axis, is
    made whole; a tile that is the same in every wave stays as it is; loops of one turn dissolve.
    CodegenError: any other wave loop, shown in the IR.
    """
    result = program
    # From the last to the first, inner ones before outer ones: paths of those to come stay valid.
    for path, stmt in reversed([*walk_program(program)]):
        if is_wave_loop(stmt):
            result = _spliced(result, path, _whole(Wave(result, program, path)))
    return result


def _whole(wave: Wave) -> Body:
    if wave.turns == 0:
        wave.refuse((), "it runs no wave", wave.loop.iv)
    return _in_order(_widened(wave), _exchanged(wave))


def _widened(wave: Wave) -> Body:
    if wave.turns == 1:
        return substitute_node(wave.loop.body, {wave.loop.iv: to_expr(0)})
    wave.check_control()
    splits = tile_splits(wave)
    check_order(wave, splits)
    return _Widening(wave, splits).body(wave.loop.body)


def _exchanged(wave: Wave) -> frozenset[str]:
    """Buffers that a wave both loads and writes."""
    written = {b for _, s in wave.statements for b in buffers_written(s)}
    loads = (s for _, s in wave.statements if not isinstance(s, Atomic))
    return frozenset(b for s in loads for b in buffers_read(s) if b in written)


def _in_order(body: Body, exchanged: frozenset[str]) -> Body:
    """`body` with a barrier before each access to one of the buffers: a wave sees its own earlier
    stores, a block only those before a barrier."""

    def ordered(stmt: Stmt) -> Body:
        access = access_of(stmt)
        before = (Barrier(),) if access and access.buffer in exchanged else ()
        return (*before, map_bodies(stmt, lambda nested: _in_order(nested, exchanged)))

    return tuple(new for stmt in body for new in ordered(stmt))


@dataclass(frozen=True)
class _Widening:
    """Writes the statements of a wave loop as whole-tile ones."""

    wave: Wave
    splits: Splits

    def body(self, body: Body) -> Body:
        return tuple(self._statement(stmt) for stmt in body if not self._is_inlined(stmt))

    def _is_inlined(self, stmt: Stmt) -> bool:
        return isinstance(stmt, Let) and stmt.name in self.wave.moved

    def _statement(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Alloc(name) if (axis := self.splits[name]) is not None:
                shape = _changed(stmt.shape, axis, self.wave.turns * stmt.shape[axis])
                return replace(stmt, shape=shape)
            case Load():
                return replace(stmt, source=self._access(stmt))
            case Store() | Atomic():
                return replace(stmt, target=self._access(stmt))
        return map_bodies(stmt, self.body)

    def _access(self, stmt: Load | Store | Atomic) -> Access:
        access, axis = self.wave.access(stmt), self.splits[stmt.tile]
        assert access is not None
        if axis is None:
            return access
        part = access.axes[axis]
        start = substitute(part.start, {self.wave.loop.iv: to_expr(0)})
        whole = replace(part, start=start, size=self.wave.turns * part.size)
        return replace(access, axes=_changed(access.axes, axis, whole))


def _changed(items: tuple, position: int, value: Any) -> tuple:
    return (*items[:position], value, *items[position + 1 :])


def _spliced(node: Any, path: Path, body: Body) -> Any:
    """`node` with the statement at `path` replaced by the statements of `body`."""
    step, *rest = path
    if isinstance(step, str):
        return replace(node, **{step: _spliced(getattr(node, step), tuple(rest), body)})
    if not rest:
        return (*node[:step], *body, *node[step + 1 :])
    return _changed(node, step, _spliced(node[step], tuple(rest), body))
