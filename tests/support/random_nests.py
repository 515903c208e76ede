"""Seeded random nests that no pass has tiled: parallel indices, summed indices, one Reduce.

`random_nest(seed)` is the same nest in every process. Its text keeps the rules of the IR and runs;
whether `tile` accepts it is another question. Buffers are larger than what the nest reads, so that
a test can put poison where no index leads.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from random import Random

import numpy as np

from loopir.interp import random_inputs
from loopir.nodes import Program
from loopir.parser import parse

#: names that a pass gives to things of its own among them
_PARALLEL = ("i", "j", "oh", "ow", "m", "k", "ti", "tj", "b", "BM")
_SUMMED = ("r", "s", "c", "kp", "n", "BK", "P")
_MOST_BLOCKS, _MOST_TURNS = 30, 12
_FLOATS = ("f32", "f32", "bf16", "f16", "f8e4m3", "i8")
_INTS = ("i32", "i8", "i16")
_OPS = ("add", "add", "add", "max", "min", "mul")


@dataclass(frozen=True)
class RandomNest:
    """`needed`: of each input, the part that the nest may read."""

    text: str
    needed: dict[str, tuple[int, ...]]

    @cached_property
    def program(self) -> Program:
        return parse(self.text)

    def inputs(self, seed: int) -> dict[str, np.ndarray]:
        """Small integers, and poison in the rest of the inputs."""
        arrays = random_inputs(self.program, seed)
        for name, part in self.needed.items():
            poisoned = np.full_like(arrays[name], 7 if arrays[name].dtype.kind == "i" else np.nan)
            kept = tuple(slice(0, n) for n in part)
            poisoned[kept] = arrays[name][kept]
            arrays[name] = poisoned
        return arrays


def random_nest(seed: int) -> RandomNest:
    return _Maker(Random(seed)).nest()


@dataclass
class _Loop:
    name: str
    size: str
    extent: int


@dataclass
class _Maker:
    rng: Random
    params: list[str] = field(default_factory=list)
    needed: dict[str, tuple[int, ...]] = field(default_factory=dict)
    allocs: list[str] = field(default_factory=list)
    lets: list[str] = field(default_factory=list)

    def nest(self) -> RandomNest:
        rng = self.rng
        self.is_product = rng.random() < 0.4
        self.band = self.loops(
            rng.randint(2 if self.is_product else 1, 4), _PARALLEL, _MOST_BLOCKS, "D", 0.02
        )
        self.summed = self.loops(rng.randint(1, 3), _SUMMED, _MOST_TURNS, "R", 0.05)
        self.is_int = rng.random() < 0.3
        self.type = rng.choice(("i32", "i32", "i16") if self.is_int else ("f32",) * 4 + ("f64",))
        accs = [f"acc{n}" for n in range(rng.choice((1, 1, 1, 2)))]
        ops = [rng.choice((*_OPS, "and", "or") if self.is_int else _OPS) for _ in accs]
        if self.is_product:
            ops[0] = "add"
        prologue = [line for acc in accs for line in self.start(acc)]
        inside = list(self.inside(accs, ops))
        epilogue = list(self.epilogue(accs))
        heads = ", ".join(f"{a}: {op}" for a, op in zip(accs, ops, strict=True))
        summed = self.around(self.summed, "for", [*self.lets, *inside])
        body = [*self.allocs, *prologue, f"reduce ({heads}) {{", *summed, "}", *epilogue]
        sizes = ", ".join(f"{v.size} = {v.extent}" for v in (*self.band, *self.summed))
        head = f"kernel @nest({', '.join(self.params)})\n    where {sizes} {{"
        lines = [head, *self.around(self.band, "parallel", body), "}", ""]
        return RandomNest("\n".join(lines), self.needed)

    def loops(
        self, count: int, names: tuple[str, ...], most: int, letter: str, empty: float
    ) -> list[_Loop]:
        chosen, loops = self.rng.sample(names, count), []
        for n, name in enumerate(chosen):
            room = most // max(1, prod(v.extent for v in loops))
            extent = 0 if self.rng.random() < empty else self.rng.randint(1, max(1, min(room, 9)))
            loops.append(_Loop(name, f"{letter}{n}", extent))
        return loops

    def around(self, loops: list[_Loop], word: str, body: list[str]) -> list[str]:
        ends = (str(v.extent) if self.rng.random() < 0.1 else v.size for v in loops)
        heads = [f"{word} {v.name} in 0 .. {e} {{" for v, e in zip(loops, ends, strict=True)]
        return [*heads, *body, *["}"] * len(loops)]

    # --- accesses

    def dimension(self, loops: list[_Loop]) -> tuple[str, int, int]:
        """An index over `loops`, with the least and the greatest value that it has."""
        rng = self.rng
        v = rng.choice(loops)
        top = max(0, v.extent - 1)
        style = rng.randrange(10)
        if style == 0:
            d = rng.randint(2, 3)
            return f"{v.name} // {d}", 0, top // d
        if style == 1:
            d = rng.randint(2, 3)
            return f"{v.name} % {d}", 0, d - 1
        if style == 2:
            shift = rng.randint(-2, 2)
            return f"{v.name} + {shift}", min(0, shift), max(0, top + shift)
        if style in (3, 4):
            w = rng.choice((*self.band, *self.summed) if v in self.summed else self.band)
            a, b, p = rng.randint(1, 2), rng.randint(1, 2), rng.randint(0, 2)
            text = f"{v.name} * {a} + {w.name} * {b} - {p}"
            return text, -p, max(0, top * a + max(0, w.extent - 1) * b - p)
        if style == 5:
            return f"{top} - {v.name}", 0, top
        if style == 6:
            return str(rng.randint(0, 2)), 0, 2
        return v.name, 0, top

    def load(
        self, tile: str, dtype: str, loops: list[_Loop], is_inside: bool, is_whole: bool = False
    ) -> str:
        """A load of `tile` from a buffer of its own; masked where an index is negative. Every index
        by itself, as most nests have it, or not; `is_whole`: all of `loops`."""
        rng = self.rng
        count = len(loops) if is_whole else rng.randint(1, 3)
        if is_whole or rng.random() < 0.6:
            chosen = rng.sample(loops, min(len(loops), count))
            dims = [(v.name, 0, max(0, v.extent - 1)) for v in chosen]
        else:
            dims = [self.dimension(loops) for _ in range(count)]
        name = tile.upper()
        is_masked = any(low < 0 for _, low, _ in dims) or rng.random() < 0.15
        exact = {v.name: v.size for v in (*self.band, *self.summed)}
        needed = [high + 1 for _, _, high in dims]
        if is_masked and rng.random() < 0.5:
            needed = [max(1, n - rng.randint(0, 2)) for n in needed]
        extra = [0 if is_masked else rng.choice((0, 0, 1, 3)) for _ in dims]
        sizes = [
            exact[text] if text in exact and n == high + 1 and not e and rng.random() < 0.7
            else str(n + e)
            for (text, _, high), n, e in zip(dims, needed, extra, strict=True)
        ]  # fmt: skip
        contiguous = rng.choice(("", "", " contiguous(0)", " contiguous(none)"))
        self.params.append(f"{name}: {dtype}[{', '.join(sizes)}]{contiguous}")
        self.needed[name] = tuple(needed)
        self.allocs.append(f"alloc {tile}: local {dtype}[]")
        texts = [self.let(text, is_inside) for text, _, _ in dims]
        return f"load {tile}, {name}[{', '.join(texts)}]{self.mask(dtype) if is_masked else ''}"

    def let(self, text: str, is_inside: bool) -> str:
        if not is_inside or self.rng.random() > 0.1:
            return text
        name = f"x{len(self.lets)}"
        self.lets.append(f"let {name} = {text}")
        return name

    def mask(self, dtype: str) -> str:
        values = (0, 0, 1, 2, -1)
        if dtype in ("f32", "f64", "bf16", "f16"):
            values = (*values, "inf", "-inf")
        return f" masked else {self.rng.choice(values)}"

    # --- values

    def start(self, acc: str) -> Iterator[str]:
        self.allocs.append(f"alloc {acc}: local {self.type}[]")
        if self.rng.random() < 0.8:
            yield f"fill {acc}, {self.rng.choice((0, 0, 1, -2))}"
        else:
            yield self.load(f"{acc}_start", self.type, self.band, False)
            yield f"ewise {acc} = {acc}_start"

    def inside(self, accs: list[str], ops: list[str]) -> Iterator[str]:
        rng, values = self.rng, []
        loads = rng.randint(1, 3)
        if self.is_product:
            values = yield from self.product(accs[0])
            loads = rng.choice((0, 0, 1))
        for n in range(loads):
            dtype = rng.choice(_INTS if self.is_int else _FLOATS)
            loops = rng.choice(([*self.band, *self.summed], self.summed + self.band[:1]))
            yield self.load(f"v{n}", dtype, loops, True)
            values.append(f"v{n}" if dtype == self.type else f"cast({self.type}, v{n})")
        if rng.random() < 0.2:
            self.allocs.append(f"alloc t: local {self.type}[]")
            yield f"ewise t = {self.value(values, 'add')}"
            values.append("t")
        for acc, op in zip(accs, ops, strict=True):
            for _ in range(rng.choice((0 if loads == 0 else 1, 1, 1, 2))):
                yield self.update(acc, op, self.value(values, op))

    def product(self, acc: str) -> Generator[str, None, list[str]]:
        """A product of two loads, which do not use the same parallel indices: a dot, mostly.
        Returns its factors."""
        rng = self.rng
        dtype = "i8" if self.is_int else rng.choice(("f16", "bf16", "f32", "f8e5m2"))
        shared = rng.sample(self.band, rng.randint(0, max(0, len(self.band) - 2)))
        others = [v for v in self.band if v not in shared]
        cut = rng.randint(1, len(others) - 1)
        for tile, own in (("u", others[:cut]), ("w", others[cut:])):
            yield self.load(tile, dtype, [*shared, *own, *self.summed], True, rng.random() < 0.9)
        factors = [t if dtype == self.type else f"cast({self.type}, {t})" for t in ("u", "w")]
        yield self.update(acc, "add", " * ".join(rng.sample(factors, 2)))
        return factors

    def value(self, values: list[str], op: str) -> str:
        """A contribution; products of many stay exact in f32."""
        rng = self.rng
        a, b = rng.choice(values), rng.choice(values)
        forms = (a, f"{a} * {b}", f"{a} * {b}", f"{a} + {b}", f"max({a}, {b})", f"-{a}")
        forms = (*forms, f"abs({a} - {b})", f"min({a}, 2) * 2", f"{a} + 1", "1")
        form = rng.choice((*forms, f"and({a}, {b})", f"or({a}, 1)") if self.is_int else forms)
        return f"min(max({form}, -1), 2)" if op == "mul" and not self.is_int else form

    def update(self, acc: str, op: str, value: str) -> str:
        sign = {"add": "+", "mul": "*"}.get(op)
        sides = (acc, f"({value})") if self.rng.random() < 0.7 else (f"({value})", acc)
        text = f" {sign} ".join(sides) if sign else f"{op}({', '.join(sides)})"
        return f"ewise {acc} = {text}"

    def epilogue(self, accs: list[str]) -> Iterator[str]:
        for acc in accs:
            if self.rng.random() < 0.4:
                yield self.load(f"{acc}_bias", self.type, self.band, False)
                yield f"ewise {acc} = {acc} {self.rng.choice('+-*')} {acc}_bias"
            if self.rng.random() < 0.2:
                yield f"ewise {acc} = max({acc}, 0)"
            yield from self.store(acc)

    def store(self, acc: str) -> Iterator[str]:
        """To a buffer of its own, at any order of the parallel indices, in place or not."""
        rng, name = self.rng, f"OUT_{acc}"
        order = rng.sample(self.band, len(self.band))
        shifts = [rng.choice((0, 0, 0, 1)) for _ in order]
        sizes = [f"{v.size} + {s}" if s else v.size for v, s in zip(order, shifts, strict=True)]
        texts = [f"{v.name} + {s}" if s else v.name for v, s in zip(order, shifts, strict=True)]
        place = f"{name}[{', '.join(texts)}]"
        style = rng.randrange(4)
        dtype = rng.choice(("bf16", "f16", "f64")) if style == 0 and not self.is_int else self.type
        self.params.append(
            f"{'inout' if style == 1 else 'out'} {name}: {dtype}[{', '.join(sizes)}]"
        )
        tile = acc
        if style == 1:
            self.allocs.append(f"alloc {acc}_old: local {dtype}[]")
            yield f"load {acc}_old, {place}"
            yield f"ewise {acc} = {acc} + {acc}_old"
        elif dtype != self.type:
            tile = f"{acc}_out"
            self.allocs.append(f"alloc {tile}: local {dtype}[]")
            yield f"ewise {tile} = cast({dtype}, {acc})"
        yield f"store {place}, {tile}"
