"""The closed forms as index expressions: their values, read from the printed text, are what a count
over the segments gives."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopir.printer import expr_text
from loopir.symbols import evaluate, sym
from passes.decomposition import ClosedForm, Segment, SplitKForm
from tests.support.schedules import FAMILIES

SIZE = ("tiles", "panels", "units", "splits", "first_tile", "layers", "share", "cost", "chunks",
        "grain")  # fmt: skip
ARGUMENTS = ("unit", "turn", "tile", "iteration")
FORMED = [name for name in FAMILIES if name != "permuted"]


def sizes_of(form: ClosedForm) -> dict[str, int]:
    """The numbers of a form that may be expressions."""
    return {n: getattr(form, n) for n in SIZE if n in form.__dataclass_fields__}


def expressions(form: ClosedForm) -> dict[str, object]:
    """Each answer of `form` as an expression over symbols for its sizes and arguments."""
    over = replace(form, **{name: sym(name) for name in sizes_of(form)})
    unit, turn, tile, iteration = map(sym, ARGUMENTS)
    low, high = over.iterations(unit, turn)
    return {
        "low": low,
        "high": high,
        "turns": over.turns(unit),
        "units": over.units,
        "owner": over.owner(iteration),
        "contributors": over.contributors(tile),
        "slot": over.slot(unit, tile),
        "slot_base": over.slot_base(tile),
    }


@cache
def compiled(shape: ClosedForm) -> dict[str, Callable[..., int]]:
    """The expressions of a form, as Python functions of sizes and arguments, through their text."""
    heading = f"lambda {', '.join(f'{name}=0' for name in SIZE + ARGUMENTS)}: "
    known = {"ceildiv": lambda a, b: -(-a // b)}
    texts = {
        name: str(e) if isinstance(e, int) else expr_text(e)
        for name, e in expressions(shape).items()
    }
    return {name: eval(heading + text, known) for name, text in texts.items()}


def shape_of(form: ClosedForm) -> ClosedForm:
    """`form` without its numbers."""
    return replace(form, **dict.fromkeys(sizes_of(form), 1))


def check_expressions(form: ClosedForm, segments: list[Segment]) -> None:
    """The expressions of `form` give the segments of its units and tiles."""
    sizes, of = sizes_of(form), compiled(shape_of(form))
    panels = form.panels
    parts: dict[int, int] = {}
    for s in segments:
        parts[s.tile] = parts.get(s.tile, 0) + 1
    covered = []
    for unit in range(of["units"](**sizes)):
        for turn in range(of["turns"](**sizes, unit=unit)):
            at = dict(sizes, unit=unit, turn=turn)
            covered += [(i, unit) for i in range(of["low"](**at), of["high"](**at))]
    computed = [(s.tile * panels + k, s.unit) for s in segments for k in range(s.k0, s.k1)]
    assert sorted(covered) == sorted(computed)
    for s in segments:
        at = dict(sizes, unit=s.unit, tile=s.tile)
        assert of["slot"](**at) == s.slot
        assert of["contributors"](**at) == parts[s.tile]
        assert of["owner"](**sizes, iteration=s.tile * panels + s.k0) == s.unit
        assert of["owner"](**sizes, iteration=s.tile * panels + s.k1 - 1) == s.unit


def check_family(family: str, size: tuple[int, int, int]) -> None:
    schedule = FAMILIES[family](*size)
    segments = [s for u in range(schedule.units) for s in schedule.segments(u)]
    for form in schedule.forms:
        own = range(form.first_tile, form.first_tile + form.tiles)
        check_expressions(form, [s for s in segments if s.tile in own])
        of = compiled(shape_of(form))
        for tile in set(own) & set(schedule.split_tiles()):
            assert of["slot_base"](**sizes_of(form), tile=tile) == schedule.slot_base(tile)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", FORMED)
def test_expressions_give_what_a_count_over_small_schedules_gives(family, request):
    every = list(product(range(1, 25), repeat=3))
    sample = [*product(range(1, 4), repeat=3), *Random(1).sample(every, 200)]
    for size in every if request.config.getoption("--long") else sample:
        check_family(family, size)


SOME = ["stream-k floor 1", "split-k split-fastest", "data-parallel", "k-aligned 0 1"]


@pytest.mark.parametrize("family", SOME)
@pytest.mark.parametrize(
    ("name", "change"), [("low", 1), ("high", -1), ("slot", 1), ("contributors", 1), ("owner", 1)]
)
def test_control_a_form_off_by_one_is_caught(family, name, change, monkeypatch):
    check_family(family, (3, 4, 2))
    form = FAMILIES[family](3, 4, 2).forms[-1]
    right = compiled(shape_of(form))[name]
    monkeypatch.setitem(compiled(shape_of(form)), name, lambda **at: right(**at) + change)
    with pytest.raises(AssertionError):
        check_family(family, (3, 4, 2))


LARGE = st.integers(1, 2**40)


@pytest.mark.parametrize("family", FORMED)
@settings(max_examples=30)
@given(LARGE, LARGE, st.integers(1, 2**20), st.data())
def test_in_large_schedules_an_iteration_is_in_a_range_of_its_owner(
    family, tiles, panels, units, data
):
    schedule = FAMILIES[family](tiles, panels, units)
    i = data.draw(st.integers(0, schedule.total - 1))
    tile, unit = i // panels, schedule.owner(i)
    form = next(f for f in schedule.forms if f.first_tile <= tile < f.first_tile + f.tiles)
    turns = form.turns(unit)
    down = form.iterations(unit, 0)[0] // panels - tile  # k-aligned: a tile a turn
    up = (tile - form.first_tile) // units
    ranges = {form.iterations(unit, t) for t in (0, turns - 1, up, down) if 0 <= t < turns}
    assert any(low <= i < high for low, high in ranges)
    assert form.contributors(tile) >= 1
    assert 0 <= form.slot(unit, tile) < form.contributors(tile)
    if form.contributors(tile) > 1:
        assert form.slot_base(tile) + form.contributors(tile) <= schedule.slots


@pytest.mark.parametrize("family", FORMED)
def test_the_expressions_evaluate_as_their_text_does(family):
    schedule = FAMILIES[family](7, 9, 4)
    for form in schedule.forms:
        tile, unit = form.first_tile + form.tiles // 2, form.units - 1
        at = {"unit": unit, "turn": 0, "tile": tile, "iteration": tile * form.panels}
        for name, e in expressions(form).items():
            value = e if isinstance(e, int) else evaluate(e, at | sizes_of(form))
            assert value == compiled(shape_of(form))[name](**at, **sizes_of(form))


def test_a_form_over_symbols_prints_as_index_expressions():
    form = SplitKForm(sym("TILES"), sym("P"), 4)
    low, high = form.iterations(sym("unit"), 0)
    assert expr_text(low) == "(unit % 4) * ceildiv(P, 4) + (unit // 4) * P"
    assert expr_text(high) == "(unit // 4) * P + min((unit % 4 + 1) * ceildiv(P, 4), P)"
    assert form.units == sym("TILES") * 4
