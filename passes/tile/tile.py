"""Make tiles of the elements that an untiled nest computes one by one.

Before:
    parallel i in 0 .. M {
      parallel j in 0 .. N {
        alloc acc: local f32[]
        alloc a: local bf16[]
        alloc b: local bf16[]
        fill acc, 0
        reduce (acc: add) {
          for k in 0 .. K {
            load a, A[i, k]
            load b, B[k, j]
            ewise acc = acc + cast(f32, a) * cast(f32, b)
          }
        }
        store C[i, j], acc
      }
    }
After `tile{m=128 n=128 k=64}`:
    where ..., BM = 128, BN = 128, BK = 64, P = max(1, ceildiv(K, BK)) {
    parallel ti in 0 .. ceildiv(M, BM) {
      parallel tj in 0 .. ceildiv(N, BN) {
        alloc acc: local f32[BM, BN]
        alloc a: local bf16[BM, BK]
        alloc b: local bf16[BK, BN]
        fill acc, 0
        reduce (acc: add) {
          for kp in 0 .. P {
            load a, A[ti * BM +: BM, kp * BK +: BK] masked
            load b, B[kp * BK +: BK, tj * BN +: BN] masked
            dot acc, a, b
          }
        }
        store C[ti * BM +: BM, tj * BN +: BN], acc masked
      }
    }

Several indices of one group are flattened, row-major in loop order: over rows m of N * OH * OW,
    load x, X[m // (OH * OW), k, m // OW % OH, m % OW] over (m = ..., k = ...) masked
and contributions that are no dot are computed for all (m, k, n) and combined along k.

Requires: TI01 .. TI11 (docs/refusals.md).
Guarantees: same values, to the bit where the operator is exact in any order (integers, max, min,
    integer-valued floats); positions beyond an edge touch no memory and contribute the identity, so
    NaN or inf in elements that the nest does not read stay out. No workspace, no zeroing.
Not handled: scans, gathers along a tiled index, reductions of reductions; a third kind of index
    stays a loop of one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from loopir.nodes import Program
from loopir.types import Precision
from passes.base import Pass, Refusal, Rows
from passes.options import option
from passes.tile.contributions import contributions
from passes.tile.criteria import (
    CRITERIA,
    computable_places,
    precision_of_a_dot,
    sizes_of_groups,
    stored_as_wide,
)
from passes.tile.flow import Step, steps
from passes.tile.groups import GroupKind, Groups, find_groups
from passes.tile.names import Names, named_axes, named_tiles
from passes.tile.nest import Nest, find_nest
from passes.tile.rewrite import Plan, tiled

#: widths that are not said; the small ones where all (m, k, n) of a panel are in registers at once
_USUAL = {GroupKind.M: 128, GroupKind.N: 128, GroupKind.K: 64}
_SMALL = {GroupKind.M: 32, GroupKind.N: 32, GroupKind.K: 16}


def _width(what: str, kind: GroupKind) -> str:
    return f"{what}, {_USUAL[kind]} if not said, {_SMALL[kind]} for products without a dot"


@dataclass(frozen=True)
class TilePass(Pass):
    """Make tiles of the elements that an untiled nest computes one by one.

    Options with a wrong value raise ValueError that names the option.
    """

    name: ClassVar[str] = "tile"

    m: int | None = option(None, _width("rows of an output tile", GroupKind.M))
    n: int | None = option(None, _width("columns of an output tile", GroupKind.N))
    k: int | None = option(None, _width("summed indices of a panel", GroupKind.K))
    precision: Precision = option(Precision.IEEE, "how a dot of f32 operands multiplies")

    def __post_init__(self):
        super().__post_init__()
        for field in ("m", "n", "k"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise ValueError(f"{field}: an int >= 1, not {value!r}")

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """How the nest is tiled, or every reason against it."""
        nest = find_nest(program)
        if isinstance(nest, tuple):
            return nest
        groups = find_groups(nest)
        lines = steps(nest, groups)
        reasons = (
            *(r for criterion in CRITERIA for r in criterion(nest)),
            *computable_places(nest, groups),
            *stored_as_wide(nest, lines),
            *sizes_of_groups(nest, groups, self.n),
        )
        return reasons or self._plan(nest, groups, lines)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        return tiled(program, plan)

    def report(self, plan: Plan) -> Rows:
        """Rows for `--explain`: the groups, and how each contribution is summed up."""
        kept = ", ".join(loop.iv for loop in plan.groups.kept)
        return (
            *((f"group {kind.value}", axis.summary()) for kind, axis in plan.axes.items()),
            *((("loops", kept),) if kept else ()),
            *((c.update.acc, c.way.value) for c in plan.contributions.of.values()),
        )

    def _widths(self, usual: Mapping[GroupKind, int]) -> Mapping[GroupKind, int]:
        given = {GroupKind.M: self.m, GroupKind.N: self.n, GroupKind.K: self.k}
        return {kind: usual[kind] if n is None else n for kind, n in given.items()}

    def _plan(
        self, nest: Nest, groups: Groups, lines: tuple[Step, ...]
    ) -> Plan | tuple[Refusal, ...]:
        widths, names = self._widths(_USUAL), Names.of(nest, groups)
        found = contributions(nest, lines, widths)
        if found.has_cubes:
            widths = self._widths(_SMALL)
            found = contributions(nest, lines, widths)
        if reasons := tuple(precision_of_a_dot(nest, found, self.precision)):
            return reasons
        axes = named_axes(nest, groups, widths, names)
        tiles = named_tiles(lines, found, names)
        return Plan(nest, groups, lines, found, axes, tiles, names.fresh("P"), self.precision)
