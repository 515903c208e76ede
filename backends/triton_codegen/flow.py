"""Questions about the order of statements that decide how they are emitted."""

import sympy

from loopir.bounds import Env, is_at_most
from loopir.deps import alias_classes
from loopir.effects import buffers_read, buffers_written, tiles_read, tiles_written
from loopir.nodes import (
    Apply,
    Atomic,
    AxisReduce,
    Body,
    Cast,
    Dot,
    Ewise,
    Ewise_,
    Expand,
    For,
    Kernel,
    Let,
    Mask,
    Param,
    Part,
    Program,
    Set,
    Stmt,
    While,
    Workspace,
)
from loopir.symbols import Expr, FloorDiv, Min, Mod, floordiv, names_of, operands, substitute
from loopir.types import ReduceOp, Via
from loopir.walk import body_fields, walk


def needs_initial_value(tile: str, rest: Body) -> bool:
    """Whether some read of `tile` in `rest`, the statements after its `alloc`, is not surely after
    a write.

    Triton gives a name that a loop or one branch makes no value outside it.
    """
    return _scan(tile, rest)[0]


def _scan(tile: str, body: Body) -> tuple[bool, bool]:
    """Whether `body` may read the tile before it sets it, and whether it surely sets it."""
    for stmt in body:
        nested = [_scan(tile, getattr(stmt, name)) for name in body_fields(stmt)]
        if tile in tiles_read(stmt) or any(reads for reads, _ in nested):
            return True, False
        if tile in tiles_written(stmt) or (_runs(stmt) and nested and all(s for _, s in nested)):
            return False, True
    return False, False


def _runs(stmt: Stmt) -> bool:
    return not isinstance(stmt, For | While)


def exchanged_buffers(kernel: Kernel) -> frozenset[str]:
    """Buffers that the kernel both writes and loads, or aliases of each other: only there can one
    thread of a block see another's store."""
    loads: set[str] = set()
    writes: set[str] = set()
    for _, stmt in walk(kernel.body):
        loads |= frozenset() if isinstance(stmt, Atomic) else buffers_read(stmt)
        writes |= buffers_written(stmt)
    classes = alias_classes(kernel)
    loads = loads.union(*(classes[b] for b in loads if b in classes))
    return frozenset(loads & writes)


def used_buffers(program: Program, kernel: Kernel) -> tuple[Param | Workspace, ...]:
    """The kernel's parameters, and the workspaces that a statement of it names."""
    statements = [s for _, s in walk(kernel.body)]
    used = {n for s in statements for n in buffers_read(s) | buffers_written(s)}
    return (*kernel.params, *(w for w in program.workspaces if w.name in used))


def pointed_buffers(kernel: Kernel) -> frozenset[str]:
    """Buffers that some statement reaches through pointers."""
    statements = [s for _, s in walk(kernel.body) if getattr(s, "via", None) is not Via.DESCRIPTOR]
    return frozenset().union(*(buffers_read(s) | buffers_written(s) for s in statements))


def writes_any(stmt: Stmt | Body, buffers: frozenset[str]) -> bool:
    body = stmt if isinstance(stmt, tuple) else (stmt,)
    return any(buffers_written(s) & buffers for _, s in walk(body))


def has_dot(body: Body) -> bool:
    return any(isinstance(s, Dot) for _, s in walk(body))


def carried_sums(body: Body) -> tuple[str, ...]:
    """The tiles that a loop over `body` may add sums or products along an axis to, in order: those
    that an ewise of it makes of what the turn before left, however many steps it takes."""
    ewises = [s for _, s in walk(body) if isinstance(s, Ewise)]
    if not any(_combines_an_axis(s.expr) for s in ewises):
        return ()
    return tuple(dict.fromkeys(s.tile for s in ewises if needs_initial_value(s.tile, body)))


def _combines_an_axis(expr: Ewise_) -> bool:
    match expr:
        case AxisReduce(op, arg):
            return op in (ReduceOp.ADD, ReduceOp.MUL) or _combines_an_axis(arg)
        case Cast(arg=arg) | Expand(arg=arg) | Mask(arg=arg) | Part(arg=arg):
            return _combines_an_axis(arg)
        case Apply(args=args):
            return any(map(_combines_an_axis, args))
    return False


def runs_at_least_once(loop: For, definitions: dict[str, Expr], env: Env) -> bool:
    """Whether `lo < hi` is certain, given what `env` knows and the current value of some
    scalars."""
    lo, hi = inlined(loop.lo, definitions), inlined(loop.hi, definitions)
    ends = operands(hi) if isinstance(hi, Min) else (hi,)
    return all(
        any(is_at_most(f, -1, env) for f in _forms(lo - end)) or _are_apart(lo, end, env)
        for end in ends
    )


def _are_apart(lo: Expr, end: Expr, env: Env) -> bool:
    """Whether lo is x // d and end is y // d, with y at least x + d, as of one slice in S."""
    if not (isinstance(lo, FloorDiv) and isinstance(end, FloorDiv)):
        return False
    (x, d), (y, e) = operands(lo), operands(end)
    return d == e and is_at_most(sympy.expand(d - (y - x)), 0, env)


def inlined(expr: Expr, definitions: dict[str, Expr]) -> Expr:
    """`expr` with scalars replaced by what they were last set to, as far as `definitions` goes."""
    while hit := names_of(expr) & definitions.keys():
        expr = substitute(expr, {n: definitions[n] for n in hit})
    return expr


def _forms(expr: Expr) -> tuple[Expr, Expr]:
    """`expr`, and the same with `a % b` as `a - b * (a // b)`."""
    remainders = {m: _without_mod(*m.args) for m in expr.atoms(Mod)}  # pyright: ignore
    return expr, sympy.expand(expr.xreplace(remainders))


def _without_mod(a: Expr, b: Expr) -> Expr:
    return a - b * floordiv(a, b)


def after_assignment(definitions: dict[str, Expr], name: str, expr: Expr | None) -> dict[str, Expr]:
    """`definitions` once `name` got the value `expr` (None: an unknown one)."""
    kept = {n: e for n, e in definitions.items() if n != name and name not in names_of(e)}
    is_usable = expr is not None and name not in names_of(expr)
    return {**kept, name: expr} if is_usable else kept  # pyright: ignore[reportReturnType]


def without(definitions: dict[str, Expr], body: Body) -> dict[str, Expr]:
    """The definitions that no assignment in `body` makes stale."""
    changed = {s.name for _, s in walk(body) if isinstance(s, Let | Set)}
    return {n: e for n, e in definitions.items() if not ({n} | names_of(e)) & changed}
