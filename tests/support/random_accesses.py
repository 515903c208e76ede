"""Seeded random accesses whose elements are all inside their buffer, or masked."""

from dataclasses import dataclass
from random import Random

#: ways to index a buffer by a tile axis, with weights
INPUT = {"plain": 12, "split": 2, "coarse": 1, "wrapped": 1, "strided": 1, "ahead": 1, "behind": 2}
OUTPUT = {"plain": 5, "split": 1}
#: maps that reach only a part of the buffer
PARTIAL_OUTPUT = {**OUTPUT, "ahead": 1, "strided": 1}

_NEED_A_MASK = ("ahead", "behind")


@dataclass(frozen=True)
class Axis:
    """A tile axis as text. It counts up to `extent`, which is `count`; `is_exact`: tiles end there,
    it is not zero and known."""

    name: str
    start: str
    size: str
    extent: str
    count: int
    is_exact: bool


@dataclass(frozen=True)
class Dim:
    """One dimension of a buffer: how it is indexed, and its size."""

    index: str
    extent: str
    axis: Axis | None = None


@dataclass(frozen=True)
class RandomAccess:
    """`shape` of the buffer, and the access to it as text."""

    shape: tuple[str, ...]
    slices: str
    over: str
    is_masked: bool

    def text(self, buffer: str) -> str:
        return f"{buffer}[{self.slices}]{self.over}"

    @property
    def mask(self) -> str:
        return " masked" if self.is_masked else ""


def random_access(
    rng: Random, axes: tuple[Axis, ...], scalars: tuple[Dim, ...], forms: dict[str, int]
) -> RandomAccess:
    """An access with these tile axes, whose buffer has a dimension for each of `scalars` too."""
    chosen = rng.choices(list(forms), list(forms.values()), k=len(axes))
    dims = [dim for axis, form in zip(axes, chosen, strict=True) for dim in _dims(rng, axis, form)]
    if len(axes) == 2 and forms is INPUT and rng.random() < 0.08:
        dims = [_diagonal(rng, *axes)]
        chosen = ["behind"]
    for scalar in scalars:
        dims.insert(rng.choice((0, 0, rng.randint(0, len(dims)))), scalar)
    if rng.random() < 0.25:
        rng.shuffle(dims)
    is_safe = all(axis.is_exact for axis in axes) and not set(chosen) & set(_NEED_A_MASK)
    is_masked = not is_safe or rng.random() < 0.5
    shape = tuple(dim.extent for dim in dims)
    if tuple(d.axis for d in dims if d.axis) == axes and rng.random() < 0.8:
        slices = (f"{d.axis.start} +: {d.axis.size}" if d.axis else d.index for d in dims)
        return RandomAccess(shape, ", ".join(slices), "", is_masked)
    over = ", ".join(_axis_text(rng, axis, is_masked) for axis in axes)
    return RandomAccess(shape, ", ".join(d.index for d in dims), f" over ({over})", is_masked)


def _dims(rng: Random, axis: Axis, form: str) -> list[Dim]:
    name, extent, n = axis.name, axis.extent, rng.choice((2, 3, 4))
    divisors = [d for d in (2, 3, 4) if axis.count % d == 0]
    if form == "split" and divisors and rng.random() < 0.7:
        n = rng.choice(divisors)
    match form:
        case "split":
            return [Dim(f"{name} // {n}", f"ceildiv({extent}, {n})"), Dim(f"{name} % {n}", str(n))]
        case "coarse":
            return [Dim(f"{name} // {n}", f"ceildiv({extent}, {n})")]
        case "wrapped":
            return [Dim(f"{name} % {n}", str(n))]
        case "strided":
            return [Dim(f"2 * {name} + 1", f"2 * {extent} + 1")]
        case "ahead":
            return [Dim(f"{name} + {n}", f"{extent} + {n}")]
        case "behind":
            return [Dim(f"{name} - {n}", extent)]
    return [Dim(name, extent, axis)]


def _diagonal(rng: Random, a: Axis, b: Axis) -> Dim:
    """Both axes in one index, as in a convolution."""
    step, back = rng.choice((1, 2)), rng.choice((0, 1, 3))
    return Dim(f"{step} * {a.name} + {b.name} - {back}", f"{a.extent} + {b.extent}")


def _axis_text(rng: Random, axis: Axis, is_masked: bool) -> str:
    limit = f" < {axis.extent}" if is_masked and rng.random() < 0.4 else ""
    return f"{axis.name} = {axis.start} +: {axis.size}{limit}"
