"""Taking an untiled kernel apart: the parallel band, the summed loops, the statements before,
inside and after its one Reduce."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loopir.deps import dependences, scalar_values
from loopir.nodes import Body, ElementRead, For, Kernel, Let, Load, Program, Reduce, Stmt
from loopir.scope import allocs, buffers
from loopir.symbols import Expr, names_of, substitute
from loopir.types import DType, ForKind
from loopir.walk import Path, Placed, band, parallel_band, walk
from passes.base import Refusal

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Nest:
    """A parallel band around statements of one element, one of them a Reduce over a perfect nest of
    loops. `before`, `inside` and `after` are the statements themselves, not those nested in them;
    paths lead from the program."""

    program: Program
    kernel: Kernel
    band: tuple[tuple[Path, For], ...]
    loops: tuple[tuple[Path, For], ...]
    reduce: Reduce
    reduce_path: Path
    before: tuple[Placed, ...]
    inside: tuple[Placed, ...]
    after: tuple[Placed, ...]

    @property
    def statements(self) -> tuple[Placed, ...]:
        return (*self.before, *self.inside, *self.after)

    @property
    def indices(self) -> frozenset[str]:
        """The variables of the band and of the summed loops."""
        return frozenset(loop.iv for _, loop in (*self.band, *self.loops))

    @property
    def accumulators(self) -> frozenset[str]:
        return frozenset(a.tile for a in self.reduce.accumulators)

    @cached_property
    def lets(self) -> Mapping[str, Expr]:
        """The lets that are index arithmetic, each with those before it put in."""
        return scalar_values(self.kernel.body)

    @cached_property
    def reads(self) -> Mapping[str, ElementRead]:
        """The lets that read an element of a buffer."""
        lets = (s for _, s in walk(self.kernel.body) if isinstance(s, Let))
        return {s.name: s.expr for s in lets if isinstance(s.expr, ElementRead)}

    @cached_property
    def dtypes(self) -> Mapping[str, DType]:
        return {name: alloc.dtype for name, alloc in allocs(self.kernel).items()}

    @cached_property
    def shapes(self) -> Mapping[str, tuple[Expr, ...]]:
        """The extents of each buffer."""
        return {n: b.shape for n, b in buffers(self.program, self.kernel).items()}

    @cached_property
    def dependences(self) -> "nx.MultiDiGraph":
        """Nodes are paths from the kernel: those of the nest less their first two steps."""
        return dependences(self.kernel)

    def resolved(self, expr: Expr) -> Expr:
        """`expr` with the arithmetic of its lets put in."""
        return substitute(expr, self.lets)

    def indices_of(self, exprs: Iterable[Expr]) -> frozenset[str]:
        """The variables of band and loops that `exprs` depend on, through lets of any kind."""
        names = frozenset().union(*(names_of(self.resolved(e)) for e in exprs))
        through = (self.indices_of(self.reads[n].index) for n in names & self.reads.keys())
        return (names & self.indices).union(*through)

    def reads_memory(self, expr: Expr) -> bool:
        return bool(names_of(self.resolved(expr)) & self.reads.keys())

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """The loads inside the Reduce."""
        return tuple(s for _, s in self.inside if isinstance(s, Load))

    def signatures(self) -> dict[str, frozenset[int]]:
        """For each variable of the band, which of the loads inside the Reduce use it."""
        used = [self.indices_of(load.source.index) for load in self.loads]
        return {
            loop.iv: frozenset(n for n, names in enumerate(used) if loop.iv in names)
            for _, loop in self.band
        }

    @property
    def whole_signature(self) -> frozenset[int]:
        """That of a variable that every load uses."""
        return frozenset(range(len(self.loads)))


def find_nest(program: Program) -> Nest | tuple[Refusal, ...]:
    """The nest of the program's only kernel, or why there is none (TI01, TI02)."""
    if len(program.kernels) != 1:
        found = f"{len(program.kernels)} kernels"
        return (_ti01(("kernels", 0), found, "make it two programs, and apply the pass to one"),)
    kernel = program.kernels[0]
    root: Path = ("kernels", 0, "body", 0)
    parallel = tuple(parallel_band(kernel.body[0], root))
    if not parallel:
        found = f"a {type(kernel.body[0]).__name__.lower()} roots the kernel"
        return (_ti01(root, found, "leave tile out if the kernel is tiled already"),)
    band_path, innermost = parallel[-1]
    path: Path = (*band_path, "body")
    placed = _placed(innermost.body, path)
    tops = [p for p, s in placed if isinstance(s, Reduce)]
    everywhere = [p for p, s in walk(innermost.body, path) if isinstance(s, Reduce)]
    if len(tops) != 1 or len(everywhere) != 1:
        return (_ti02([p for p in everywhere if p not in tops[:1]], band_path, len(everywhere)),)
    at = int(tops[0][-1])
    reduce = innermost.body[at]
    assert isinstance(reduce, Reduce)
    loops = tuple(band(reduce.body[0], (*tops[0], "body", 0), _is_sequential_loop))
    inside = _placed(loops[-1][1].body, (*loops[-1][0], "body"))
    parts = (placed[:at], inside, placed[at + 1 :])
    return Nest(program, kernel, parallel, loops, reduce, tops[0], *parts)


def _placed(body: Body, path: Path) -> tuple[Placed, ...]:
    return tuple(((*path, i), stmt) for i, stmt in enumerate(body))


def _is_sequential_loop(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is ForKind.SEQUENTIAL


def _ti01(path: Path, found: str, hint: str) -> Refusal:
    rule = "the program is one kernel, rooted by parallel loops"
    return Refusal("TI01", rule, path, found, hint)


def _ti02(others: list[Path], band_path: Path, count: int) -> Refusal:
    rule = "exactly one reduce, and it stands in the band itself"
    hint = "write the summed loops as `reduce (acc: add) { for ... }`, directly in the band"
    if count > 1:
        hint = "combine them into one reduce with several accumulators, or make it two programs"
    found = f"{count} reduce statements" if count != 1 else "a reduce inside another statement"
    return Refusal("TI02", rule, others[0] if others else band_path, found, hint)
