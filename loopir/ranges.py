"""Which values the scalars of a kernel can have; whether an access can leave its buffer.

A backend drops the compare of a mask that is shown to hold. `loopir.bounds` has the arithmetic.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

import sympy

from loopir.bounds import Env, Fact, bounds, interval, is_at_most, is_nonnegative, lower, upper
from loopir.intervals import UNKNOWN, Interval
from loopir.nodes import (
    Access,
    AllOf,
    AnyOf,
    AtMost,
    Body,
    Cmp,
    Cond,
    For,
    Grid,
    Grid1D,
    GridAxis,
    If,
    Kernel,
    Let,
    Negate,
    Set,
    Stmt,
    TileAxis,
    While,
)
from loopir.scope import launch_symbols
from loopir.symbols import Expr, names_of
from loopir.walk import Path, body_fields, grid_axes, walk

#: what is known before each statement, by its path inside the kernel: ("body", 0, "body", 3)
ScopedRanges: TypeAlias = Mapping[Path, Env]

_DEEPEST_SEARCH = 3
_ATTEMPTS = 3


def ranges(kernel: Kernel) -> ScopedRanges:
    """The facts that hold before each statement of a verified kernel."""
    changed = frozenset(s.name for _, s in walk(kernel.body) if isinstance(s, Set))
    scan = _Scan(changed)
    scan.body(kernel.body, ("body",), header_facts(kernel))
    return scan.before


def header_facts(kernel: Kernel) -> dict[str, Fact]:
    """What is known of the launch symbols and the `where` names by any block that runs."""
    env = {name: Fact(Interval(0)) for name in launch_symbols(kernel)}
    for stmt in kernel.body[:1]:
        env |= {n: Fact(Interval(1)) for n in _extent_symbols(stmt) if n in env}
    for binding in kernel.where:
        env[binding.name] = Fact(bounds(binding.expr, env), value=binding.expr)
    for need in kernel.requires:
        if isinstance(need, AtMost) and need.name in env:
            known = env[need.name].interval.meet(Interval(hi=upper(need.expr, env)))
            env[need.name] = Fact(known, limit=need.expr)
    return env


def _extent_symbols(stmt: Stmt) -> frozenset[str]:
    return frozenset(a.extent.name for a in grid_axes(stmt) if isinstance(a.extent, sympy.Symbol))


@dataclass
class _Scan:
    """One walk over a kernel: `before` collects the result, `assigned` the values that the `set`s
    of the current loop assign."""

    changed: frozenset[str]
    before: dict[Path, Env] = field(default_factory=dict)
    assigned: dict[str, Interval] = field(default_factory=dict)
    depth: int = 0

    def body(self, body: Body, path: Path, env: Env) -> None:
        for i, stmt in enumerate(body):
            self.before[(*path, i)] = env
            env = self.step(stmt, (*path, i), env)

    def step(self, stmt: Stmt, path: Path, env: Env) -> Env:
        """The facts after `stmt`."""
        match stmt:
            case Let(name, sympy.Expr() as expr):
                return {**env, name: self.fact(bounds(expr, env), value=expr)}
            case Let(name):
                return {**env, name: Fact()}
            case Set(name, expr):
                value = bounds(expr, env)
                self.assigned[name] = self.assigned.get(name, value).join(value)
                return {**env, name: Fact(value)}
        self.nested(stmt, path, env)
        names = _set_names(stmt) & env.keys()
        return {**env, **{n: Fact(env[n].interval.join(self.assigned[n])) for n in names}}

    def nested(self, stmt: Stmt, path: Path, env: Env) -> None:
        match stmt:
            case If(cond, then, orelse):
                self.body(then, (*path, "then"), self.assume(env, cond))
                self.body(orelse, (*path, "orelse"), self.assume(env, _negated(cond)))
            case While() | For():
                self.loop(stmt, path, env)
            case _:
                for name in body_fields(stmt):
                    self.body(getattr(stmt, name), (*path, name), self.inside(stmt, env))

    def loop(self, stmt: While | For, path: Path, env: Env) -> None:
        """Walk the body with bounds that hold at its head: those of the values before the loop,
        each given up when a `set` breaks it."""
        outer, self.assigned = self.assigned, {}
        self.depth += 1
        heads = {n: env[n].interval for n in _set_names(stmt) & env.keys()}
        for attempt in range(_ATTEMPTS + 1):
            if attempt == _ATTEMPTS or self.depth > _DEEPEST_SEARCH:
                heads = dict.fromkeys(heads, UNKNOWN)
            head = {**env, **{n: Fact(i) for n, i in heads.items()}}
            self.body(stmt.body, (*path, "body"), self.inside(stmt, head))
            wider = {n: _widened(i, self.assigned[n]) for n, i in heads.items()}
            if wider == heads:
                break
            heads, self.assigned = wider, {}
        self.depth -= 1
        inner, self.assigned = self.assigned, outer
        for name, value in inner.items():
            self.assigned[name] = self.assigned.get(name, value).join(value)

    def inside(self, stmt: Stmt, env: Env) -> Env:
        """The facts at the start of the body of a structured statement."""
        match stmt:
            case While(cond):
                return self.assume(env, cond)
            case For(iv, _, hi):
                return {**env, iv: self.fact(_loop_interval(stmt, env), limit=hi - 1)}
            case Grid() | Grid1D():
                return {**env, **{a.iv: self.fact(*_axis_fact(a, env)) for a in grid_axes(stmt)}}
        return env

    def fact(self, known: Interval, limit: Expr | None = None, value: Expr | None = None) -> Fact:
        return Fact(known, self.unchanging(limit), self.unchanging(value))

    def unchanging(self, expr: Expr | None) -> Expr | None:
        return None if expr is None or names_of(expr) & self.changed else expr

    def assume(self, env: Env, cond: Cond) -> Env:
        """`env`, sharpened by a condition that is true."""
        match cond:
            case AllOf(terms):
                for term in terms:
                    env = self.assume(env, term)
            case Negate(Cmp() | AnyOf() | Negate() as term):
                return self.assume(env, _negated(term))
            case Cmp(op, lhs, rhs):
                env = self.compared(env, lhs, op, rhs)
                env = self.compared(env, rhs, _MIRRORED[op], lhs)
        return env

    def compared(self, env: Env, scalar: Expr, op: str, other: Expr) -> Env:
        """`env`, given `scalar op other`."""
        if not (isinstance(scalar, sympy.Symbol) and scalar.name in env):
            return env
        old, known = env[scalar.name], Interval()
        slack = 1 if op in ("<", ">") else 0
        limit = old.limit
        if op in ("<", "<=", "=="):
            known = Interval(hi=upper(other, env) - slack)
            limit = limit if limit is not None else self.unchanging(other - slack)
        if op in (">", ">=", "=="):
            known = known.meet(Interval(lower(other, env) + slack))
        return {**env, scalar.name: Fact(old.interval.meet(known), limit, old.value)}


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def _negated(cond: Cond) -> Cond:
    match cond:
        case Cmp(op, lhs, rhs):
            return Cmp(_OPPOSITE[op], lhs, rhs)
        case AnyOf(terms):
            return AllOf(tuple(map(_negated, terms)))
        case Negate(term):
            return term
    return Negate(cond)


def _set_names(stmt: Stmt) -> frozenset[str]:
    return frozenset(s.name for _, s in walk((stmt,)) if isinstance(s, Set))


def _widened(head: Interval, assigned: Interval) -> Interval:
    return Interval(
        head.lo if assigned.lo >= head.lo else -inf, head.hi if assigned.hi <= head.hi else inf
    )


def _loop_interval(loop: For, env: Env) -> Interval:
    """The values of a loop's variable inside its body."""
    first, last = bounds(loop.lo, env), bounds(loop.hi, env).hi - 1
    step = interval(loop.step, env)
    if first.is_constant and step.is_constant and first.lo <= last < inf:
        last -= (last - first.lo) % max(1, int(step.lo))
    return Interval(first.lo, last)


def _axis_fact(axis: GridAxis, env: Env) -> tuple[Interval, Expr]:
    return Interval(0, upper(axis.extent, env) - 1), axis.extent - 1


# --- accesses


def access_facts(access: Access, env: Env) -> Env:
    """`env` with the axes of an access, for the elements that take part in it."""
    axes = {}
    for axis in access.axes:
        end = axis.start + axis.size - 1
        known = Interval(bounds(axis.start, env).lo, interval(end, env).hi)
        if access.masked and axis.limit is not None:
            known = known.meet(Interval(hi=upper(axis.limit, env) - 1))
        axes[axis.name] = Fact(known, limit=end)
    return {**env, **axes}


def axis_is_in_bounds(axis: TileAxis, env: Env) -> bool:
    """Whether a tile axis stays below its own limit, so that the compare can be left out."""
    return axis.limit is None or is_at_most(axis.start + axis.size - axis.limit, 0, env)


def index_is_nonnegative(access: Access, dim: int, env: Env) -> bool:
    """Whether the index of dimension `dim` is never negative, the axes being below their limits."""
    return is_nonnegative(access.index[dim], access_facts(access, env))


def index_is_below(access: Access, dim: int, env: Env, extent: Expr) -> bool:
    """Whether the index of dimension `dim` is below `extent`, the axes being below their limits."""
    return is_at_most(access.index[dim] - extent, -1, access_facts(access, env))


def dimension_is_in_bounds(access: Access, dim: int, env: Env, extent: Expr) -> bool:
    """Whether a mask needs no compare for dimension `dim` of a buffer, `extent` elements long."""
    return index_is_nonnegative(access, dim, env) and index_is_below(access, dim, env, extent)
