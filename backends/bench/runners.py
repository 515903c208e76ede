"""How each kind of arm computes a product into its output."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from backends.bench.arms import Arm, Library
from backends.bench.operands import Operands
from backends.planner.config import Config
from backends.triton_codegen.compile import compile
from backends.triton_codegen.ops.bound import compiled
from backends.triton_codegen.ops.matmul import matmul

_POISON = -77  # of integers; of floats NaN


@dataclass
class Runner:
    """`run` computes into `out`, or puts its own result there; `prepare` is not timed; `release`
    lets go of memory that launches keep. `kernel`: what `runner` makes the same from in less time,
    if that is so."""

    out: torch.Tensor | None
    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None
    workspace_bytes: int = 0
    kernel: bytes = field(default=b"", repr=False)
    release: Callable[[], None] = lambda: None

    def poison(self) -> None:
        """Nothing that is read from the output later was there before."""
        if self.out is not None:
            self.out.fill_(float("nan") if self.out.is_floating_point() else _POISON)


def runner(arm: Arm, operands: Operands, kernel: bytes = b"") -> Runner:
    """`kernel`: of a runner of this arm on the same problem, in whatever process, if there is one.
    Raises what compiling raises."""
    if arm.config is not None:
        return _generated(arm.config, operands, kernel)
    match arm.library:
        case Library.INDUCTOR:
            return _inductor(operands)
        case Library.MATMUL:
            return _public(operands)
        case Library() as library:
            return _torch(library, operands)
    raise ValueError(f"{arm.name}: neither a configuration nor a library")


def _generated(config: Config, operands: Operands, given: bytes) -> Runner:
    a, b, out = operands.a, operands.b, operands.output()
    if given:
        kernel = compile(pickle.loads(given), "jit" if a.is_cuda else "interpret")
    else:
        kernel = compiled(operands.problem, config, a.is_cuda)
    return Runner(
        out,
        lambda: kernel(a, b, out),
        workspace_bytes=kernel.workspace_bytes(),
        kernel=b"" if given else pickle.dumps(kernel.module),
        release=kernel.release_workspaces,
    )


def _public(operands: Operands) -> Runner:
    a, b, out = operands.a, operands.b, operands.output()
    return Runner(out, lambda: matmul(a, b, out=out))


def _torch(library: Library, operands: Operands) -> Runner:
    a, b, out = operands.a, operands.b, operands.output()
    more = {} if out.dtype == a.dtype else {"out_dtype": out.dtype}
    multiply = torch.mm if a.dim() == 2 else torch.bmm
    return Runner(out, lambda: multiply(a, b, **more, out=out), _preferring(library, a))


def _inductor(operands: Operands) -> Runner:
    a, b, problem = operands.a, operands.b, operands.problem
    if problem.result is not problem.dtype:
        raise ValueError("inductor: the result has another type than the operands")
    torch.compiler.reset()  # a shape of its own, not a dynamic one
    multiply = torch.compile(torch.matmul, mode="max-autotune-no-cudagraphs", dynamic=False)

    def run() -> None:
        made.out = multiply(a, b)

    made = Runner(None, run, _preferring(Library.CUBLAS, a))
    return made


def _preferring(library: Library, a: torch.Tensor) -> Callable[[], None]:
    """Makes torch take that library from now on, wherever it multiplies."""

    def prepare() -> None:
        if a.is_cuda:
            torch.backends.cuda.preferred_blas_library(library.value)

    return prepare
