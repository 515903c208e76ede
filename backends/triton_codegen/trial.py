"""Running a program on made-up inputs, before and after a pipeline of passes, and comparing the
outputs."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.dtypes import TORCH_NAME
from backends.triton_codegen.settings import Settings
from loopir.nodes import AtMost, ElementRead, Grid1D, Kernel, Let, Param, Program
from loopir.scope import constants
from loopir.symbols import names_of, try_evaluate
from loopir.types import Direction, DType
from loopir.walk import walk
from passes.pipeline import PassPipeline

_LARGEST_INTEGER = 3
_MOST_BYTES = 2**36


class UsageError(Exception):
    """An option that is missing or does not fit the program."""


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
        """Run `program` and, if there are passes, what they make of it. A report of one line an
        output; whether the outputs agree as they must: equal where inputs are integers, else apart
        by rounding.

        UsageError: a size is missing. LoopIRError: a pass refuses, or the backend.
        """
        changed = pipeline.run(program)
        self._check_units(changed)
        reference, seconds = self._outputs(program)
        if not pipeline.passes:
            return _summary("program", reference, seconds), True
        outputs, changed_seconds = self._outputs(changed)
        lines = [
            _summary("before", reference, seconds),
            _summary("after", outputs, changed_seconds),
        ]
        agreements = [_compared(name, outputs[name], reference[name]) for name in reference]
        is_equal = all(exact or (close and not self.integer) for _, exact, close in agreements)
        verdict = "the outputs agree" if is_equal else "THE OUTPUTS DIFFER by more than rounding"
        return "\n".join([*lines, *(text for text, _, _ in agreements), verdict]), is_equal

    def _outputs(self, program: Program) -> tuple[dict[str, Any], float]:
        kernel = compile(program, self.target, settings=self.settings)
        assert isinstance(kernel, CompiledKernel)
        self._check_machine(program, kernel.target.text)
        tensors = {
            p.name: self._tensor(program, p, kernel.target.text) for p in program.kernels[0].params
        }
        start = time.perf_counter()
        kernel(*tensors.values(), **self._options(program, kernel.module.keywords))
        outputs = {
            p.name: tensors[p.name].cpu()
            for p in program.kernels[0].params
            if p.direction is not Direction.IN
        }
        return outputs, time.perf_counter() - start

    def _check_machine(self, program: Program, target: str) -> None:
        import torch

        if target == "jit" and not torch.cuda.is_available():
            raise UsageError("--target jit: there is no GPU here that torch can use")
        params = program.kernels[0].params
        total = sum(prod(self._shape(program, p)) * p.dtype.bytes for p in params)
        if total > _MOST_BYTES:
            raise UsageError(f"the tensors need {total:,} bytes; run takes {_MOST_BYTES:,} at most")

    def _options(self, program: Program, keywords: Mapping[str, str]) -> dict[str, int]:
        """Sizes that no tensor's shape shows, and the blocks that the launcher may pick."""
        kernel = program.kernels[0]
        picked = {r.name for r in kernel.requires if isinstance(r, AtMost)}
        options = {word: self._size(n) for n, word in keywords.items() if n not in picked}
        blocks = _block_symbol(kernel)
        if self.units is not None and blocks in picked:
            options[keywords[blocks]] = self.units
        return options

    def _check_units(self, program: Program) -> None:
        picked = {r.name for r in program.kernels[0].requires if isinstance(r, AtMost)}
        if self.units is not None and _block_symbol(program.kernels[0]) not in picked:
            raise UsageError("--units: the launcher picks no block count here; set it in the pass")

    def _size(self, name: str) -> int:
        if name not in self.sizes:
            raise UsageError(f"size {name} is open: add --size {name}=N")
        return self.sizes[name]

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
        kernel = program.kernels[0]
        known = constants(kernel)
        for symbol in sorted({n for e in param.shape for n in names_of(e)} - known.keys()):
            known[symbol] = self._size(symbol)
        return tuple(try_evaluate(e, known) or 0 for e in param.shape)

    def _values(self, program: Program, param: Param, shape: tuple[int, ...]) -> Any:
        import torch

        if param.direction is Direction.OUT:
            return torch.full(
                shape, torch.nan if param.dtype.is_float else 7, dtype=_wide(param.dtype)
            )
        if param.name in _index_buffers(program):
            return torch.arange(torch.Size(shape).numel()).reshape(shape)
        number = [p.name for p in program.kernels[0].params].index(param.name)
        rng = torch.Generator().manual_seed(1000 * self.seed + number)
        if self.integer or not param.dtype.is_float:
            return torch.randint(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, shape, generator=rng)
        return torch.randn(shape, generator=rng)


def _wide(dtype: DType) -> Any:
    import torch

    return torch.float64 if dtype.is_float else torch.int64


def _index_buffers(program: Program) -> set[str]:
    """Integer buffers whose elements are used as scalars: they get 0, 1, 2, ..."""
    lets = (s for _, s in walk(program.kernels[0].body) if isinstance(s, Let))
    return {let.expr.buffer for let in lets if isinstance(let.expr, ElementRead)}


def _block_symbol(kernel: Kernel) -> str | None:
    """The symbol that counts the blocks of a persistent kernel, where it is one."""
    root = kernel.body[0]
    return str(root.extent) if isinstance(root, Grid1D) and root.extent.is_Symbol else None


def _summary(title: str, outputs: Mapping[str, Any], seconds: float) -> str:
    sums = ", ".join(f"{name} {_digest(value)}" for name, value in outputs.items())
    return f"{title}: {1e3 * seconds:.1f} ms; {sums}"


def _digest(value: Any) -> str:
    import torch

    data = (
        value.contiguous().view(torch.uint8) if value.dim() else value.reshape(1).view(torch.uint8)
    )
    return hashlib.sha256(data.numpy().tobytes()).hexdigest()[:16]


def _compared(name: str, found: Any, wanted: Any) -> tuple[str, bool, bool]:
    """A line, whether the two are equal, and whether they differ by no more than the order of a sum
    and a last rounding can make them: finite in the same places, and within the larger of 2^-13 and
    four ulps, of the largest value."""
    import torch

    epsilon = torch.finfo(found.dtype).eps if found.dtype.is_floating_point else 0
    found, wanted = found.double(), wanted.double()
    same = found.eq(wanted) | (found.isnan() & wanted.isnan())
    if bool(same.all()):
        return f"{name}: equal", True, True
    error = (found - wanted).abs()
    scale = wanted.abs().nan_to_num(0, 0).max().item()
    same_places = bool(found.isfinite().eq(wanted.isfinite()).all())
    worst = error.nan_to_num(0).max().item()
    is_close = same_places and worst <= max(2.0**-13, 4 * epsilon) * scale
    text = f"{name}: largest error {worst:.3g} of values up to {scale:.3g}"
    return f"{text}, {int((~same).sum())} of {same.numel()} elements differ", False, is_close
