"""The configurations that the planner looks at for one problem: tiles with the schedules that their
number asks for, by rules of thumb that leave out what cannot win."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from backends.planner.config import Config, Extent, Kind
from backends.planner.device import Device
from backends.planner.problem import Problem
from backends.planner.work import residents, shared_bytes, vector_residents
from loopir.errors import LoopIRError

_ROW_BYTES = 128  # of K that a narrow panel takes: a row of swizzled shared memory
_DESCRIPTOR_BYTES = 16  # rows of a tensor start at multiples of it, to be moved by descriptors
_WASTE = 2.5  # computed over needed elements of C, beyond which a tile is too large
_FEW_ROWS = 64  # of C, up to which loads are all that counts
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_PANELS_OF_PART = 2  # at least, of a slice
_LEAST_PANELS = (4, 16)  # of a part of the tail
_MOST_FOLDED = 128  # elements of the accumulators of a thread, beside which others have room
_ALIGNED_ELEMENTS = 128 * 128  # of a tile, from which on its tail is worth sharing out


@dataclass(frozen=True)
class Shape:
    """A tile and how it is compiled; `widths`: panels of so many times 128 bytes of K."""

    rows: Extent
    columns: Extent
    widths: int
    warps: int
    stages: int

    def config(self, problem: Problem, swapped: bool = False) -> Config:
        depth = self.widths * _ROW_BYTES // problem.dtype.bytes
        tile = (self.rows, self.columns, depth)
        return Config(tile, num_warps=self.warps, num_stages=self.stages, swapped=swapped)


#: tiles whose products take the time
LARGE = (
    Shape(128, 256, 1, 8, 3),
    Shape(128, (128, 128), 1, 8, 4),
    Shape(256, 128, 1, 8, 3),
    Shape(128, (128, 64), 1, 4, 4),
    Shape((128, 64), 128, 1, 4, 4),
    Shape(128, (128, 32), 1, 4, 4),
    Shape(128, (128, 16), 1, 4, 4),
    Shape(128, 128, 1, 4, 4),
    Shape(128, 128, 1, 8, 4),
    Shape(64, 256, 1, 4, 4),
)
#: tiles for fewer elements of C, or longer sums
SMALL = (
    Shape(128, 64, 1, 4, 5),
    Shape(64, 128, 1, 4, 5),
    Shape(64, 64, 1, 4, 6),
    Shape(128, 64, 2, 4, 3),
    Shape(64, 64, 2, 4, 4),
    Shape(128, 32, 2, 4, 4),
    Shape(64, 32, 2, 4, 5),
)
#: tiles of few rows, computed transposed, so that their long side is that of the tensor cores
NARROW = (
    Shape(16, 64, 2, 4, 6),
    Shape(16, 128, 2, 4, 4),
    Shape(32, 64, 2, 4, 6),
    Shape(32, 128, 2, 4, 4),
    Shape(64, 64, 2, 4, 4),
    Shape(64, 128, 2, 4, 3),
)
#: tiles of few rows whose loads go by pointers, many at a time
SKINNY = (
    Shape(16, 16, 2, 4, 8),
    Shape(16, 32, 2, 4, 8),
    Shape(16, 32, 4, 4, 5),
    Shape(16, 64, 2, 4, 5),
    Shape(32, 32, 2, 4, 6),
    Shape(32, 64, 2, 4, 5),
    Shape(64, 32, 2, 4, 5),
)
#: parts of the matrix that a block of a GEMV loads at a time: columns, and of K, with warps
VECTORS = ((4, 2048, 4), (4, 2048, 8), (8, 1024, 4), (8, 512, 2), (16, 512, 8), (16, 256, 4))
_MOST_VECTORS = 8


def family(problem: Problem, device: Device) -> list[Config]:
    """Configurations of `problem`, each once; none spills or needs more shared memory than a block
    can have. None for a problem without an element of C."""
    if 0 in (problem.m, problem.n, problem.batch):
        return []
    found = (c for c in _all(problem, device) if _fits(c, problem, device))
    return list(dict.fromkeys(found))


def _all(p: Problem, device: Device) -> Iterator[Config]:
    yield from _vectors(p)
    for shape in (*LARGE, *SMALL):
        tile = shape.config(p)
        yield from _scheduled(tile, p, device)
    if min(p.m, p.n) <= _FEW_ROWS:
        yield from _thin(p, device)


def _vectors(p: Problem) -> Iterator[Config]:
    """Element by element, for a few rows or columns."""
    few = min(p.m, p.n)
    if few > _MOST_VECTORS or p.batch > 1:
        return
    vectors = 1 << (few - 1).bit_length()
    for columns, depth, warps in VECTORS:
        tile = (vectors, columns, depth) if p.m <= p.n else (columns, vectors, depth)
        config = Config(tile, num_warps=warps, num_stages=1, kind=Kind.GEMV)
        if vector_residents(config):
            yield config


def _thin(p: Problem, device: Device) -> Iterator[Config]:
    """Of few rows or, turned, of few columns."""
    is_flat = p.m <= p.n
    few = p.m if is_flat else p.n
    for shape in SKINNY:
        if _rows(shape) <= max(16, 2 * few):
            yield from _unmoved(_turned(shape, is_flat).config(p), p, device)
    for shape in NARROW:
        if _rows(shape) <= max(16, 2 * few):
            turned = _turned(shape, is_flat).config(p, swapped=is_flat)
            yield from _scheduled(turned, p, device)


def _turned(shape: Shape, is_flat: bool) -> Shape:
    return shape if is_flat else replace(shape, rows=shape.columns, columns=shape.rows)


def _rows(shape: Shape) -> int:
    return shape.rows if isinstance(shape.rows, int) else sum(shape.rows)


# --- schedules of a tile


def _scheduled(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    """`tile` with each decomposition that its tiles ask for, moved by descriptors if they can."""
    moved = "descriptors" if can_move(p) else ""
    if _waste(tile, p) > _WASTE:
        return
    for pipeline in _pipelines(tile, p, device):
        yield _with(tile, pipeline, moved)


def _unmoved(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    yield tile
    for schedule in _splits(tile, p, device)[:1]:
        yield _with(tile, f"stream-k{{{schedule}}}")


def _with(tile: Config, *passes: str) -> Config:
    return replace(tile, pipeline=",".join(filter(None, passes)))


def _pipelines(tile: Config, p: Problem, device: Device) -> Iterator[str]:
    tiles, _ = _counts(tile, p)
    order = "tile-order{group=8}"
    yield order
    if tiles > device.sms:
        walk = f"{order},stream-k{{decomposition=data-parallel units={device.sms}}}"
        yield walk
        if not _is_composite(tile):  # whose products then wait for each other
            yield f"{walk},flatten"
    for merge in ("fixup",) if _is_full(tile) else ("workspace", "fixup"):
        for schedule in (*_aligned(tile, tiles, device), *_splits(tile, p, device)):
            yield f"{order},stream-k{{merge={merge} {schedule}}}"


def _is_composite(tile: Config) -> bool:
    return any(isinstance(extent, tuple) for extent in tile.tile)


def _is_full(tile: Config) -> bool:
    """Whether the accumulators leave no registers to fold other parts in."""
    return tile.bm * tile.bn // (32 * tile.num_warps) > _MOST_FOLDED


def _aligned(tile: Config, tiles: int, device: Device) -> Iterator[str]:
    """The tail shared out, in parts of some panels at least, where it is worth it."""
    if tiles % device.sms and 2 * tiles > device.sms and tile.bm * tile.bn >= _ALIGNED_ELEMENTS:
        for least in _LEAST_PANELS:
            yield f"decomposition=k-aligned units={device.sms} min-panels={least}"


def _splits(tile: Config, p: Problem, device: Device) -> list[str]:
    """The two counts of slices that come closest to filling the device once or twice over."""
    tiles, panels = _counts(tile, p)
    places = device.sms * min(2, residents(tile, p, device))
    fitting = [s for s in _SPLITS if tiles * s <= places and panels >= _PANELS_OF_PART * s]
    return [f"decomposition=split-k splits={s}" for s in fitting[-2:]]


def _counts(tile: Config, p: Problem) -> tuple[int, int]:
    """Tiles and panels."""
    across = -(-p.m // tile.bm) * -(-p.n // tile.bn)
    return p.batch * across, max(1, -(-p.k // tile.bk))


def _waste(tile: Config, p: Problem) -> float:
    tiles, _ = _counts(tile, p)
    least = max(p.m, 64) * max(p.n, 64) * p.batch
    return tiles * tile.bm * tile.bn / least


# --- what a device and its compiler take


def can_move(p: Problem) -> bool:
    """Whether dense operands can move by descriptors: each row starts at a multiple of 16 bytes."""
    return all(row * p.dtype.bytes % _DESCRIPTOR_BYTES == 0 and row > 0 for row in p.rows)


def _fits(config: Config, p: Problem, device: Device) -> bool:
    """Whether its passes exist and its stages have room."""
    if config.kind is Kind.GEMV:
        return True
    try:
        return shared_bytes(config, p) <= device.shared_bytes
    except LoopIRError:
        return False
