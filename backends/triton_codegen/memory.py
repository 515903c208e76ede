"""Statements that move data: tiles to and from buffers, atomics, and what orders them.

Triton has no user shared memory: `alloc` writes nothing (or a first value), loads and fills make
the tile's value, and the pipeliner stages what feeds a `dot`. A `barrier` that only orders that
staging therefore writes nothing; one that stands where the block also stores to a buffer it loads
from becomes `tl.debug_barrier()`.
"""

from backends.triton_codegen.access import AccessWriter, Place, check_size
from backends.triton_codegen.descriptors import DescriptorWriter
from backends.triton_codegen.dtypes import ATOMIC_DTYPES, converted, full_text, number_text
from backends.triton_codegen.flow import after_assignment, needs_initial_value, writes_any
from backends.triton_codegen.fragment_slots import slot_place
from backends.triton_codegen.layout import tuple_text
from backends.triton_codegen.tiles import Tile
from backends.triton_codegen.writer import INDENT
from loopir.nodes import (
    Access,
    Alloc,
    Arrive,
    Atomic,
    Body,
    ElementRead,
    Fill,
    Let,
    Load,
    Stmt,
    Store,
    Workspace,
)
from loopir.types import DType, ElementOrder, ReduceOp, Via


class MemoryWriter(DescriptorWriter):
    """One method a node kind."""

    def let_element(self, let: Let) -> None:
        assert isinstance(let.expr, ElementRead)
        self.write_ir(let)
        place = self._place(Access(let.expr.buffer, let.expr.index, ()))
        guard = f", mask={place.mask}, other=0" if place.mask else ""
        cache = f", {c}" if (c := self._cache(let.expr.buffer)) else ""
        load = f"tl.load({place.pointer}{guard}{cache})"
        self.write(f"{self.scalar(let.name)} = tl.cast({load}, tl.int64)")
        self.definitions = after_assignment(self.definitions, let.name, None)

    def _cache(self, buffer: str) -> str:
        """What other blocks wrote during this launch may be stale in the cache of one
        multiprocessor: workspaces are read from the cache that all share."""
        is_shared = isinstance(self.buffers[buffer].source, Workspace)
        return 'cache_modifier=".cg"' if is_shared else ""

    def _place(self, access: Access) -> Place:
        writer = AccessWriter(
            access,
            self.buffers[access.buffer],
            self.scalars,
            self.names,
            self.env,
            self.used_strides,
            self.refuse,
        )
        return slot_place(writer) if self._is_ordered(access.buffer) else writer.place()

    def _is_ordered(self, buffer: str) -> bool:
        """Whether a slot is a vector in fragment order."""
        source = self.buffers[buffer].source
        return isinstance(source, Workspace) and source.order is ElementOrder.FRAGMENTS

    def _for_slot(self, buffer: str, tile: Tile) -> str:
        """The tile as it lies in the buffer."""
        if not self._is_ordered(buffer):
            return tile.name
        self.helpers.add("to_slot")
        return f"to_slot({tile.name})"

    def _placed(self, stmt: Stmt, access: Access) -> Place:
        self.write_ir(stmt)
        place = self._place(access)
        for line in place.lines:
            self.write(line)
        return place

    def alloc(self, alloc: Alloc, rest: Body) -> None:
        sizes = tuple(check_size(e, self.scalars, self.refuse) for e in alloc.shape)
        text = tuple_text([self.scalars.text(e) for e in alloc.shape]) if sizes else "()"
        tile = Tile(self.names.fresh(alloc.name), alloc.dtype, sizes, text)
        self.tiles[alloc.name] = tile
        if needs_initial_value(alloc.name, rest):
            self.write(
                f"{tile.name} = {self._full(tile, 0)}  # a first value: it is set in a nested body"
            )

    def _full(self, tile: Tile, value: int | float) -> str:
        return full_text(tile.shape_text, value, tile.dtype)

    def fill(self, fill: Fill) -> None:
        tile = self.tiles[fill.tile]
        self.write(f"{tile.name} = {self._full(tile, fill.value.value)}")

    def load(self, load: Load) -> None:
        if load.via is Via.DESCRIPTOR:
            self.load_box(load)
        else:
            self._load(load)

    def _load(self, load: Load) -> None:
        tile = self.tiles[load.tile]
        place = self._placed(load, load.source)
        other = number_text(converted(load.otherwise.value, tile.dtype), tile.dtype)
        masked = [f"mask={place.mask}", f"other={other}"] if place.mask else []
        cache = self._cache(load.source.buffer)
        is_streamed = load.evict_first and not cache  # PTX has no .cg with a policy
        eviction = 'eviction_policy="evict_first"' if is_streamed else ""
        items = [i for i in (place.pointer, *masked, cache, eviction) if i]
        if self._is_ordered(load.source.buffer):
            self.helpers.add("from_slot")
            sizes = ", ".join(self.scalars.text(axis.size) for axis in load.source.axes)
            self.write_items(f"{tile.name} = from_slot(tl.load(", items, f"), {sizes})")
        else:
            self.write_items(f"{tile.name} = tl.load(", items, ")")

    def store(self, store: Store) -> None:
        if store.via is Via.DESCRIPTOR:
            self.store_box(store)
        else:
            self._store(store)

    def _store(self, store: Store) -> None:
        tile = self.tiles[store.tile]
        place = self._placed(store, store.target)
        mask = f"mask={place.mask}" if place.mask else ""
        value = self._for_slot(store.target.buffer, tile)
        self.write_call("tl.store(", [place.pointer, value, mask])

    def atomic(self, atomic: Atomic) -> None:
        tile = self.tiles[atomic.tile]
        self._check_atomic(atomic.op, tile.dtype, tile.name)
        place = self._placed(atomic, atomic.target)
        mask = f"mask={place.mask}" if place.mask else ""
        order, value = ['sem="relaxed"', 'scope="gpu"'], self._for_slot(atomic.target.buffer, tile)
        self.write_call(f"tl.atomic_{atomic.op.value}(", [place.pointer, value, mask, *order])

    def _check_atomic(self, op: ReduceOp, dtype: DType, focus: str) -> None:
        able = ATOMIC_DTYPES.get(op, ())
        if dtype not in able:
            names = ", ".join(d.value for d in able) or "no type"
            text = f"Triton has an atomic {op.value} of {names}, not of {dtype.value}"
            self.refuse(text, focus)

    def barrier(self) -> None:
        if writes_any(self.loop, self.exchanged):
            self.write("tl.debug_barrier()")

    def arrive(self, arrive: Arrive) -> None:
        self.write_ir(arrive)
        counter = self.buffers[arrive.counter.buffer].source
        self._check_atomic(ReduceOp.ADD, counter.dtype, counter.name)
        place = self._place(Access(arrive.counter.buffer, arrive.counter.index, ()))
        flag, last = self.scalar(arrive.flag), self.scalars.text(arrive.expected - 1)
        call, order = f"{flag} = tl.atomic_add(", 'sem="acq_rel", scope="gpu")'
        self.write("tl.debug_barrier()  # all stores of the block, then the release")
        if place.mask:  # what a masked atomic returns means nothing
            self.write_call(call, [place.pointer, "1", f"mask={place.mask}", order[:-1]])
            self.write(f"{flag} = ({flag} == {last}) & {place.mask}")
        else:
            self.write(f"{call}{place.pointer}, 1, {order} == {last}")
        self.write(f"if {flag}:")
        self.write(f"{INDENT}tl.store({place.pointer}, 0)")
        self.write("tl.debug_barrier()  # the acquire, then all loads of the block")
