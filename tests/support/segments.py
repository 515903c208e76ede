"""What the blocks of a persistent kernel really do: the panels that each loads, one after the
other, and how it writes its tiles."""

from itertools import pairwise
from typing import NamedTuple
from unittest import mock

import numpy as np

from loopir.interp import Schedule, random_inputs, run
from loopir.interp.memory import Memory
from loopir.nodes import Program
from loopir.parser import parse

#: a panel is one element of X, so that a load says which; Y gets the sums of its rows
_SUMS = """\
kernel @sums(X: f32[T, K], out Y: f32[T])
    where {sizes}P = max(1, K) {{
  grid (t) in [T] {{
    alloc s: register f32[1]
    alloc x: shared f32[1]
    fill s, 0
    reduce (s: add) {{
      for kp in 0 .. P {{
        load x, X[t, kp +: 1] masked
        ewise s = s + x
      }}
    }}
    store Y[t +: 1], s
  }}
}}
"""


class Part(NamedTuple):
    """Panels k0 .. k1 of a tile. `is_stored`: whole, to the output; else kept or added, as a merge
    does."""

    tile: int
    k0: int
    k1: int
    is_stored: bool


def sums(tiles: int | None = None, panels: int | None = None) -> Program:
    """Sums of the rows of X: `tiles` rows of `panels` elements, or sizes T and K of the launch."""
    bound = [] if tiles is None else [f"T = {tiles}"]
    bound += [] if panels is None else [f"K = {panels}"]
    return parse(_SUMS.format(sizes="".join(f"{b}, " for b in bound)))


def traced(
    program: Program, sizes: dict[str, int], order: tuple[int, ...], schedule: Schedule
) -> tuple[tuple[Part, ...], ...]:
    """The parts that each block of a program made of `sums` computes, in its order; what is stored
    without panels, from the parts of others, is no part.

    `order`: of a permuted schedule. AssertionError: Y does not hold the sums.
    """
    arrays = random_inputs(program, 0, sizes=sizes)
    if "order" in arrays:
        arrays["order"][:] = order
    log: dict[int, list[tuple[str, int]]] = {}
    with _logging(log, arrays["X"].shape):
        values = run(program, arrays, sizes, schedule=schedule).values[0]
    assert np.array_equal(arrays["Y"], arrays["X"].sum(1))
    units = values.get("UNITS", arrays["Y"].size)
    assert set(log) <= set(range(units))
    return tuple(tuple(_parts(log.get(block, []), arrays["X"].shape[1])) for block in range(units))


def _logging(log: dict[int, list[tuple[str, int]]], shape: tuple[int, ...]):
    """Each access to X or Y with its element, by block; in place while the context is."""
    load, store, atomic = Memory.load, Memory.store, Memory.atomic

    def note(view, what: str, index) -> None:
        (element,) = np.arange(np.prod(shape)).reshape(shape)[index].ravel().tolist()
        log.setdefault(view.clock.block, []).append((what, element))

    def loaded(self, view, name, index):
        if name == "X":
            note(view, "load", index)
        return load(self, view, name, index)

    def stored(self, view, name, region, values):
        what = "store" if name == "Y" else "add"
        log.setdefault(view.clock.block, []).append((what, 0))
        return store(self, view, name, region, values)

    def added(self, view, op, name, region, values):
        log.setdefault(view.clock.block, []).append(("add", 0))
        return atomic(self, view, op, name, region, values)

    return mock.patch.multiple(Memory, load=loaded, store=stored, atomic=added)


def _parts(log: list[tuple[str, int]], panels: int):
    loads: list[int] = []
    for what, element in log:
        if what == "load":
            loads.append(element)
            continue
        if what == "store" and not loads:
            continue
        assert all(b == a + 1 for a, b in pairwise(loads)), loads
        tile, k0 = divmod(loads[0], panels)
        yield Part(tile, k0, k0 + len(loads), what == "store")
        loads = []
    assert not loads, "panels that nothing writes"
