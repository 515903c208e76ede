"""Cases of every builder: what each computes, by the oracles of `tests.support.oracles`, and what
Stream-K says of it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from loopir import build
from loopir.build import Activation, ConvLayout, Epilogue, batched_gemm, gemm, gemv
from loopir.interp import random_inputs
from loopir.nodes import Program
from loopir.types import Direction, ReduceOp
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support import oracles

Arrays = dict[str, np.ndarray]

#: builders of programs that are canonical at once
TILED = (gemm, batched_gemm, gemv)
#: all but what `auto` is another name for
MERGES = (Merge.WORKSPACE, Merge.FIXUP, Merge.ATOMIC_WORKSPACE, Merge.ATOMIC)
_OF_THE_OUTPUT = frozenset({"SK07", "SK08"})


@dataclass(frozen=True)
class Case:
    """A call of a builder. `tile`: options of the pass. `refused`: the codes of
    `stream-k{merge=atomic}`, none if it applies; what other merges say follows, see `codes`.
    `sizes`: of launch symbols. `adjust` makes the inputs from integers in -4 .. 4."""

    name: str
    builder: Callable[..., Program]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    tile: str = "m=16 n=16 k=16"
    refused: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    adjust: Callable[[np.ndarray], np.ndarray] | None = None

    def __str__(self) -> str:
        return self.name

    @cached_property
    def program(self) -> Program:
        """What the builder gives."""
        return self.builder(*self.arguments, **self.options)

    @cached_property
    def canonical(self) -> Program:
        """A grid of tiles, operands staged through shared memory."""
        return self.program if self.builder in TILED else self.lowered

    @cached_property
    def lowered(self) -> Program:
        return parse_pipeline(f"tile{{{self.tile}}},offload,local-storage").run(self.program)

    def codes(self, merge: Merge) -> frozenset[str]:
        """With which a merge refuses: what follows the reduction, and an output that is read, are
        nothing to a workspace; operators and types are nothing to slots."""
        if merge is Merge.ATOMIC:
            return self.refused
        return self.refused - _OF_THE_OUTPUT if merge is Merge.ATOMIC_WORKSPACE else frozenset()

    @property
    def merges(self) -> tuple[Merge, ...]:
        """Those that apply."""
        return tuple(merge for merge in MERGES if not self.codes(merge))

    def stream_k(self, merge: Merge, **options: Any) -> StreamKPass:
        return StreamKPass(merge=merge, launch_constants=bool(self.sizes), **options)

    def inputs(self, seed: int, integer_valued: bool = True) -> Arrays:
        """An array for every parameter, outputs poisoned."""
        arrays = random_inputs(self.program, seed, integer_valued, self.sizes)
        for param in self.program.kernels[0].params:
            if self.adjust and integer_valued and param.direction is Direction.IN:
                arrays[param.name][...] = self.adjust(arrays[param.name])
        return arrays

    def expected(self, arrays: Arrays) -> Arrays:
        """The outputs in f64 or i64, unrounded."""
        return self._oracle(self._called, arrays)

    def magnitude(self, arrays: Arrays) -> Arrays:
        """What a rounding of 1 in each step may change in the outputs: sums of absolute values."""
        called = dict(self._called)
        if e := called.get("epilogue"):
            changed = replace(e, alpha=abs(e.alpha), beta=abs(e.beta), activation=None)
            called["epilogue"] = changed
        is_gated = called.get("activation") is not None
        found = self._oracle(
            called | {"activation": None}, {n: np.abs(a) for n, a in arrays.items()}
        )
        return {name: a * (_GATED if is_gated else 1) for name, a in found.items()}

    @property
    def outputs(self) -> tuple[str, ...]:
        params = self.program.kernels[0].params
        return tuple(p.name for p in params if p.direction is not Direction.IN)

    @property
    def _called(self) -> dict[str, Any]:
        call = inspect.signature(self.builder).bind(*self.arguments, **self.options)
        call.apply_defaults()
        return call.arguments

    def _oracle(self, called: Mapping[str, Any], arrays: Arrays) -> Arrays:
        wide = {name: oracles.wide(array) for name, array in arrays.items()}
        return ORACLES[self.builder.__name__](called, wide)


#: two factors that both err, and the steepest slope of an activation
_GATED = 2.2


def check(case: Case, found: Arrays, arrays: Arrays) -> None:
    """AssertionError: an output among `found` is not, to the bit, what the oracle makes of the
    integers in `arrays`, once rounded."""
    expected = case.expected(arrays)
    assert expected.keys() == set(case.outputs)
    for param in case.program.kernels[0].params:
        if param.name in expected:
            oracles.compare(found[param.name], expected[param.name], param.dtype, None)


# --- oracles: the builder's arguments, arrays in f64 or i64 -> outputs


def _product(called: Mapping[str, Any], x: Arrays) -> Arrays:
    total = x["A"] @ x["B"]
    return {"C": oracles.epilogue(called.get("epilogue") or Epilogue(), total, x, "C")}


def _gemv(called: Mapping[str, Any], x: Arrays) -> Arrays:
    total = (x["A"].T if called["transposed"] else x["A"]) @ x["X"]
    return {"Y": oracles.epilogue(called["epilogue"] or Epilogue(), total, x, "Y")}


def _conv(called: Mapping[str, Any], x: Arrays) -> Arrays:
    usual = "ncw" if x["X"].ndim == 3 else "nchw"
    layout = ConvLayout(called["layout"] or usual)
    steps = (called[name] for name in ("stride", "padding", "dilation", "groups"))
    total = oracles.conv(x["X"], x["F"], layout, *steps)
    axis = -1 if layout.channels_last else 1
    return {"Y": oracles.epilogue(called["epilogue"] or Epilogue(), total, x, "Y", axis)}


def _contraction(called: Mapping[str, Any], x: Arrays) -> Arrays:
    operands = [x[name] for name in "AB" if name in x]
    return {"C": np.atleast_1d(np.einsum(called["spec"], *operands, optimize=True))}


def _dual_gemm(called: Mapping[str, Any], x: Arrays) -> Arrays:
    gate, kind = x["A"] @ x["B1"], called["activation"]
    gate = oracles.activation(Activation(kind).value, gate) if kind else gate
    return {"C": gate * (x["A"] @ x["B2"])}


def _reduction(called: Mapping[str, Any], x: Arrays) -> Arrays:
    return {"Y": oracles.reduction(ReduceOp(called["op"]), x["X"], called["axes"])}


def _sum_and_max(called: Mapping[str, Any], x: Arrays) -> Arrays:
    ops = {"SUM": ReduceOp.ADD, "MAX": ReduceOp.MAX}
    return {out: oracles.reduction(op, x["X"], called["axes"]) for out, op in ops.items()}


#: of every builder in `loopir.build`
ORACLES: Mapping[str, Callable[[Mapping[str, Any], Arrays], Arrays]] = {
    "gemm": _product,
    "batched_gemm": _product,
    "gemv": _product,
    "gemm_nest": _product,
    "batched_gemm_nest": _product,
    "gemv_nest": _gemv,
    "conv_nest": _conv,
    "contraction_nest": _contraction,
    "dual_gemm_nest": _dual_gemm,
    "reduction_nest": _reduction,
    "sum_and_max_nest": _sum_and_max,
}


def builders() -> set[str]:
    """Every function that `loopir.build` offers."""
    return {name for name in build.__all__ if inspect.isfunction(getattr(build, name))}


# --- inputs


def nonzero(values: np.ndarray) -> np.ndarray:
    """-4 .. 4 as 1, 2, -1: products of many stay exact."""
    return np.choose(np.abs(values).astype(int) % 3, (1, 2, -1))


def patterns(values: np.ndarray) -> np.ndarray:
    """-4 .. 4 as patterns that have many bits in common, in any integer type."""
    return (values.astype(np.int64) * 0x1B & 0x3A) | 0x41


def open_sizes(case: Case) -> dict[str, int]:
    """The sizes of a case that the shapes of arrays do not tell."""
    told = {str(e) for p in case.program.kernels[0].params for e in p.shape}
    return {name: size for name, size in case.sizes.items() if name not in told}
