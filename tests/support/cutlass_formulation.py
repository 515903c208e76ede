"""The CUTLASS 3.x decision rule a second time, written from its description on arrays of problems,
and the work of its blocks by counting out every k tile. Shares no code with the rule it checks."""

from dataclasses import dataclass, fields

import numpy as np

HEURISTIC, DATA_PARALLEL, SPLIT_K, STREAM_K = range(4)
ANY_RASTER, ALONG_M, ALONG_N = range(3)
CLUSTERS = np.array([(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (2, 4), (3, 1), (4, 4)])
TILES = np.array([(128, 128, 64), (256, 128, 64), (128, 256, 64), (64, 64, 64), (128, 128, 32)])
MACHINES = np.array([1, 2, 7, 16, 60, 64, 78, 108, 114, 132, 148])


@dataclass
class Problems:
    """One array a field; 0 active clusters: not given."""

    m: np.ndarray
    n: np.ndarray
    k: np.ndarray
    batch: np.ndarray
    tile: np.ndarray
    cluster: np.ndarray
    sms: np.ndarray
    max_swizzle: np.ndarray
    raster: np.ndarray
    mode: np.ndarray
    splits: np.ndarray
    active: np.ndarray
    alignment: np.ndarray
    warp_groups: np.ndarray

    def __getitem__(self, index):
        return Problems(*(getattr(self, f.name)[index] for f in fields(self)))


def random_problems(seed: int, count: int) -> Problems:
    """Sizes over several magnitudes, so that every branch of the rule is met often."""
    r = np.random.default_rng(seed)

    def magnitude(most: int) -> np.ndarray:
        return np.exp(r.uniform(0, np.log(most), count)).astype(np.int64)

    mode = r.choice([HEURISTIC, HEURISTIC, DATA_PARALLEL, SPLIT_K, STREAM_K, STREAM_K], count)
    may_split = (mode == SPLIT_K) | ((mode == HEURISTIC) & (r.random(count) < 0.2))
    return Problems(
        m=magnitude(16_000),
        n=magnitude(16_000),
        k=magnitude(40_000) - (r.random(count) < 0.01),
        batch=r.choice([1, 1, 1, 2, 3, 7], count),
        tile=TILES[r.integers(len(TILES), size=count)],
        cluster=CLUSTERS[r.integers(len(CLUSTERS), size=count) * (r.random(count) < 0.6)],
        sms=np.where(r.random(count) < 0.7, r.choice(MACHINES, count), r.integers(1, 300, count)),
        max_swizzle=r.integers(1, 10, count),
        raster=r.integers(0, 3, count),
        mode=mode,
        splits=np.where(may_split, r.integers(1, 40, count), 1),
        active=r.integers(1, 80, count) * (r.random(count) < 0.3),
        alignment=r.choice([1, 1, 1, 2, 4], count),
        warp_groups=r.integers(1, 4, count),
    )


def resident_blocks(sms: int, cluster: int) -> int:
    """Clusters placed one by one into GPCs of 18 SMs."""
    gpcs = [18] * (sms // 18) + [sms % 18] if sms >= 18 else [18]
    blocks = 0
    for room in gpcs:
        while room >= cluster:
            room -= cluster
            blocks += cluster
    return min(blocks, sms)


RESIDENT = np.array([[resident_blocks(s, c) for c in range(1, 17)] for s in range(300)])


def up(value: np.ndarray, step: np.ndarray) -> np.ndarray:
    return value + -value % step


def formulate(p: Problems) -> dict[str, np.ndarray]:
    """Every figure of the rule; where `wave` is less than a cluster the rest has no meaning."""
    cm, cn = p.cluster.T
    cs = cm * cn
    bm, bn = up(-(-p.m // p.tile[:, 0]), cm), up(-(-p.n // p.tile[:, 1]), cn)
    kt = np.maximum(1, -(-p.k // p.tile[:, 2]))
    d = np.minimum(bm, bn)
    thresholds = ((2, 2), (4, 3), (8, 6))  # each implies the one before
    log = sum(((p.max_swizzle >= s) & (d >= t)).astype(np.int64) for s, t in thresholds)
    pm, pn = up(bm, cm << log), up(bn, cn << log)
    tiles = pm * pn * p.batch
    along_m = (p.raster == ALONG_M) | ((p.raster == ANY_RASTER) & (pn > pm))

    fixed, other = np.where(along_m, cn, cm), np.where(along_m, cm, cn)
    counted = (p.active > 0) & (p.active * cs <= p.sms)
    free = np.where(counted, p.active * other, RESIDENT[p.sms, cs - 1] // fixed)
    wave = fixed * np.where(cs == 1, p.sms, free)
    usable = wave >= cs
    w = np.maximum(wave, 1)

    full, tail = tiles // w, tiles % w
    sk = np.where(full >= 2, tail + w, tiles)
    whole = (p.mode == DATA_PARALLEL) | (p.mode == SPLIT_K) | (tail == 0) | (kt < 9)
    whole |= (p.mode == HEURISTIC) & (tail * 2 >= w)
    sk = np.where(whole, 0, sk - sk % cs)
    most = kt * sk // 8
    units = np.minimum(w - w % cs, most - most % cs)

    asked = (p.mode == SPLIT_K) | ((p.mode == HEURISTIC) & (p.splits > 1))
    factor = np.minimum(np.minimum(p.splits, p.sms), kt)
    aligned = (p.alignment > 1) & (kt // factor == 1)
    factor = np.where(aligned, np.maximum(1, kt // p.alignment), factor)
    alone = (p.mode == DATA_PARALLEL) | (sk == 0) | (units == 0)
    sk1, units1 = np.maximum(sk, 1), np.maximum(units, 1)
    even = (p.mode == HEURISTIC) & (sk < units) & (units % sk1 == 0)
    cases = [asked, alone, even]
    mode = np.select(cases, [SPLIT_K, DATA_PARALLEL, SPLIT_K], STREAM_K)
    splits = np.select(cases, [factor, 1, units // sk1], 1)

    streams = mode == STREAM_K
    score = np.zeros_like(sk)
    ct, cu = sk // cs, units // cs
    across = np.where(along_m, pm // cm, pn // cn)
    for g in range(2, 9):
        valid = (g <= across) & (cu % g == 0)
        valid &= (ct // g) * cs * kt >= 8 * np.maximum(units // g, 1)
        score = np.where(valid, np.maximum(score, g + 100 * (ct % g == 0)), score)
    groups = np.where(streams, np.maximum(1, score % 100), 1)

    amount = np.where(streams, kt * (ct // groups) * cs, kt)
    share = np.where(streams, units1 // groups, splits)
    partials = np.select([mode == SPLIT_K, streams], [tiles, sk], 0)
    return {
        "usable": usable,
        "tiles": tiles,
        "wave": wave,
        "k_tiles": kt,
        "padded_m": pm,
        "padded_n": pn,
        "log_swizzle": log,
        "along_m": along_m,
        "mode": mode,
        "splits": splits,
        "sk_tiles": sk,
        "sk_units": units,
        "groups": groups,
        "big_groups": np.where(streams, ct % groups, 0),
        "k_tiles_per_unit": amount // share,
        "big_units": amount % share // np.where(streams, cs, 1),
        "reduction_bytes": up(partials * p.tile[:, 0] * p.tile[:, 1] * 4, np.array(128)),
        "barrier_bytes": up(partials * p.warp_groups * 4, np.array(128)),
    }


Piece = tuple[int, int, int]  # tile, k0, k1


def stream_k_work(f: dict[str, int], cluster: int) -> list[list[Piece]]:
    """The pieces of each block for a Stream-K row of `formulate`, in order, by dealing out lists
    of k tiles."""
    kt, groups, wave = f["k_tiles"], f["groups"], f["wave"]
    work: list[list[Piece]] = [[] for _ in range(wave)]
    for index in range(f["sk_units"]):
        c, rank = divmod(index, cluster)
        owned = _dealt(f, cluster, c % groups)[c // groups]
        tiles = list(dict.fromkeys(tile for tile, _ in reversed(owned)))
        for tile in tiles:
            ks = [k for t, k in owned if t == tile]
            assert ks == list(range(ks[0], ks[-1] + 1))
            work[index].append(((tile * groups + c % groups) * cluster + rank, ks[0], ks[-1] + 1))
    for index in range(f["sk_units"], f["sk_units"] + f["tiles"] - f["sk_tiles"]):
        work[index % wave].append((index - f["sk_units"] + f["sk_tiles"], 0, kt))
    return work


def _dealt(f: dict[str, int], cluster: int, group: int) -> list[list[tuple[int, int]]]:
    """The (tile, k) of each unit of a group, adjusted as a unit does it: by its start and length
    alone."""
    kt, groups = f["k_tiles"], f["groups"]
    mine = range(group, f["sk_tiles"] // cluster, groups)  # cluster tiles of this group
    row = [(tile, k) for tile in range(len(mine)) for k in range(kt)]
    units = f["sk_units"] // cluster // groups
    lengths = [len(row) // units + (u < len(row) % units) for u in range(units)]
    dealt = []
    for u, length in enumerate(lengths):
        start = sum(lengths[:u])
        a = start % kt
        e = (start + length) % kt
        if 0 < a < 8:
            start, length = start - a, length + a
        elif a > kt - 8:
            start, length = start + kt - a, length - (kt - a)
        if 0 < e < 8:
            length -= e
        elif e > kt - 8:
            length += kt - e
        assert length >= 0
        dealt.append(row[start : start + length])
    return dealt
