"""The configurations that the planner looks at for one problem: tiles with the schedules that their
number asks for, by rules of thumb that leave out what cannot win."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from backends.planner.blocks import pieces, residents, shared_bytes, vector_residents
from backends.planner.config import Config, Kind
from backends.planner.device import Device
from backends.planner.passes_of import walks_tiles
from backends.planner.problem import Problem
from backends.planner.tiles import LARGE, NARROW, SCALAR, SKINNY, SMALL, STREAMING, VECTORS, Shape
from loopir.build import Layout
from loopir.types import DType
from passes.decomposition import KAligned

_SECTOR_BYTES = 32
_DESCRIPTOR_BYTES = 16  # rows of a tensor start at multiples of it, to be moved by descriptors
_WASTE = 2.5  # computed over needed elements of C, beyond which a tile is too large
_FEW_ROWS = 128  # of C, up to which loads are all that counts
_MOST_VECTORS = 8  # rows or columns of C that a GEMV computes
_SPLITS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
_TRIED_SPLITS = 3  # of these, for one tile
_PANELS_OF_PART = 2  # at least, of a slice
_LEAST_PANELS = (4, 8, 16)  # of a part of the tail
_COST = 3  # panels that the owner of a tail tile does beyond its helpers, who store meanwhile
_MOST_ARRIVALS = 8  # parts of a tile that the last to arrive may fold by itself
_MOST_FOLDED = 64  # elements of the accumulators of a thread, beside which others have room
_ALIGNED_ELEMENTS = 128 * 128  # of a tile, from which on its tail is worth sharing out
_ORDER = "tile-order{group=8}"
_NEIGHBOURS = "slot-order=split-slowest"  # share a part of K, and so panels in L2


def family(problem: Problem, device: Device) -> list[Config]:
    """Configurations of `problem`, each once; none needs more shared memory than a block can have,
    or spills on the H200, but for the fallback by pointers of some. None for a problem without an
    element of C."""
    if 0 in (problem.m, problem.n, problem.batch):
        return []
    found = (c for c in _all(problem, device) if _fits(c, problem, device))
    return list(dict.fromkeys(found))


def _all(p: Problem, device: Device) -> Iterator[Config]:
    vectors, few = [*_vectors(p)], min(p.m, p.n)
    yield from vectors
    for tile in _tiles(p):
        yield from _scheduled(tile, p, device)
    if few <= _FEW_ROWS and _has_tensor_cores(p) and not (vectors and few == 1):
        yield from _thin(p, device)


def _tiles(p: Problem) -> list[Config]:
    """Those for any number of rows and columns."""
    if _has_tensor_cores(p):
        return [shape.config(p) for shape in (*LARGE, *SMALL)]
    return [Config(sides, num_warps=w, num_stages=s) for sides, w, s in SCALAR]


def _has_tensor_cores(p: Problem) -> bool:
    """Whether they multiply elements of that type: all but f32, which products keep whole."""
    return p.dtype is not DType.F32


def _vectors(p: Problem) -> Iterator[Config]:
    """Element by element, for a few rows or columns, by blocks that read along K."""
    few = min(p.m, p.n)
    is_flat = p.m <= p.n
    along_k = p.b_layout is Layout.COL_MAJOR if is_flat else p.a_layout is Layout.ROW_MAJOR
    if few > _MOST_VECTORS or p.batch > 1 or not along_k:
        return
    vectors = 1 << (few - 1).bit_length()
    for columns, depth, warps in VECTORS:
        tile = (vectors, columns, depth) if is_flat else (columns, vectors, depth)
        config = Config(tile, "evict-first", num_warps=warps, num_stages=1, kind=Kind.GEMV)
        if columns > vectors and vector_residents(config, p):
            yield config


def _thin(p: Problem, device: Device) -> Iterator[Config]:
    """Of few rows or, turned, of few columns."""
    is_flat, few = p.m <= p.n, min(p.m, p.n)
    least, most = few if _has_sectors(p) else 0, max(16, 2 * few)
    for shape in (s for s in NARROW if least <= _rows(s) <= most):
        tile = (shape if is_flat else shape.turned).config(p, swapped=is_flat)
        yield from _scheduled(tile, p, device)
    for shape in (s for s in (STREAMING if least else SKINNY) if least <= _rows(s) <= most):
        tile = (shape if is_flat else shape.turned).config(p)
        yield from _scheduled(tile, p, device) if least else _unmoved(tile, p, device)


def _rows(shape: Shape) -> int:
    return sum(pieces(shape.rows))


# --- schedules of a tile


def _scheduled(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    """`tile` with each decomposition that its tiles ask for, moved by descriptors if they can."""
    if _waste(tile, p) > _WASTE:
        return
    tiles, _ = _counts(tile, p)
    is_at_once = tiles <= device.sms * residents(tile, p, device)
    yield from _moved(tile, _order(tile, p, is_at_once), p, device)
    yield from _walks(tile, p, device)
    yield from _parts(tile, p, device)


def _moved(tile: Config, pipeline: str, p: Problem, device: Device) -> Iterator[Config]:
    """A tile is finished in pieces where all of it has no room beside the stages."""
    passes = pipeline.split(",")
    moved = ["descriptors"] if can_move(p) else []
    whole = _with(tile, *passes, *moved)
    if _fits(whole, p, device):
        yield whole
    elif walks_tiles(whole) and moved:
        at = len(passes) - ("flatten" in passes)
        yield _with(tile, *passes[:at], "epilogue-pieces", *passes[at:], *moved)


def _walks(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    """Persistent blocks, as many as run at the same time: whole tiles, or these and the tail shared
    out."""
    for of_sm in range(1, min(2, residents(tile, p, device)) + 1):
        walks = _walks_of(tile, p, device, of_sm * device.sms)
        yield from (c for c in walks if residents(c, p, device) == of_sm)


def _walks_of(tile: Config, p: Problem, device: Device, units: int) -> Iterator[Config]:
    tiles, panels = _counts(tile, p)
    order, overlaps = _order(tile, p, is_at_once=False), _overlaps(tile, tiles, device)
    if tiles > units:
        walk = f"stream-k{{decomposition=data-parallel units={units}}}"
        for more in overlaps:
            yield from _moved(tile, f"{order},{walk}{more}", p, device)
    is_small = tile.bm * tile.bn <= _ALIGNED_ELEMENTS  # flattened, its sums take far more registers
    if is_small:
        overlaps = tuple(more for more in overlaps if not more)
    overlapped = replace(tile, launch_pdl=True)
    for walk, more in product(_aligned(tile, tiles, panels, units), overlaps):
        yield from _moved(overlapped, f"{order},{walk}{more}", p, device)


def _order(tile: Config, p: Problem, is_at_once: bool) -> str:
    """Which tile is next, and which operands caches need not keep: that of which tiles share
    nothing, and both where all run at the same time. Rows that begin within a sector are better
    kept, since the next panel reads the rest of it."""
    if not _has_sectors(p):
        return _ORDER
    is_line = p.m <= tile.bm or p.n <= tile.bn
    if is_line and not _is_composite(tile):
        return "evict-first"
    return f"{_ORDER},evict-first{{shared=true}}" if is_at_once else _ORDER


def _has_sectors(p: Problem) -> bool:
    """Whether each row of dense operands begins where a sector does."""
    return all(row * p.dtype.bytes % _SECTOR_BYTES == 0 and row > 0 for row in p.rows)


def _is_composite(tile: Config) -> bool:
    return any(isinstance(extent, tuple) for extent in tile.tile)


def _overlaps(tile: Config, tiles: int, device: Device) -> tuple[str, ...]:
    """Whether the next tile's panels come while one is finished: not of tiles in pieces, whose
    products would then wait for each other."""
    return ("",) if _is_composite(tile) or tiles <= device.sms else (",flatten", "")


def _aligned(tile: Config, tiles: int, panels: int, units: int) -> Iterator[str]:
    """The tail shared out, in parts of some panels at least, where it is worth it."""
    if 2 * tiles <= units or tile.bm * tile.bn < _ALIGNED_ELEMENTS:
        return
    tails = []
    for least in _LEAST_PANELS:
        tail = KAligned(tiles, panels, units, cost=_COST, min_panels=least).tail
        if tail is not None and tail not in tails:
            tails.append(tail)
            options = f"decomposition=k-aligned units={units} cost={_COST} min-panels={least}"
            yield f"stream-k{{merge=fixup slot-layout=auto {options}}}"


def _parts(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    """All tiles shared out alike, folded by a second kernel or by the last to arrive."""
    order = _order(tile, p, is_at_once=True)
    for splits in _splits(tile, p, device):
        options = f"slot-layout=auto decomposition=split-k splits={splits} {_NEIGHBOURS}"
        overlapped = replace(tile, launch_pdl=True)
        yield from _moved(overlapped, f"{order},stream-k{{merge=fixup {options}}}", p, device)
        if splits <= _MOST_ARRIVALS and not _is_full(tile):
            yield from _moved(tile, f"{order},stream-k{{merge=workspace {options}}}", p, device)


def _unmoved(tile: Config, p: Problem, device: Device) -> Iterator[Config]:
    """A block a tile, or a few, whose last to arrive folds."""
    yield tile
    for splits in _splits(tile, p, device):
        if splits <= _MOST_ARRIVALS:
            yield _with(tile, f"stream-k{{decomposition=split-k splits={splits}}}")


def _with(tile: Config, *passes: str) -> Config:
    return replace(tile, pipeline=",".join(passes))


def _is_full(tile: Config) -> bool:
    """Whether the accumulators leave no registers to fold other parts in."""
    return tile.bm * tile.bn // (32 * tile.num_warps) > _MOST_FOLDED


def _splits(tile: Config, p: Problem, device: Device) -> list[int]:
    """The counts of slices that come closest to filling the device once or twice over."""
    tiles, panels = _counts(tile, p)
    resident = min(2, residents(tile, p, device))
    places = device.sms * resident
    full = {device.sms * turns // tiles for turns in range(1, resident + 1)}
    fitting = [s for s in _SPLITS if tiles * s <= places]
    tried = {*fitting[-_TRIED_SPLITS:], *full}
    return sorted(s for s in tried if 2 <= s <= panels // _PANELS_OF_PART)


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
    """Whether its stages have room."""
    return config.kind is Kind.GEMV or shared_bytes(config, p) <= device.shared_bytes
