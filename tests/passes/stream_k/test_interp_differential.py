"""Random GEMMs before and after stream-k, on the interpreter: the same bits on integer-valued data.

Case n is made of seed n alone, so that a failure names all that it takes to repeat it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from loopir.build.gemm import gemm
from loopir.errors import LoopIRError
from loopir.interp import Seeded, WorkspaceMemory, all_schedules, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.symbols import to_expr
from passes.base import Applicable
from passes.decomposition import Bounds, Hybrid, KAligned, Schedule
from passes.options import Option, options_of
from passes.pipeline import parse_pipeline
from passes.stream_k import Decomposition, Merge, StreamKPass, walk
from tests.support.differential import STYLES, random_schedule, with_order
from tests.support.interp import same_bits
from tests.support.texts import GEMM, edited

CASES, LONG_CASES, CHUNK = 600, 20_000, 50
DTYPES = ("f16", "bf16", "f32", "f64", "i8")
MERGES = (Merge.AUTO, Merge.FIXUP, Merge.ATOMIC_WORKSPACE, Merge.ATOMIC)
ORDERS = ("", "tile-order{along_m}", "tile-order{group=2}", "tile-order{group=3}", "tile-order")


@dataclass(frozen=True)
class Case:
    """`symbolic`: sizes are left to the launch. `launch_units`: what the launch gives if it picks
    UNITS."""

    m: int
    n: int
    k: int
    tile: tuple[int, int, int]
    dtype: str
    layouts: tuple[str, str]
    order: str
    made: StreamKPass
    symbolic: bool
    launch_units: int | None
    seed: int

    def program(self) -> Program:
        sizes = (None, None, None) if self.symbolic else (self.m, self.n, self.k)
        a_layout, b_layout = self.layouts
        return gemm(*sizes, self.dtype, tile=self.tile, a_layout=a_layout, b_layout=b_layout)

    def pipeline(self) -> str:
        return f"{self.order},{self.made}" if self.order else str(self.made)

    def sizes(self) -> dict[str, int]:
        return {"M": self.m, "N": self.n, "K": self.k} if self.symbolic else {}


def random_case(seed: int) -> Case:
    rng = Random(seed)
    tile = tuple(rng.choice((2, 3, 4, 8)) for _ in range(3))
    m, n, k = (_size(rng, t) for t in tile)
    panels = max(1, -(-k // tile[2]))
    style, merge = rng.choice(STYLES), rng.choice(MERGES)
    symbolic = style not in ("splits", "hybrid", "k-aligned") and rng.random() < 0.4
    options = random_schedule(rng, panels, style)
    if symbolic and options.get("bounds") is Bounds.CEIL:
        options["min_panels"] = 1
    return Case(
        m,
        n,
        k,
        tile,
        dtype=rng.choice(DTYPES),
        layouts=(rng.choice(("row", "col")), rng.choice(("row", "col"))),
        order=rng.choice(ORDERS),
        made=StreamKPass(**options, merge=merge, launch_constants=symbolic or style == "launch"),
        symbolic=symbolic,
        launch_units=rng.choice((None, rng.randint(1, 40))) if style == "launch" else None,
        seed=seed,
    )


def _size(rng: Random, tile: int) -> int:
    """0, 1, a prime, a multiple of the tile, or one more or less than that."""
    kind = rng.randrange(10)
    if kind < 2:
        return kind
    if kind < 5:
        return rng.choice((2, 3, 5, 7, 11, 13, 17, 19, 23))
    return max(0, tile * rng.randint(1, 4) + rng.choice((-1, 0, 0, 1)))


def difference(case: Case) -> str:
    """What differs between the program before and after, or nothing."""
    before = case.program()
    try:
        after = parse_pipeline(case.pipeline()).run(before)
        return _difference(case, before, after)
    except LoopIRError as error:
        return f"{type(error).__name__}: {error}"


def _difference(case: Case, before: Program, after: Program) -> str:
    rng, workspace = Random(case.seed), WorkspaceMemory()
    units = {} if case.launch_units is None else {"UNITS": case.launch_units}
    if after.workspaces:  # what an earlier launch left
        earlier = random_inputs(before, case.seed + 1, sizes=case.sizes())
        earlier = with_order(after, earlier, case.sizes(), case.seed)
        run(after, earlier, units, seed=case.seed + 1, workspace=workspace)
    arrays = random_inputs(before, case.seed, sizes=case.sizes())
    again = {name: array.copy() for name, array in arrays.items()}
    again = with_order(after, again, case.sizes(), case.seed)
    run(before, arrays, seed=case.seed)
    run(after, again, units, seed=case.seed, workspace=workspace, resident=rng.choice((None, 3)))
    wide = np.int64 if case.dtype == "i8" else np.float64
    product = arrays["A"].astype(wide) @ arrays["B"].astype(wide)
    if not np.array_equal(arrays["C"], product):
        return "the untransformed program is no matrix product"
    return "" if same_bits(arrays["C"], again["C"]) else "the bits of C differ"


def shrunk(case: Case) -> Case:
    """A smaller case that fails too, if one step after another leads to one."""
    smaller = next((c for c in _smaller(case) if difference(c)), None)
    return case if smaller is None else shrunk(smaller)


def _smaller(case: Case) -> Iterator[Case]:
    for name in ("m", "n", "k"):
        for less in _less(getattr(case, name), 0):
            yield replace(case, **{name: less})
    for less in _less(case.launch_units, 1):
        yield replace(case, launch_units=less)
    for name in ("units", "splits"):
        for less in _less(getattr(case.made, name), 1):
            yield replace(case, made=replace(case.made, **{name: less}))
    plainer = (replace(case.made, **{o.field: o.default}) for o in _plain_options())
    plain = (
        {"order": ""},
        {"dtype": "f32"},
        {"layouts": ("row",) * 2},
        *({"made": p} for p in plainer),
    )
    yield from (c for p in plain if (c := replace(case, **p)) != case)


def _less(value: int | None, least: int) -> list[int]:
    return sorted(
        n for n in {least, (value or 0) // 2, (value or 0) - 1} if least <= n < (value or 0)
    )


def _plain_options() -> Iterator[Option]:
    """Those that may be left out of any text."""
    needed = ("decomposition", "units", "splits", "launch_constants")
    return (o for o in options_of(StreamKPass) if o.field not in needed)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "first_seed" in metafunc.fixturenames:
        count = LONG_CASES if metafunc.config.getoption("--long") else CASES
        metafunc.parametrize("first_seed", range(0, count, CHUNK))


def test_stream_k_keeps_every_bit_of_a_random_gemm(first_seed):
    for seed in range(first_seed, first_seed + CHUNK):
        found = difference(random_case(seed))
        if found:
            small = shrunk(random_case(seed))
            pytest.fail(f"seed {seed}: {found}\n{random_case(seed)}\nshrunk: {small}")


def schedule_of(case: Case) -> Schedule | None:
    verdict = case.made.can_be_applied(case.program())
    return verdict.plan.schedule if isinstance(verdict, Applicable) else None


def option_words(name: str) -> tuple[str, ...]:
    option = next(o for o in options_of(StreamKPass) if o.field == name)
    return option.words or ("true", "false")


def test_the_cases_reach_every_choice():
    cases = [random_case(seed) for seed in range(CASES)]
    assert {c.dtype for c in cases} == set(DTYPES)
    assert {c.order for c in cases} == set(ORDERS)
    for option in ("bounds", "direction", "slot_order", "tail", "first", "permuted"):
        assert len({getattr(c.made, option) for c in cases}) == len(option_words(option))
    assert {c.made.decomposition for c in cases} == {*Decomposition} - {Decomposition.STREAM_K}
    assert {c.made.merge for c in cases} == set(MERGES)
    assert {c.layouts for c in cases} == {(a, b) for a in ("row", "col") for b in ("row", "col")}
    assert {0, 1} <= {c.m for c in cases} & {c.n for c in cases} & {c.k for c in cases}
    split = [c for c in cases if c.made.splits and c.made.splits > 1]
    launch = [c for c in cases if c.symbolic and c.made.units is None and not c.made.splits]
    assert len(split) > 20
    assert len({c.made.decomposition for c in cases if c.symbolic}) == 3, (
        "all but waves with a tail"
    )
    assert len(launch) > 20
    with_tail = (Decomposition.HYBRID, Decomposition.K_ALIGNED)
    schedules = [schedule_of(c) for c in cases if c.made.decomposition in with_tail]
    hybrids = [s for s in schedules if isinstance(s, Hybrid)]
    assert sum(len(s.forms) == 2 for s in hybrids) > 15
    k_aligned = [s for s in schedules if isinstance(s, KAligned)]
    assert sum(len(s.forms) == 2 for s in k_aligned) > 3
    assert sum(s.tail is not None and len(s.forms) == 1 for s in k_aligned) > 3


def test_a_difference_is_seen_and_shrunk(monkeypatch):
    """Control: units that lose their last panel."""
    cut = walk.unit_range

    def losing_a_panel(bounds, unit, total, units):
        low, high = cut(bounds, unit, total, units)
        return low, high - to_expr(1)

    monkeypatch.setattr(walk, "unit_range", losing_a_panel)
    found = [random_case(seed) for seed in range(50) if difference(random_case(seed))]
    assert len(found) > 10
    small = shrunk(found[0])
    assert difference(small)
    assert small.m <= 1
    assert small.n <= 1


BATCHED = edited(
    GEMM,
    ("A: f16[M, K], B: f16[K, N], out C: f32[M, N]",
     "A: f16[L, M, K], B: f16[L, K, N], out C: f32[L, M, N]"),
    ("where M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16",
     "where L = 2, M = 9, N = 7, K = 13, BM = 4, BN = 4, BK = 3"),
    ("grid (ti, tj) in [", "grid (l, ti, tj) in [L, "),
    ("A[ti", "A[l, ti"),
    ("B[kp", "B[l, kp"),
    ("store C[ti", "store C[l, ti"),
)  # fmt: skip

TWO_SUMS = """\
kernel @two_sums(X: f32[M, K], out Y: f32[M], out Z: i32[M], W: i8[M, K])
    where M = 23, K = 29, BM = 4, BK = 4, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc s: register f32[BM]
    alloc c: register i32[BM]
    alloc x: shared f32[BM, BK]
    alloc w: shared i8[BM, BK]
    fill s, 0
    fill c, 0
    reduce (s: add, c: add) {
      for kp in 0 .. P {
        coop_load x, X[ti * BM +: BM, kp * BK +: BK] masked
        coop_load w, W[ti * BM +: BM, kp * BK +: BK] masked
        ewise s = s + sum(x * x, 1)
        ewise c = c + sum(cast(i32, w), 1)
      }
    }
    store Y[ti * BM +: BM], s masked
    store Z[ti * BM +: BM], c masked
  }
}
"""

CONV = """\
kernel @conv(X: f16[L], Wt: f16[Q], out Y: f32[M])
    where L = 40, M = 19, Q = 11, BM = 4, BQ = 4, P = max(1, ceildiv(Q, BQ)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc s: register f32[BM]
    alloc x: shared f16[BM, BQ]
    alloc w: shared f16[BQ]
    fill s, 0
    reduce (s: add) {
      for kp in 0 .. P {
        load x, X[m * 2 + q - 5] over (m = ti * BM +: BM < M, q = kp * BQ +: BQ < Q) masked
        load w, Wt[kp * BQ +: BQ] masked
        ewise s = s + sum(cast(f32, x) * expand(cast(f32, w), 0), 1)
      }
    }
    store Y[ti * BM +: BM], s masked
  }
}
"""


@pytest.mark.parametrize("text", [BATCHED, TWO_SUMS, CONV], ids=["batched", "two_sums", "conv"])
@pytest.mark.parametrize("units", [1, 2, 3, 7, 13, 40])
@pytest.mark.parametrize("merge", ["auto", "atomic"])
def test_stream_k_keeps_every_bit_of_other_reductions(text, units, merge):
    before = parse(text)
    after = parse_pipeline(f"stream-k{{units={units} merge={merge}}}").run(before)
    for seed in range(3):
        arrays = random_inputs(before, seed)
        again = {name: array.copy() for name, array in arrays.items()}
        run(before, arrays)
        run(after, again, schedule=Seeded(seed))
        assert all(same_bits(arrays[name], again[name]) for name in arrays)


@pytest.mark.parametrize("units", [2, 3, 4])
def test_every_interleaving_of_a_small_stream_k_has_the_same_bits(units):
    before = gemm(4, 2, 9, "f16", tile=(2, 2, 3))
    after = parse_pipeline(f"stream-k{{merge=atomic units={units}}}").run(before)
    expected = random_inputs(before, 0)
    run(before, expected)
    results = list(all_schedules(after, lambda: random_inputs(before, 0)))
    assert len(results) > 1
    assert all(same_bits(r.arrays["C"], expected["C"]) for r in results)
