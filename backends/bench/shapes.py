"""Which shapes are timed: named sets, single shapes, ranges of sizes, random draws."""

import itertools
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

Shape: TypeAlias = tuple[int, int, int]

_FILE = Path(__file__).with_name("shapes.json")
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")
_RANGE = re.compile(r"(?P<first>\d+)(?::(?P<last>\d+)(?::(?P<factor>\*?)(?P<step>\d+))?)?")
_DRAWN_FROM, _DRAWN_TO, _DRAWN_STEP = 128, 8192, 8
ALL = "all"
#: shapes that one run can ask for at once; a worker has them all in memory
MOST_SHAPES = 1_000_000


@cache
def shape_sets() -> Mapping[str, tuple[Shape, ...]]:
    """The named sets, in the order of the file."""
    data = json.loads(_FILE.read_text(encoding="utf-8"))
    return {
        name: tuple((m, n, k) for m, n, k in rows) for name, rows in data.items() if name != "note"
    }


def named_set(name: str) -> dict[str, tuple[Shape, ...]]:
    """The set of that name, or every set for `all`. ValueError: there is none."""
    sets = shape_sets()
    if name == ALL:
        return dict(sets)
    if name not in sets:
        raise ValueError(f"set {name!r}: one of {', '.join(sets)}, {ALL}")
    return {name: sets[name]}


def parse_shape(text: str) -> Shape:
    """`MxNxK`, each at least 1. ValueError: it is not."""
    found = _SHAPE.fullmatch(text)
    sizes = tuple(map(int, found.groups())) if found else ()
    if len(sizes) != 3 or min(sizes) < 1:
        raise ValueError(f"shape {text!r}: MxNxK, three sizes of at least 1")
    return sizes


def parse_axes(words: Sequence[str]) -> tuple[Shape, ...]:
    """The product of `m=`, `n=` and `k=`, each a size or a range as parse_range reads it; the last
    axis runs fastest. ValueError: the word that is wrong, or the axis that is missing."""
    axes: dict[str, tuple[int, ...]] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in ("m", "n", "k") or name in axes:
            raise ValueError(f"{word!r}: m=, n= and k=, each once")
        axes[name] = parse_range(text)
    if missing := [name for name in ("m", "n", "k") if name not in axes]:
        raise ValueError(f"sizes of {', '.join(missing)} are missing: say {missing[0]}=4096")
    count = math.prod(map(len, axes.values()))
    if count > MOST_SHAPES:
        raise ValueError(f"{' '.join(words)}: {count} shapes, {MOST_SHAPES} at most")
    return tuple(itertools.product(axes["m"], axes["n"], axes["k"]))


def parse_range(text: str) -> tuple[int, ...]:
    """`4096`, `128:4096:128` (the last one included where a step meets it), `128:1024` (step 1),
    `1:128:*2` (each twice the one before). ValueError: it is none of these, or it is empty, or has
    more than MOST_SHAPES sizes."""
    found = _RANGE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"range {text!r}: FIRST, FIRST:LAST, FIRST:LAST:STEP or FIRST:LAST:*FACTOR"
        )
    first = int(found["first"])
    last = int(found["last"] or first)
    step, is_factor = int(found["step"] or 1), found["factor"] == "*"
    if first < 1 or last < first or step < 1 + is_factor:
        raise ValueError(f"range {text!r}: it is empty, or never ends")
    if not is_factor and (last - first) // step >= MOST_SHAPES:
        raise ValueError(f"range {text!r}: more than {MOST_SHAPES} sizes")
    return tuple(_powers(first, last, step) if is_factor else range(first, last + 1, step))


def _powers(first: int, last: int, factor: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= factor


def drawn(count: int, seed: int) -> tuple[Shape, ...]:
    """`count` shapes, log-uniform in 128..8192, N and K multiples of 8; the same for one seed.
    ValueError: more than MOST_SHAPES."""
    if count > MOST_SHAPES:
        raise ValueError(f"--random {count}: {MOST_SHAPES} at most")
    rng = random.Random(seed)
    return tuple(
        (_size(rng, 1), _size(rng, _DRAWN_STEP), _size(rng, _DRAWN_STEP)) for _ in range(count)
    )


def _size(rng: random.Random, step: int) -> int:
    size = _DRAWN_FROM * (_DRAWN_TO / _DRAWN_FROM) ** rng.random()
    return round(size / step) * step
