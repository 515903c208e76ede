"""Random nests, and almost-legal ones: what `tile` accepts, it tiles without a change of values."""

import itertools
from collections import Counter
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from loopir.errors import LaunchError, LoopIRError
from loopir.interp import InterpError, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.verifier import violations
from passes.base import Refused, Verdict
from passes.tile import TilePass, criteria
from passes.tile.contributions import Way
from tests.support.almost_tilable import BREAKS, CHANGES, Change
from tests.support.random_nests import RandomNest, random_nest

CASES, LONG_CASES, SAMPLE = 120, 5000, 60
ALMOST, LONG_ALMOST = 120, 4000
EQUAL, WRONG_BEFORE = "equal", "wrong before"


class OtherValues(AssertionError):
    """A buffer that the tiled nest fills otherwise."""


@pytest.fixture
def is_long(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--long"))


def random_tiling(seed: int, program: Program) -> tuple[TilePass, Verdict]:
    """Sizes for a dot, or any others, with the verdict."""
    rng = Random(seed)
    sizes = rng.choice(((16, 32), (1, 2, 3, 5, 8, 17)))
    m, n, k = (rng.choice(sizes) for _ in range(3))
    tiling = TilePass(m, n, k)
    verdict = tiling.can_be_applied(program)
    if isinstance(verdict, Refused) and "TI11" in verdict.codes:
        tiling = TilePass(m, None, k)
        verdict = tiling.can_be_applied(program)
    return tiling, verdict


def outcome(nest: RandomNest, seed: int) -> frozenset[str]:
    """The rules that the program breaks; the codes of a refusal; WRONG_BEFORE if the program has no
    result; EQUAL. AssertionError: the pass does wrong."""
    program = nest.program
    if rules := {v.rule for v in violations(program)}:
        return frozenset(rules)
    tiling, verdict = random_tiling(seed, program)
    if isinstance(verdict, Refused):
        return verdict.codes
    tiled = tiling.rewrite(program, verdict.plan)
    told = f"seed {seed}, {tiling}\n{nest.text}"
    assert violations(tiled) == (), told
    try:
        expected = nest.inputs(seed)
        arrays = {name: array.copy() for name, array in expected.items()}
        run(program, expected)
    except (InterpError, LaunchError):
        return frozenset((WRONG_BEFORE,))
    try:
        run(tiled, arrays)
    except LoopIRError as error:
        raise AssertionError(f"{told}\n{error}") from error
    for name, array in expected.items():
        if not np.array_equal(array, arrays[name], equal_nan=True):
            raise OtherValues(f"{name}, {told}")
    return frozenset((EQUAL,))


def test_random_nests_are_accepted_and_keep_their_values(is_long: bool):
    for seed in range(LONG_CASES if is_long else CASES):
        nest = random_nest(seed)
        assert outcome(nest, seed) == {EQUAL}, f"seed {seed}\n{nest.text}"


def test_random_nests_are_of_many_kinds():
    nests = [random_nest(seed) for seed in range(SAMPLE)]
    verdicts = [random_tiling(seed, nest.program)[1] for seed, nest in enumerate(nests)]
    plans = [verdict.plan for verdict in verdicts]  # pyright: ignore
    ways = Counter(c.way for plan in plans for c in plan.contributions.of.values())
    assert min(ways[way] for way in Way) >= 5
    assert any(plan.contributions.otherwise for plan in plans)
    assert {len(plan.groups.tiled) for plan in plans} == {2, 3}
    assert {len(plan.groups.kept) for plan in plans} >= {0, 1, 2}
    assert {len(group.indices) for plan in plans for group in plan.groups.tiled} >= {1, 2, 3}
    assert sum("masked" in nest.text for nest in nests) > SAMPLE // 4
    assert sum("let" in nest.text for nest in nests) > SAMPLE // 10


# --- almost-legal nests


def almost_legal(changes: tuple[Change, ...] = CHANGES) -> Iterator[tuple[RandomNest, int]]:
    """Random nests with one change, and their seeds, without end."""
    for seed in itertools.count():
        nest, rng = random_nest(seed), Random(seed)
        try:
            changed = RandomNest(rng.choice(changes)(nest.text, rng), nest.needed)
            parse(changed.text)
        except (LoopIRError, IndexError):
            continue
        yield changed, seed


def test_an_almost_legal_nest_is_caught_or_keeps_its_values(is_long: bool):
    found: Counter[str] = Counter()
    count = LONG_ALMOST if is_long else ALMOST
    for nest, seed in itertools.islice(almost_legal(), count):
        found.update(outcome(nest, seed))
    assert {"TI03", "TI04", "TI06", "TI07", EQUAL} <= found.keys()
    assert found[EQUAL] >= count // 20


#: without its criterion the pass itself stops: an operator has no identity
CRASHES = {"TI09"}


#: without its criterion the pass itself stops: an operator has no identity
CRASHES = {"TI09"}


@pytest.mark.parametrize("code", sorted(BREAKS.keys() - {"TI07"}))  # breaks it: wrong before
def test_without_a_criterion_an_almost_legal_nest_goes_wrong(code: str, monkeypatch):
    rest = tuple(c for c in criteria.CRITERIA if c.__doc__ != code)
    assert len(rest) == len(criteria.CRITERIA) - 1
    of_code = (asked for asked in almost_legal(BREAKS[code]) if is_refused(*asked, code))
    faults = (fault_by(rest, *asked, monkeypatch) for asked in itertools.islice(of_code, 30))
    assert {*faults} == {"AssertionError"} if code in CRASHES else "OtherValues" in faults


def is_refused(nest: RandomNest, seed: int, code: str) -> bool:
    """By the criterion of that code alone."""
    if violations(nest.program):
        return False
    verdict = random_tiling(seed, nest.program)[1]
    return isinstance(verdict, Refused) and verdict.codes == {code}


def fault_by(rest, nest: RandomNest, seed: int, monkeypatch) -> str:
    """What the pass does wrong with these criteria alone: it raises, whatever it is, or the values
    are others."""
    with monkeypatch.context() as patch:
        patch.setattr("passes.tile.tile.CRITERIA", rest)
        try:
            outcome(nest, seed)
        except Exception as error:
            return type(error).__name__
    return ""
