"""`loopir-opt --run`: the reference interpreter on seeded inputs, before and after the passes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from loopir.errors import LoopIRError
from loopir.interp import random_inputs, run
from loopir.interp.arguments import bind_where, known
from loopir.nodes import Param, Program
from loopir.types import Direction
from passes.opt_compare import Agreement, compared, digest
from passes.opt_sizes import UsageError, check_names, open_names, open_sizes, settable

MOST_ELEMENTS = 2**27  # of the arrays; making them takes ten times their memory


class RunError(LoopIRError):
    """A program that the interpreter refuses; the text says which of the two it is."""


@dataclass(frozen=True)
class Run:
    """How to run. `sizes`: values of open sizes; `seed`: of inputs and schedule; `is_integer`:
    inputs are small integers, whose sums are exact, so that results must be equal."""

    sizes: Mapping[str, int]
    seed: int
    is_integer: bool

    def alone(self, program: Program) -> list[str]:
        """Run `program`: a line an output. UsageError, RunError."""
        self._check(program)
        params, outputs = output_params(program), self._outputs("", program, program)
        return [_line(params[name], array) for name, array in outputs.items()]

    def compare(self, before: Program, after: Program) -> tuple[list[str], list[str]]:
        """Run both on the same inputs: a line an output, and the names of those that differ by more
        than they may. UsageError, RunError."""
        self._check(before, open_names(after))
        wanted = self._outputs("before the passes: ", before, before)
        found = self._outputs("after the passes: ", after, before)
        params, lines, differing = output_params(before), [], []
        for name, array in wanted.items():
            agreement = compared(found[name], array, params[name].dtype)
            lines.append(f"{_line(params[name], found[name])}, {agreement.text}")
            differing += [] if self._agrees(agreement) else [name]
        return lines, differing

    def _agrees(self, agreement: Agreement) -> bool:
        return agreement.is_equal or (agreement.is_close and not self.is_integer)

    def _check(self, program: Program, picked_later: Collection[str] = ()) -> None:
        check_names(self.sizes, settable(program) | set(picked_later))
        count = elements(program, open_sizes(program, self.sizes))
        if count > MOST_ELEMENTS:
            most = f"--run takes {MOST_ELEMENTS:,} at most; --size makes a problem smaller"
            raise UsageError(f"the arrays have {count:,} elements, and {most}")

    def _outputs(self, title: str, program: Program, before: Program) -> dict[str, np.ndarray]:
        """What `program` makes of the inputs of `before`."""
        try:
            sizes, all_sizes = open_sizes(before, self.sizes), open_sizes(program, self.sizes)
            added = random_inputs(program, self.seed, self.is_integer, all_sizes)
            arrays = {**added, **random_inputs(before, self.seed, self.is_integer, sizes)}
            run(program, arrays, all_sizes, seed=self.seed)
        except LoopIRError as error:
            raise RunError(f"{title}{error}") from error
        except MemoryError:
            raise UsageError("not enough memory; --size makes a problem smaller") from None
        return {name: arrays[name] for name in output_params(before)}


def output_params(program: Program) -> dict[str, Param]:
    """The parameters that a kernel of the program may write, by name."""
    params = (p for kernel in program.kernels for p in kernel.params)
    return {p.name: p for p in params if p.direction is not Direction.IN}


def elements(program: Program, sizes: Mapping[str, int]) -> int:
    """How many elements the parameters have. LaunchError: a shape has no value."""
    total = 0
    for kernel in program.kernels:
        env = dict(sizes)
        bind_where(kernel, env)
        shapes = ((p.name, p.shape) for p in kernel.params)
        total += sum(prod(known(e, env, f"the shape of {n}") for e in shape) for n, shape in shapes)
    return total


def _line(param: Param, array: np.ndarray) -> str:
    return f"{param.name} {param.dtype.value}{list(array.shape)} {digest(array)}"
