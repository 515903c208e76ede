"""Move tiles through tensor descriptors (TMA): one thread asks for a whole box, the hardware copies
it and clips it at the edges of the tensor.

Before:
    coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
    ...
    store C[ti * BM +: BM, tj * BN +: BN], out masked
After `descriptors`:
    coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked descriptor
    ...
    store C[ti * BM +: BM, tj * BN +: BN], out masked descriptor

Requires, of one access at least; the others stay as they are, and the report says why:
    DC01 to DC05 the access is a box of a tensor (`loopir.boxes.Need`): of a parameter, by axes that
    are dimensions, with sides and starts that the hardware takes, bounded by the tensor's edges;
    DC06 it stands in no wave loop, and goes by pointers so far; DC07 the kernel either loads or
    stores the buffer and its aliases; DC08 a block stores each element once.
Guarantees: same values, same bits. No workspace, no zeroing. Where the tensors of a launch do not
    suit (alignment, strides, sizes, device) the launcher takes the kernel's pointers instead.
    DC08 shows of a persistent kernel that places differ from turn to turn, but trusts two things,
    which what `stream-k` makes keeps, and a kernel written by hand must: that a k-aligned walk,
    known by its shape, comes to a tile once, and that a `for` and a `while` share no tile.
Not handled: atomics; workspaces, whose blocks meet by ordinary stores and loads.
Run it last: `stream-k` and `epilogue-pieces` refuse what has the word.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from loopir.boxes import MOST_ELEMENTS, ROW_BYTES, Need, access_moved, meanings, misfits
from loopir.deps import exchanged
from loopir.nodes import Body, Kernel, Load, Program, Stmt, Store
from loopir.scope import buffers
from loopir.types import Via
from loopir.walk import Path, body_fields, enclosing, is_wave_loop, walk
from passes.base import Pass, Refusal, Rows
from passes.descriptor_order import repeated_stores
from passes.options import option

#: the code of each need of a box, and what to do
_NEEDS = {
    Need.TENSOR: ("DC01", "leave it to pointers, or declare the dimension that has stride one"),
    Need.AXES: ("DC02", "index each dimension by an axis of its own, plus what it starts at"),
    Need.SIDES: (
        "DC03",
        f"take tiles of {ROW_BYTES} bytes a row or more, {MOST_ELEMENTS} at most a side",
    ),
    Need.START: ("DC04", "start rows at multiples of the tile's size"),
    Need.MASK: ("DC05", "bound the tile by the tensor alone: pass a view that ends at the limit"),
}


@dataclass(frozen=True)
class Plan:
    """The accesses to mark, and the reasons against the others."""

    marked: tuple[tuple[Path, Load | Store], ...]
    left: tuple[Refusal, ...]


@dataclass(frozen=True)
class DescriptorsPass(Pass):
    """Move tiles through tensor descriptors (TMA), with pointers as the launcher's fallback."""

    name: ClassVar[str] = "descriptors"

    loads: bool = option(True, "mark loads")
    stores: bool = option(True, "mark stores")

    def match(self, program: Program) -> Plan | tuple[Refusal, ...]:
        """What to mark, or every reason against every access."""
        wanted = (*([Load] if self.loads else []), *([Store] if self.stores else []))
        marked: list[tuple[Path, Load | Store]] = []
        left: list[Refusal] = []
        for number, kernel in enumerate(program.kernels):
            criteria = _Criteria(program, kernel)
            for path, stmt in walk(kernel.body, ("body",)):
                if isinstance(stmt, wanted):
                    reasons = criteria.reasons(path, stmt)
                    left += (replace(r, path=("kernels", number, *path)) for r in reasons)
                    marked += [] if reasons else [(("kernels", number, *path), stmt)]
        if marked:
            return Plan(tuple(marked), tuple(left))
        return tuple(left) or (self._nothing_to_do(),)

    def rewrite(self, program: Program, plan: Plan) -> Program:
        paths = frozenset(path for path, _ in plan.marked)
        kernels = (
            replace(k, body=_marked(k.body, ("kernels", i, "body"), paths))
            for i, k in enumerate(program.kernels)
        )
        return replace(program, kernels=tuple(kernels))

    def report(self, plan: Plan) -> Rows:
        moves = (move for _, move in plan.marked)
        texts = dict.fromkeys(f"{_verb(m)} {access_moved(m).buffer}" for m in moves)
        pointers = (f"{r.code}, {r.found}" for r in plan.left)
        return (
            ("descriptors", ", ".join(texts)),
            *(("pointers", text) for text in dict.fromkeys(pointers)),
        )

    def _nothing_to_do(self) -> Refusal:
        rule = "a load or a store goes by pointers so far"
        hint = "leave descriptors out for this program"
        return Refusal("DC06", rule, ("kernels", 0), "no load or store to mark", hint)


class _Criteria:
    """What speaks against marking an access of one kernel."""

    def __init__(self, program: Program, kernel: Kernel):
        self.kernel = kernel
        self.buffers = buffers(program, kernel)
        self.values = meanings(kernel)
        self.repeated = repeated_stores(kernel)
        self.exchanged = exchanged(kernel)

    def reasons(self, path: Path, move: Load | Store) -> tuple[Refusal, ...]:
        name = access_moved(move).buffer
        each = (
            *self._box_reasons(path, move),
            *self._place_reasons(path, move),
            *self._exchange_reasons(path, name),
            *self._order_reasons(path, name),
        )
        return tuple(each)

    def _box_reasons(self, path: Path, move: Load | Store) -> Iterator[Refusal]:
        """DC01 to DC05"""
        for misfit in misfits(move, self.buffers[access_moved(move).buffer], self.values):
            code, hint = _NEEDS[misfit.need]
            yield Refusal(code, misfit.need.value, path, misfit.found, hint, misfit.focus)

    def _place_reasons(self, path: Path, move: Load | Store) -> Iterator[Refusal]:
        """DC06"""
        rule = "an access outside wave loops, which goes by pointers so far"
        if move.via is Via.DESCRIPTOR:
            yield Refusal("DC06", rule, path, "a descriptor already", "apply descriptors once")
        if any(is_wave_loop(s) for _, s in enclosing(self.kernel.body, path[1:])):
            found, hint = "a wave loop", "move the tile as a whole, outside the wave loop"
            yield Refusal("DC06", rule, path, found, hint)

    def _exchange_reasons(self, path: Path, name: str) -> Iterator[Refusal]:
        """DC07"""
        if name in self.exchanged:
            rule = "the kernel either loads or stores the buffer, and what may be its storage"
            found, hint = f"`{name}` is loaded and stored", "use another buffer for one of them"
            yield Refusal("DC07", rule, path, found, hint, name)

    def _order_reasons(self, path: Path, name: str) -> Iterator[Refusal]:
        """DC08"""
        if path in self.repeated:
            rule = "a block stores each element once: copies through descriptors are in no order"
            found = f"an element of `{name}` may be stored twice"
            hint = "store once, behind the loop, or show by the index that places differ"
            yield Refusal("DC08", rule, path, found, hint, name)


def _verb(move: Load | Store) -> str:
    return "load" if isinstance(move, Load) else "store"


def _marked(body: Body, path: Path, paths: frozenset[Path]) -> Body:
    """`body`, which `path` leads to, with the accesses at `paths` marked."""

    def changed(stmt: Stmt, here: Path) -> Stmt:
        if here in paths:
            return replace(stmt, via=Via.DESCRIPTOR)  # pyright: ignore[reportCallIssue]
        nested = {n: _marked(getattr(stmt, n), (*here, n), paths) for n in body_fields(stmt)}
        return replace(stmt, **nested) if nested else stmt  # pyright: ignore[reportArgumentType]

    return tuple(changed(stmt, (*path, i)) for i, stmt in enumerate(body))
