"""Rules about a kernel's header (parameters, aliases, `where`, `requires`) and its expressions."""

from collections.abc import Iterator, Mapping

import sympy

from loopir.nodes import AtMost, Param, Workspace, Zeroed
from loopir.scope import launch_symbols
from loopir.symbols import (
    CeilDiv,
    Expr,
    FloorDiv,
    Max,
    Min,
    Mod,
    names_of,
    operands,
    sym,
    try_evaluate,
)
from loopir.types import Direction
from loopir.verifier.context import Context, Finding, NameKind
from loopir.walk import Path, expressions, grid_axes, symbol_names

_LARGEST = 2**63 - 1


def parameters_are_well_formed(ctx: Context) -> Iterator[Finding]:
    """Parameters and workspaces have one dimension or more, no negative size, and the contiguous
    dimension is one of them."""
    for i, workspace in enumerate(ctx.program.workspaces):
        yield from _shape_findings(ctx, ("workspaces", i), workspace)
    for i, param in enumerate(ctx.kernel.params):
        path = (*ctx.path, "params", i)
        yield from _shape_findings(ctx, path, param)
        if param.shape and not _is_dimension(param):
            message = f"`{param.name}` has no dimension {param.contiguous} to be contiguous"
            yield Finding(path, message, "contiguous")


def _shape_findings(ctx: Context, path: Path, buffer: Param | Workspace) -> Iterator[Finding]:
    if not buffer.shape:
        yield Finding(path, f"`{buffer.name}` has no dimension", buffer.name)
    if any((try_evaluate(e, ctx.sizes) or 0) < 0 for e in buffer.shape):
        yield Finding(path, f"`{buffer.name}` has a negative size", buffer.name)


def _is_dimension(param: Param) -> bool:
    return param.contiguous is None or 0 <= param.contiguous < len(param.shape)


def aliases_name_two_parameters(ctx: Context) -> Iterator[Finding]:
    """`alias(a, b)` names two different parameters."""
    params = {p.name for p in ctx.kernel.params}
    for i, alias in enumerate(ctx.kernel.aliases):
        path = (*ctx.path, "aliases", i)
        for name in sorted({alias.a, alias.b} - params):
            yield Finding(path, f"`{name}` is no parameter", name)
        if alias.a == alias.b:
            yield Finding(path, f"`{alias.a}` is aliased to itself", alias.a)


def bindings_use_earlier_names(ctx: Context) -> Iterator[Finding]:
    """A `where` binding uses bindings before it and launch symbols, nothing else."""
    earlier: set[str] = set()
    for i, binding in enumerate(ctx.kernel.where):
        for name in sorted(names_of(binding.expr) - earlier):
            if ctx.is_made(name):
                message = f"`{binding.name}` uses `{name}`, which is not bound before it"
                yield Finding((*ctx.path, "where", i), message, name)
        earlier.add(binding.name)


def constants_are_sound(ctx: Context) -> Iterator[Finding]:
    """A constant of `where` is not negative and fits 63 bits; a constant divisor is positive, but
    for statements below a grid that a size of zero leaves without blocks."""
    env: dict[str, int] = {}
    for i, binding in enumerate(ctx.kernel.where):
        value = try_evaluate(binding.expr, env)
        if value is not None and not 0 <= value <= _LARGEST:
            state = "negative" if value < 0 else "beyond 63 bits"
            yield Finding((*ctx.path, "where", i), f"`{binding.name}` is {state}", binding.name)
        elif value is not None:
            env[binding.name] = value
    for path, expr in _expressions(ctx):
        for divisor in sorted(_divisors(expr), key=str):
            value = try_evaluate(divisor, ctx.sizes)
            if value is not None and value < 1 and not _never_runs(ctx, path):
                yield Finding(path, f"a divisor is {value}; it must be positive", str(divisor))


def _never_runs(ctx: Context, path: Path) -> bool:
    """Whether `path` is below a root grid with no blocks."""
    root = (*ctx.path, "body", 0)
    axes = grid_axes(ctx.kernel.body[0]) if path[: len(root)] == root != path else ()
    sizes = dict(ctx.sizes)
    for sized in (*ctx.kernel.where, *ctx.kernel.requires):
        if not isinstance(sized, Zeroed) and _is_zero(sized.expr, sizes):
            sizes[sized.name] = 0
    return any(_is_zero(axis.extent, sizes) for axis in axes)


def _is_zero(expr: Expr, sizes: Mapping[str, int]) -> bool:
    """Whether an expression is zero whatever the sizes that are open are."""
    if (value := try_evaluate(expr, sizes)) is not None:
        return value == 0
    parts = [_is_zero(part, sizes) for part in operands(expr)]
    match expr:
        case sympy.Mul():
            return any(parts)
        case Min() if expr.is_nonnegative:
            return any(parts)
        case FloorDiv() | CeilDiv() | Mod():
            return parts[0]
    return False


def _divisors(expr: Expr) -> set[Expr]:
    return {d.args[1] for d in expr.atoms(FloorDiv, Mod, CeilDiv)}  # pyright: ignore


def _expressions(ctx: Context) -> Iterator[tuple[Path, Expr]]:
    """Every index expression of the kernel, each with the path of what holds it."""
    for field in ("params", "where", "requires"):
        for i, holder in enumerate(getattr(ctx.kernel, field)):
            yield from (((*ctx.path, field, i), e) for e in expressions(holder))
    for i, workspace in enumerate(ctx.program.workspaces):
        yield from ((("workspaces", i), e) for e in expressions(workspace))
    for site in ctx.sites:
        yield from ((site.path, e) for e in expressions(site.stmt))


_INTEGER = (sympy.Integer, sympy.Add, sympy.Mul, FloorDiv, Mod, CeilDiv, Min, Max)


def expressions_are_integer(ctx: Context) -> Iterator[Finding]:
    """An index expression is made of integers, symbols, + - * // % ceildiv min max, and no more."""
    for path, expr in _expressions(ctx):
        for part in sympy.preorder_traversal(expr):
            if not _is_integer_arithmetic(part):
                yield Finding(path, f"`{part}` is no integer arithmetic")


def _is_integer_arithmetic(part: sympy.Basic) -> bool:
    match part:
        case sympy.Symbol():
            return part == sym(part.name)
        case sympy.Pow():
            return bool(part.exp.is_Integer and part.exp > 0)
    return isinstance(part, _INTEGER)


def requirements_name_what_they_need(ctx: Context) -> Iterator[Finding]:
    """`zeroed` names an out parameter or a workspace; `at_most` bounds a launch symbol by names of
    the header."""
    outputs = {p.name for p in ctx.kernel.params if p.direction is Direction.OUT}
    outputs |= {w.name for w in ctx.program.workspaces}
    chosen = launch_symbols(ctx.kernel)
    for i, need in enumerate(ctx.kernel.requires):
        path = (*ctx.path, "requires", i)
        if isinstance(need, Zeroed) and need.buffer not in outputs:
            yield Finding(path, f"`{need.buffer}` is no out parameter or workspace", need.buffer)
        if isinstance(need, AtMost):
            if need.name not in chosen:
                yield Finding(path, f"`{need.name}` is no launch symbol", need.name)
            yield from _bound_findings(ctx, path, need)


def _bound_findings(ctx: Context, path: Path, need: AtMost) -> Iterator[Finding]:
    for name in sorted(symbol_names(need)):
        seen = ctx.visible(name, path)
        is_header_name = seen is not None and seen.kind is NameKind.SCALAR
        if name == need.name or (ctx.is_made(name) and not is_header_name):
            yield Finding(path, f"`{need.name}` cannot be bounded by `{name}`", name)
