"""Rules that make the label of a `reduce` true: inside it, acc = op(acc, f) and nothing else."""

from collections.abc import Iterator

from loopir.effects import (
    buffers_read,
    buffers_written,
    condition_of,
    flags_of,
    scalars_read,
    tile_refs,
    tiles_read,
    tiles_written,
)
from loopir.nodes import Apply, Arrive, Dot, Ewise, Ewise_, For, Let, Reduce, Set, Stmt, TileRef
from loopir.symbols import try_evaluate
from loopir.types import ForKind, ReduceOp, Space
from loopir.verifier.context import Context, Finding, Site
from loopir.walk import symbol_names

_UNRESTRICTED = (ReduceOp.SCAN, ReduceOp.ARGMAX)


def reductions_are_one_panel_loop(ctx: Context) -> Iterator[Finding]:
    """A `reduce` has one accumulator or more, holds one sequential `for` with step 1 and nothing
    else, and stands in no other `reduce`."""
    for site, stmt in _reduces(ctx):
        if not stmt.accumulators:
            yield Finding(site.path, "a reduce needs an accumulator", "reduce")
        if len(stmt.body) != 1 or not _is_panel_loop(ctx, stmt.body[0]):
            yield Finding(site.path, "a reduce holds one sequential loop with step 1", "reduce")
        if any(isinstance(s.stmt, Reduce) for s in site.around):
            yield Finding(site.path, "a reduce inside a reduce", "reduce")


def _reduces(ctx: Context) -> Iterator[tuple[Site, Reduce]]:
    for site in ctx.sites:
        if isinstance(site.stmt, Reduce):
            yield site, site.stmt


def _is_panel_loop(ctx: Context, stmt: Stmt) -> bool:
    if not isinstance(stmt, For) or stmt.kind is not ForKind.SEQUENTIAL:
        return False
    return try_evaluate(stmt.step, ctx.sizes) == 1


def accumulators_are_ready(ctx: Context) -> Iterator[Finding]:
    """An accumulator is named once, is a local or register tile or a fragment, and something has
    written it before the `reduce`."""
    for site, stmt in _reduces(ctx):
        names = [a.tile for a in stmt.accumulators]
        for i, name in enumerate(names):
            if name in names[:i]:
                yield Finding(site.path, f"accumulator `{name}` is named twice", name)
            elif name in ctx.allocs:
                yield from _accumulator_findings(ctx, site, name)


def _accumulator_findings(ctx: Context, site: Site, name: str) -> Iterator[Finding]:
    if ctx.allocs[name].space is Space.SHARED:
        yield Finding(site.path, f"accumulator `{name}` is shared, not register or fragment", name)
    before = ctx.sites[: ctx.sites.index(site)]
    if not any(name in tiles_written(s.stmt) for s in before):
        yield Finding(site.path, f"nothing has written accumulator `{name}` before", name)


def accumulators_change_by_their_operator(ctx: Context) -> Iterator[Finding]:
    """Inside a `reduce` an accumulator occurs only in acc = op(acc, f), f and the conditions around
    it independent of every accumulator; a `dot` is an add. SCAN and ARGMAX are free of this."""
    for site, stmt in _reduces(ctx):
        inside = [s for s in ctx.sites if site in s.around]
        tainted = _tainted({a.tile for a in stmt.accumulators}, inside, len(site.around))
        ops = {a.tile: a.op for a in stmt.accumulators}
        for inner in inside:
            yield from _update_findings(inner, ops, tainted, len(site.around))


def _tainted(names: set[str], inside: list[Site], depth: int) -> set[str]:
    """`names` and every tile, scalar, flag and buffer that is computed from them inside."""
    size = -1
    while size != len(names):
        size = len(names)
        for site in inside:
            if (_read(site.stmt) | _heads(site, depth)) & names:
                names = names | _made(site.stmt)
    return names


def _heads(site: Site, depth: int) -> set[str]:
    """What the conditions and bounds around a statement read, those inside the reduce."""
    return set().union(*(_read(s.stmt) for s in site.around[depth + 1 :]))


def _read(stmt: Stmt) -> set[str]:
    cond = condition_of(stmt)
    flags = flags_of(cond) if cond else ()
    return {*tiles_read(stmt), *buffers_read(stmt), *scalars_read(stmt), *flags}


def _made(stmt: Stmt) -> set[str]:
    match stmt:
        case Let(name) | Set(name) | For(name) | Arrive(name):
            return {name, *buffers_written(stmt)}
    return {*tiles_written(stmt), *buffers_written(stmt)}


def _update_findings(
    site: Site, ops: dict[str, ReduceOp], tainted: set[str], depth: int
) -> Iterator[Finding]:
    written, read = tiles_written(site.stmt), tiles_read(site.stmt)
    if any(ops.get(t) in _UNRESTRICTED for t in written):
        return
    for name in sorted((written | read) & ops.keys()):
        if ops[name] in _UNRESTRICTED:
            continue
        operand = _operand(site.stmt, name, ops[name])
        if operand is None:
            message = f"`{name}` changes and is read only by {_form(name, ops[name])}"
            yield Finding(site.path, message, name)
        elif found := sorted((operand | _heads(site, depth)) & tainted):
            message = f"what `{name}` takes in depends on an accumulator, through `{found[0]}`"
            yield Finding(site.path, message, found[0] if found[0] in operand else name)


def _form(name: str, op: ReduceOp) -> str:
    sign = {ReduceOp.ADD: "+", ReduceOp.SUB: "-", ReduceOp.MUL: "*"}.get(op)
    form = f"{name} {sign} f" if sign else f"{op.value}({name}, f)"
    return f"`{name} = {form}`, as its label says; label it `scan` if it must change otherwise"


def _operand(stmt: Stmt, name: str, op: ReduceOp) -> set[str] | None:
    """What f reads, if `stmt` is name = op(name, f); else None."""
    match stmt:
        case Dot(acc, a, b) if acc == name and op is ReduceOp.ADD:
            return {a, b}
        case Ewise(tile, Apply(fn, (left, right))) if tile == name and fn == op.value:
            operand = _other_operand(name, left, right, op)
            return None if operand is None else {*tile_refs(operand), *symbol_names(operand)}
    return None


def _other_operand(name: str, left: Ewise_, right: Ewise_, op: ReduceOp) -> Ewise_ | None:
    if left == TileRef(name):
        return right
    if right == TileRef(name) and op is not ReduceOp.SUB:
        return left
    return None
