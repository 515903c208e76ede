"""What the names of a kernel stand for: constants of its `where` clause, launch-time symbols,
tiles, buffers."""

from collections.abc import Mapping
from dataclasses import replace

from loopir.nodes import Alloc, Binding, Kernel, Param, Program, Workspace
from loopir.symbols import Expr, names_of, substitute, to_expr, try_evaluate
from loopir.walk import expressions, walk

#: bindings that square each other would otherwise run out of memory
_LIMIT = 2**63


def constants(kernel: Kernel) -> dict[str, int]:
    """The `where` names that have a compile-time value of at most 63 bits, each with it."""
    env: dict[str, int] = {}
    for binding in kernel.where:
        value = try_evaluate(binding.expr, env)
        if value is not None and abs(value) < _LIMIT:
            env[binding.name] = value
    return env


def spelled(kernel: Kernel) -> dict[str, Expr]:
    """Each name of the `where` clause as an expression of launch symbols and numbers."""
    found: dict[str, Expr] = {}
    for binding in kernel.where:
        found[binding.name] = substitute(binding.expr, found)
    return found


def resized(program: Program, sizes: Mapping[str, int]) -> Program:
    """`program` with another value for each named constant that a `where` clause binds to a number;
    names bound to expressions, and open ones, stay."""

    def rebound(binding: Binding) -> Binding:
        if binding.name not in sizes or not binding.expr.is_Integer:
            return binding
        return replace(binding, expr=to_expr(sizes[binding.name]))

    kernels = (replace(k, where=tuple(map(rebound, k.where))) for k in program.kernels)
    return replace(program, kernels=tuple(kernels))


def launch_symbols(kernel: Kernel) -> tuple[str, ...]:
    """Symbols that nothing binds: launch-time arguments, sorted by name. Parameters' shapes give
    most of them."""
    bound = {b.name for b in kernel.where}
    used: set[str] = set()
    for holder in (*kernel.params, *kernel.where, *kernel.requires):
        used |= {n for e in expressions(holder) for n in names_of(e)}
    for _, stmt in walk(kernel.body):
        bound |= _binds(stmt)
        used |= {n for e in expressions(stmt) for n in names_of(e)}
    return tuple(sorted(used - bound))


def _binds(stmt) -> set[str]:
    names = {v for f in ("name", "iv", "flag") if isinstance(v := getattr(stmt, f, None), str)}
    names |= {axis.iv for axis in getattr(stmt, "axes", ())}
    for access in (getattr(stmt, "source", None), getattr(stmt, "target", None)):
        names |= {a.name for a in access.axes} if access else set()
    return names


def buffers(program: Program, kernel: Kernel) -> dict[str, Param | Workspace]:
    """Parameters and workspaces by name."""
    return {b.name: b for b in (*program.workspaces, *kernel.params)}


def allocs(kernel: Kernel) -> dict[str, Alloc]:
    """The tiles by name; every tile is made by an `alloc`."""
    return {s.name: s for _, s in walk(kernel.body) if isinstance(s, Alloc)}
