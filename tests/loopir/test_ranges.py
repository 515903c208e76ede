"""Ranges of scalars: sound against enumeration, strong enough to drop Stream-K's masks."""

import operator
import random
from collections.abc import Iterator
from math import inf

import pytest

from loopir.bounds import Fact, interval, is_at_most, is_nonnegative, lower, upper
from loopir.intervals import UNKNOWN, Interval
from loopir.nodes import (
    AllOf,
    AnyOf,
    Body,
    Cmp,
    Cond,
    For,
    Grid,
    GridAxis,
    If,
    Kernel,
    Let,
    Load,
    Negate,
    Set,
    Stmt,
    While,
)
from loopir.parser import parse, parse_expr
from loopir.ranges import (
    axis_is_in_bounds,
    dimension_is_in_bounds,
    index_is_below,
    index_is_nonnegative,
    ranges,
)
from loopir.scope import buffers
from loopir.symbols import Expr, ceildiv, evaluate, floordiv, imax, imin, mod, sym, to_expr
from loopir.walk import Path, node_at, walk
from tests.support.stream_k_texts import STREAM_K
from tests.support.texts import edited

EVEN = """\
    let it = unit * TOTAL // UNITS
    let it_end = (unit + 1) * TOTAL // UNITS
"""
CEIL = """\
    let q = ceildiv(TOTAL, UNITS)
    let it = unit * q
    let it_end = min((unit + 1) * q, TOTAL)
"""
BIG_UNITS = """\
    let q = TOTAL // UNITS
    let r = TOTAL % UNITS
    let it = unit * q + min(unit, r)
    let it_end = (unit + 1) * q + min(unit + 1, r)
"""
ALONG_N = """\
      let ti = tile // TN
      let tj = tile % TN
"""
ALONG_M = """\
      let ti = tile % TM
      let tj = tile // TM
"""
GROUPED = """\
      let group_start = tile // (4 * TN) * 4
      let group_rows = min(TM - group_start, 4)
      let in_group = tile % (4 * TN)
      let ti = group_start + in_group % group_rows
      let tj = in_group // group_rows
"""
UNBOUND = (",\n        UNITS = 132", ""), ("zeroed(C)", "zeroed(C), at_most(UNITS, TOTAL)")
LOOSE = ((",\n        UNITS = 132", ""),)


def kernel_of(text: str) -> Kernel:
    return parse(text).kernels[0]


def loads(kernel: Kernel) -> Iterator[tuple[Path, Load]]:
    return ((p, s) for p, s in walk(kernel.body, ("body",)) if isinstance(s, Load))


def unproven(text: str) -> set[str]:
    """The dimensions of loads whose mask the analysis cannot drop, such as A0."""
    program = parse(text)
    kernel = program.kernels[0]
    before, shapes = ranges(kernel), buffers(program, kernel)
    return {
        f"{load.source.buffer}{d}"
        for path, load in loads(kernel)
        for d, extent in enumerate(shapes[load.source.buffer].shape)
        if not dimension_is_in_bounds(load.source, d, before[path], extent)
    }


# --- what must be proven


@pytest.mark.parametrize("units", [(), UNBOUND, LOOSE], ids=["constant", "at_most", "unbound"])
@pytest.mark.parametrize(
    "order", [ALONG_N, ALONG_M, GROUPED], ids=["along_n", "along_m", "grouped"]
)
@pytest.mark.parametrize("bounds", [EVEN, CEIL, BIG_UNITS], ids=["even", "ceil", "big-units"])
def test_stream_k_needs_no_mask_where_tiles_divide_the_sizes(bounds, order, units):
    assert unproven(edited(STREAM_K, (EVEN, bounds), (ALONG_N, order), *units)) == set()


@pytest.mark.parametrize("bounds", [EVEN, CEIL, BIG_UNITS], ids=["even", "ceil", "big-units"])
@pytest.mark.parametrize(
    ("size", "kept"),
    [
        (("K = 4096", "K = 4095"), {"A1", "B0"}),
        (("M = 1536", "M = 1537"), {"A0"}),
        (("N = 1792", "N = 1791"), {"B1"}),
        (("BK = 64", "BK = 48"), {"A1", "B0"}),
    ],
)
def test_a_ragged_size_keeps_its_mask_and_no_other(bounds, size, kept):
    assert unproven(edited(STREAM_K, (EVEN, bounds), size)) == kept


@pytest.mark.parametrize(
    ("edit", "kept"),
    [
        (("(unit + 1) * TOTAL // UNITS", "(unit + 2) * TOTAL // UNITS"), {"A0"}),
        (("(unit + 1) * TOTAL // UNITS", "(unit + 1) * TOTAL // UNITS + 1"), {"A0"}),
        (("let k1 = min(it_end - tile * P, P)", "let k1 = it_end - tile * P"), {"A1", "B0"}),
        (("set it = tile * P + k1", "set it = it - 1"), {"A0"}),
    ],
)
def test_a_schedule_that_leaves_the_iteration_space_is_not_proven(edit, kept):
    assert kept <= unproven(edited(STREAM_K, edit))
    assert kept <= unproven(edited(STREAM_K, edit, *UNBOUND))


def test_grouped_order_keeps_rows_in_bounds_when_the_group_does_not_divide():
    ragged = edited(STREAM_K, ("M = 1536", "M = 1280"), (ALONG_N, GROUPED))
    assert "A0" not in unproven(ragged)


def test_a_compare_against_zero_is_dropped_under_symbolic_sizes():
    text = edited(STREAM_K, ("M = 1536, N = 1792, K = 4096, ", ""), *UNBOUND)
    kernel = kernel_of(text)
    before = ranges(kernel)
    for path, load in loads(kernel):
        assert all(index_is_nonnegative(load.source, d, before[path]) for d in (0, 1))
        assert not index_is_below(load.source, 0, before[path], kernel.params[0].shape[0])


GRID = """\
kernel @row(X: f32[B, K], out Y: f32[B, K])
    where K = 96, BK = 32 {
  grid (b, kp) in [B, ceildiv(K, BK)] {
    alloc x: register f32[1, BK]
    load x, X[b +: 1, kp * BK +: BK] masked
    store Y[b +: 1, kp * BK +: BK], x masked
  }
}
"""


def test_a_grid_axis_over_a_launch_time_extent_is_in_bounds():
    assert unproven(GRID) == set()
    assert unproven(edited(GRID, ("load x, X[b +: 1", "load x, X[b + 1 +: 1"))) == {"X0"}
    assert unproven(edited(GRID, ("load x, X[b +: 1", "load x, X[b - 1 +: 1"))) == {"X0"}


CONV = """\
kernel @conv(X: f32[H, C], out Y: f32[H])
    where H = 64, C = 24, BM = 16, BK = 8 {
  grid (ti) in [4] {
    alloc x: register f32[BM, BK]
    for kp in 0 .. 9 {
      load x, X[m + k // C - 1, k % C] over (m = ti * BM +: BM < H,
          k = kp * BK +: BK < 3 * C) masked
    }
  }
}
"""


def test_padding_keeps_its_row_mask_and_channels_need_none():
    kernel = kernel_of(CONV)
    ((path, load),) = loads(kernel)
    env = ranges(kernel)[path]
    assert not index_is_nonnegative(load.source, 0, env)
    assert not index_is_below(load.source, 0, env, sym("H"))
    assert dimension_is_in_bounds(load.source, 1, env, sym("C"))
    assert all(axis_is_in_bounds(axis, env) for axis in load.source.axes)


def test_an_axis_that_passes_its_limit_needs_its_compare():
    kernel = kernel_of(edited(CONV, ("0 .. 9", "0 .. 10")))
    ((path, load),) = loads(kernel)
    m, k = load.source.axes
    assert axis_is_in_bounds(m, ranges(kernel)[path])
    assert not axis_is_in_bounds(k, ranges(kernel)[path])


# --- facts at a statement


def fact_of(text: str, name: str) -> Interval:
    """The interval of `name` before the last statement of a kernel."""
    before = ranges(kernel_of(text))
    return before[max(before)][name].interval


def test_a_loop_with_a_step_ends_at_its_last_multiple():
    text = "kernel @k() {\n grid (t) in [4] {\n for k in 3 .. 20 step 5 {\n let x = k\n }\n }\n}\n"
    assert fact_of(text, "k") == Interval(3, 18)
    assert fact_of(edited(text, ("3 ..", "t ..")), "k") == Interval(0, 19)


def test_a_parallel_loop_bounds_its_variable():
    text = "kernel @k() {\n parallel i in 3 .. 9 {\n let x = i\n }\n}\n"
    assert fact_of(text, "i") == Interval(3, 8)


def test_a_condition_sharpens_its_branch():
    text = "kernel @k() {\n grid (t) in [9] {\n if t > 2 and t <= 5 {\n let x = t\n }\n }\n}\n"
    assert fact_of(text, "t") == Interval(3, 5)
    for cond, known in (("not (t < 7 or 8 <= t)", (7, 7)), ("t > 2 or t <= 5", (0, 8))):
        assert fact_of(edited(text, ("t > 2 and t <= 5", cond)), "t") == Interval(*known)


def test_what_a_while_assigns_is_known_behind_it_only_as_far_as_it_is_invariant():
    text = """kernel @k() {
  grid (t) in [9] {
    let i = t
    while i < 40 {
      set i = i + 7
    }
    let x = i
  }
}
"""
    assert fact_of(text, "i") == Interval(0, 46)
    assert fact_of(edited(text, ("i + 7", "i - 7")), "i") == Interval(-inf, 8)
    assert fact_of(edited(text, ("i + 7", "min(i + 7, 8)")), "i") == Interval(0, 8)


def test_an_element_of_a_buffer_can_be_anything():
    text = """kernel @k(T: i32[8]) {
  grid (t) in [8] {
    let u = T[t]
    let x = u
  }
}
"""
    assert fact_of(text, "u") == UNKNOWN


def test_a_scalar_that_the_environment_lacks_can_be_anything():
    assert interval(sym("x"), {}) == UNKNOWN
    assert interval(sym("x") * 0 + 3, {}) == Interval(3, 3)


def test_division_truncates_like_it_floors_only_for_what_is_nonnegative():
    env = {"a": Fact(Interval(2, 9)), "b": Fact(Interval(0, 4))}
    assert is_nonnegative(parse_expr("a * b - b"), env) is False
    assert is_nonnegative(parse_expr("a * b"), env)
    assert is_nonnegative(parse_expr("a - min(a, b)"), env)
    assert not is_nonnegative(parse_expr("b - min(a, 1)"), env)


# --- soundness by enumeration

NAMES = ("a", "b", "c")


def random_expr(rng: random.Random, names: tuple[str, ...], depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return sym(rng.choice(names)) if rng.random() < 0.7 else to_expr(rng.randint(-3, 6))
    x, y = (random_expr(rng, names, depth - 1) for _ in range(2))
    match rng.randrange(8):
        case 0 | 1:
            return x + y
        case 2:
            return x - y
        case 3:
            return x * y
        case 4:
            return rng.choice((floordiv, mod, ceildiv))(x, rng.choice((2, 3, -2, imax(1, y))))
        case 5:
            return imin(x, y)
        case 6:
            return imax(x, y)
    return floordiv(x * sym("u"), sym("u"))


def test_every_value_of_a_random_expression_lies_within_its_bounds():
    rng = random.Random(11)
    for _ in range(120):
        expr = random_expr(rng, NAMES, 3)
        u, c_value = rng.randint(1, 4), random_expr(rng, ("a", "b"), 1)
        env = {
            "a": Fact(Interval(-2, 3)),
            "b": Fact(Interval(0, 5), limit=sym("u")),
            "u": Fact(Interval(1)),
            "c": Fact(value=c_value),
        }
        lo, hi = lower(expr, env), upper(expr, env)
        for a in range(-2, 4):
            for b in range(min(5, u) + 1):
                c = evaluate(c_value, {"a": a, "b": b, "u": u})
                value = evaluate(expr, {"a": a, "b": b, "c": c, "u": u})
                assert lo <= value <= hi, (expr, c_value, a, b, u)
                assert not (is_at_most(expr, 2, env) and value > 2)


def test_a_symbolic_bound_is_not_put_under_a_negative_divisor():
    env = {
        "b": Fact(Interval(0, 5), limit=sym("u")),
        "u": Fact(Interval(1)),
        "d": Fact(Interval(-3, -1)),
    }
    for text in ("b // d", "ceildiv(b, d)", "b % d", "ceildiv(b, -2)", "b // -2"):
        expr = parse_expr(text)
        values = [evaluate(expr, {"b": b, "d": d}) for b in range(6) for d in (-3, -2, -1)]
        assert upper(expr, env) >= max(values), text
        assert lower(expr, env) <= min(values), text


class Machine:
    """Runs the scalars of a kernel and checks every fact at every statement."""

    def __init__(self, kernel: Kernel):
        self.kernel, self.facts, self.fuel, self.checked = kernel, ranges(kernel), 3000, 0

    def body(self, body: Body, path: Path, env: dict[str, int]) -> None:
        outer = set(env)
        for i, stmt in enumerate(body):
            self.check((*path, i), env)
            self.step(stmt, (*path, i), env)
        for name in set(env) - outer:
            del env[name]

    def check(self, path: Path, env: dict[str, int]) -> None:
        for name, value in env.items():
            fact = self.facts[path][name]
            assert value in fact.interval, (name, value, fact, node_at(self.kernel, path))
            assert fact.limit is None or value <= evaluate(fact.limit, env), (name, value, fact)
            assert fact.value is None or value == evaluate(fact.value, env), (name, value, fact)
            self.checked += 1

    def step(self, stmt: Stmt, path: Path, env: dict[str, int]) -> None:
        self.fuel -= 1
        match stmt:
            case Let(name, expr) | Set(name, expr):
                env[name] = evaluate(expr, env)
            case If(cond, then, orelse):
                chosen = "then" if holds(cond, env) else "orelse"
                self.body(then if chosen == "then" else orelse, (*path, chosen), env)
            case While(cond, body):
                while holds(cond, env) and self.fuel > 0:
                    self.body(body, (*path, "body"), env)
            case For(iv, lo, hi, step, body):
                for value in range(evaluate(lo, env), evaluate(hi, env), evaluate(step, env)):
                    if self.fuel > 0:
                        self.body(body, (*path, "body"), {**env, iv: value})
            case Grid(axes, body):
                for value in range(evaluate(axes[0].extent, env)):
                    self.body(body, (*path, "body"), {**env, axes[0].iv: value})


COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def holds(cond: Cond, env: dict[str, int]) -> bool:
    match cond:
        case Cmp(op, lhs, rhs):
            return COMPARE[op](evaluate(lhs, env), evaluate(rhs, env))
        case AllOf(terms):
            return all(holds(t, env) for t in terms)
        case AnyOf(terms):
            return any(holds(t, env) for t in terms)
        case Negate(term):
            return not holds(term, env)
    raise AssertionError(cond)


class Writer:
    """Writes random scalar programs: lets, ifs, fors with steps, whiles whose variables are set."""

    def __init__(self, seed: int):
        self.rng, self.made = random.Random(seed), 0

    def fresh(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def body(self, names: tuple[str, ...], variables: tuple[str, ...], depth: int) -> Body:
        stmts: list[Stmt] = []
        for _ in range(self.rng.randint(1, 4)):
            made = self.stmts(names, variables, depth)
            stmts += made
            names += tuple(s.name for s in made if isinstance(s, Let))
        return tuple(stmts)

    def stmts(self, names: tuple[str, ...], variables: tuple[str, ...], depth: int) -> list[Stmt]:
        rng, name = self.rng, self.fresh()
        kind = rng.choice(("let", "let", "set", "if", "for", "while") if depth else ("let", "set"))
        if kind == "set" and variables:
            return [Set(rng.choice(variables), self.small(names))]
        if kind == "if":
            cond = self.cond(names)
            bodies = (self.body(names, variables, depth - 1) for _ in range(2))
            return [If(cond, *bodies)]
        if kind == "for":
            body = self.body((*names, name), variables, depth - 1)
            lo = rng.choice((to_expr(rng.randint(-2, 3)), self.small(names)))
            return [For(name, lo, lo + rng.randint(0, 5), to_expr(rng.randint(1, 3)), body)]
        if kind == "while":
            inner = (*names, name)
            body = self.body(inner, (*variables, name), depth - 1)
            step = Set(name, imax(sym(name) + rng.randint(1, 3), self.small(inner)))
            return [
                Let(name, self.small(names)),
                While(Cmp("<", sym(name), self.small(names)), (*body, step)),
            ]
        return [Let(name, self.small(names))]

    def small(self, names: tuple[str, ...]) -> Expr:
        """Values stay within 40 of zero, so that loops end."""
        return imax(imin(random_expr(self.rng, (*names, "u"), 2), 40), -40)

    def cond(self, names: tuple[str, ...]) -> Cond:
        one, two = (self.comparison(names) for _ in range(2))
        return self.rng.choice((one, AllOf((one, two)), AnyOf((one, two)), Negate(one)))

    def comparison(self, names: tuple[str, ...]) -> Cmp:
        lhs, rhs = (random_expr(self.rng, names, self.rng.randint(0, 1)) for _ in range(2))
        return Cmp(self.rng.choice(list(COMPARE)), lhs, rhs)

    def kernel(self) -> Kernel:
        return Kernel("k", (), (Grid((GridAxis("t", sym("u")),), self.body(("t",), (), 3)),))


def test_facts_of_random_kernels_hold_in_every_execution():
    checked = 0
    for seed in range(60):
        kernel = Writer(seed).kernel()
        for u in (1, 3):
            machine = Machine(kernel)
            for path, _ in walk(kernel.body, ("body",)):
                assert path in machine.facts
            machine.step(kernel.body[0], ("body", 0), {"u": u})
            checked += machine.checked
    assert checked > 20_000


def test_the_enumeration_notices_a_fact_that_is_wrong():
    kernel = Writer(3).kernel()
    machine = Machine(kernel)
    machine.facts = {p: {n: Fact(Interval(1, 0)) for n in env} for p, env in machine.facts.items()}
    with pytest.raises(AssertionError):
        machine.step(kernel.body[0], ("body", 0), {"u": 1})


@pytest.mark.parametrize("units", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("bounds", [EVEN, CEIL, BIG_UNITS], ids=["even", "ceil", "big-units"])
def test_the_walk_of_every_unit_stays_within_the_facts(bounds, units):
    sizes = ("M = 1536, N = 1792, K = 4096", "M = 384, N = 200, K = 300")
    text = edited(STREAM_K, (EVEN, bounds), sizes, *UNBOUND, (ALONG_N, GROUPED))
    kernel = kernel_of(text)
    machine = Machine(kernel)
    env = {"UNITS": units}
    for binding in kernel.where:
        env[binding.name] = evaluate(binding.expr, env)
    for unit in range(units):
        machine.body(kernel.body[0].body, ("body", 0, "body"), {**env, "unit": unit})
    assert machine.checked > 100


def test_a_hostile_chain_of_squares_ends():
    lets = "".join(f"let x{i} = x{i - 1} * x{i - 1} + x{i - 1}\n" for i in range(1, 60))
    body = f"let x0 = t + 2\n{lets} let y = x59 - x58\n"
    text = f"kernel @k() {{\n grid (t) in [9] {{\n {body} }}\n}}\n"
    assert fact_of(text, "x3").hi < inf
    assert fact_of(text, "x59").hi == inf


SHRINKING = """\
kernel @shrinking(out C: f32[16]) {
  grid (g) in [1] {
    let e = 9
    let i = 0
    while i < e {
      {first}
      let left = e - 1 - i
      set i = i + 1
    }
  }
}
"""


def test_what_a_condition_says_is_forgotten_when_a_variable_in_it_is_set():
    left = parse_expr("e - 1 - i")
    for first, holds in (("barrier", True), ("set e = e - 3", False)):  # -3 in the third turn
        kernel = parse(SHRINKING.replace("{first}", first)).kernels[0]
        env = ranges(kernel)[("body", 0, "body", 2, "body", 1)]
        assert is_nonnegative(left, env) is holds


@pytest.mark.parametrize(("text", "most"), [
    ("64 * ceildiv(K, 64) - K", 63),
    ("64 * max(1, ceildiv(K, 64)) - 64 - K", 0),
    ("3 * min(ceildiv(K, 3), 5) - K", 2),
])  # fmt: skip
def test_whole_tiles_exceed_a_size_by_less_than_one(text: str, most: int):
    env, expr = {"K": Fact(Interval(0))}, parse_expr(text)
    assert is_at_most(expr, most, env)
    assert not is_at_most(expr, most - 1, env)
    assert max(evaluate(expr, {"K": k}) for k in range(200)) == most
    assert not is_at_most(parse_expr("32 * ceildiv(K, 64) - K"), -1, env)
    assert upper(parse_expr("-64 * ceildiv(K, 64) + K"), env) >= 0
