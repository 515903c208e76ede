"""Running a program on made-up inputs, before and after a pipeline of passes, and comparing the
outputs with each other and with those of the reference interpreter."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.headers import joined
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.trial_report import AFTER, BEFORE, PROGRAM, REFERENCE, Outputs, Report
from loopir.errors import LoopIRError
from loopir.interp import STORAGE, run
from loopir.interp.work import work
from loopir.nodes import ElementRead, Grid1D, Kernel, Let, Param, Program
from loopir.symbols import names_of, try_evaluate
from loopir.types import Direction, DType
from loopir.walk import is_parallel_loop, walk_program
from passes.opt_run import MOST_ELEMENTS, RunError, output_params
from passes.opt_sizes import UsageError, open_sizes, picked, require
from passes.pipeline import PassPipeline

_LARGEST_INTEGER = 3
_MOST_BYTES = 2**36
_MOST_WORK = 2**31  # a few seconds of the reference interpreter


@dataclass(frozen=True)
class Trial:
    """How to run. `sizes`: values of sizes that the program leaves open; `integer`: small integer
    inputs, whose sums are exact; `units`: most blocks of a persistent kernel; `target`: interpret,
    jit or None."""

    settings: Settings
    target: str | None
    sizes: Mapping[str, int]
    seed: int
    integer: bool
    units: int | None

    def compare(self, program: Program, pipeline: PassPipeline) -> tuple[str, bool]:
        """Run `program` and, if there are passes, what they make of it; interpret `program`, unless
        that is too much to do. A report; whether all outputs agree as they must: equal where inputs
        are integers, else apart by rounding.

        An untiled nest is interpreted, and compiled only as the passes leave it. UsageError: a size
        is missing. LoopIRError: a pass refuses, the backend, or the interpreter.
        """
        changed = pipeline.run(program)
        self._check_units(changed)
        report = Report(program, self.integer)
        versions = {BEFORE: program, AFTER: changed} if pipeline.passes else {PROGRAM: program}
        if pipeline.passes and _is_untiled(program):  # the backend takes it after the passes only
            del versions[BEFORE]
        for title, version in versions.items():
            report.add(title, *self._outputs(version))
        self._interpret(program, report)
        return report.verdict()

    def _outputs(self, program: Program) -> tuple[Outputs, float]:
        kernel = compile(program, self.target, settings=self.settings)
        assert isinstance(kernel, CompiledKernel)
        target = kernel.target.text
        self._check_machine(program, target)
        tensors = {p.name: self._tensor(program, p, target) for p in joined(program).params}
        options = self._options(program, kernel.module.keywords)
        start = time.perf_counter()
        kernel(*tensors.values(), **options)
        outputs = {n: _array(tensors[n], p.dtype) for n, p in output_params(program).items()}
        return outputs, time.perf_counter() - start

    def _interpret(self, program: Program, report: Report) -> None:
        """Add what the reference interpreter makes of the same inputs. RunError: it refuses."""
        params = joined(program).params
        if (count := sum(prod(self._shape(program, p)) for p in params)) > MOST_ELEMENTS:
            return report.skip(f"{count:,} elements of tensors; {MOST_ELEMENTS:,} at most")
        arrays = {p.name: _array(self._tensor(program, p, "cpu"), p.dtype) for p in params}
        sizes = self._interpreted_sizes(program)
        if work(program, arrays, sizes, _MOST_WORK) > _MOST_WORK:
            return report.skip(f"more than {_MOST_WORK:,} multiply-adds and elements of tiles")
        start = time.perf_counter()
        try:
            run(program, arrays, sizes, seed=self.seed)
        except LoopIRError as error:
            raise RunError(f"the reference interpreter refuses the program: {error}") from error
        outputs = {name: arrays[name] for name in output_params(program)}
        return report.add(REFERENCE, outputs, time.perf_counter() - start)

    def _check_machine(self, program: Program, target: str) -> None:
        import torch

        if target == "jit" and not torch.cuda.is_available():
            raise UsageError("--target jit: there is no GPU here that torch can use")
        params = joined(program).params
        total = sum(prod(self._shape(program, p)) * p.dtype.bytes for p in params)
        if total > _MOST_BYTES:
            raise UsageError(f"the tensors need {total:,} bytes; run takes {_MOST_BYTES:,} at most")

    def _options(self, program: Program, keywords: Mapping[str, str]) -> dict[str, int]:
        """Sizes that no tensor's shape shows, and the blocks that the launcher may pick."""
        chosen, blocks = picked(program), _block_symbol(program.kernels[0])
        options = {w: require(n, self.sizes) for n, w in keywords.items() if n not in chosen}
        if self.units is not None and blocks in chosen:
            options[keywords[blocks]] = self.units
        return options

    def _interpreted_sizes(self, program: Program) -> dict[str, int]:
        sizes, blocks = open_sizes(program, self.sizes), _block_symbol(program.kernels[0])
        if self.units is not None and blocks in picked(program):
            sizes[blocks] = self.units
        return sizes

    def _check_units(self, program: Program) -> None:
        if self.units is not None and _block_symbol(program.kernels[0]) not in picked(program):
            raise UsageError("--units: the launcher picks no block count here; set it in the pass")

    def _tensor(self, program: Program, param: Param, target: str) -> Any:
        import torch

        shape = self._shape(program, param)
        order = [*(d for d in range(len(shape)) if d != param.contiguous), param.contiguous]
        order = list(range(len(shape))) if param.contiguous is None else order
        values = self._values(program, param, shape)
        stored = (
            values.permute(order).contiguous().permute([order.index(d) for d in range(len(shape))])
        )
        return stored.to("cuda" if target == "jit" else "cpu").to(
            getattr(torch, TORCH_NAME[param.dtype])
        )

    def _shape(self, program: Program, param: Param) -> tuple[int, ...]:
        known = dict(joined(program).constants)
        for symbol in sorted({n for e in param.shape for n in names_of(e)} - known.keys()):
            known[symbol] = require(symbol, self.sizes)
        return tuple(try_evaluate(e, known) or 0 for e in param.shape)

    def _values(self, program: Program, param: Param, shape: tuple[int, ...]) -> Any:
        import torch

        if param.direction is Direction.OUT:
            return torch.full(
                shape, torch.nan if param.dtype.is_float else 7, dtype=_wide(param.dtype)
            )
        if param.name in _index_buffers(program):
            return torch.arange(torch.Size(shape).numel()).reshape(shape)
        number = [p.name for p in joined(program).params].index(param.name)
        rng = torch.Generator().manual_seed(1000 * self.seed + number)
        if self.integer or not param.dtype.is_float:
            return torch.randint(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, shape, generator=rng)
        return torch.randn(shape, generator=rng)


def _wide(dtype: DType) -> Any:
    import torch

    return torch.float64 if dtype.is_float else torch.int64


def _index_buffers(program: Program) -> set[str]:
    """Integer buffers whose elements are used as scalars: they get 0, 1, 2, ..."""
    lets = (s for _, s in walk_program(program) if isinstance(s, Let))
    return {let.expr.buffer for let in lets if isinstance(let.expr, ElementRead)}


def _block_symbol(kernel: Kernel) -> str | None:
    """The symbol that counts the blocks of a persistent kernel, where it is one."""
    root = kernel.body[0]
    return str(root.extent) if isinstance(root, Grid1D) and root.extent.is_Symbol else None


def _array(tensor: Any, dtype: DType) -> np.ndarray:
    """A tensor of `dtype` as the interpreter has it, on the CPU, of the same strides."""
    import torch

    held = torch.from_numpy(np.empty(0, STORAGE[dtype])).dtype
    return tensor.cpu().to(held).numpy()


def _is_untiled(program: Program) -> bool:
    """Whether a kernel has parallel loops where the backend needs a grid."""
    return any(is_parallel_loop(stmt) for kernel in program.kernels for stmt in kernel.body)
