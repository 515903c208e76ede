"""A call whose tensors have a certain layout: how they are seen, the kernel, and its launch past
the checks that such tensors have passed."""

from collections.abc import Iterator
from typing import Any

import torch

from backends.planner import Config, Problem
from backends.planner import plan as plan_of
from backends.triton_codegen.compile import CompiledKernel, compile
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, Call, call_of
from backends.triton_codegen.settings import Settings
from loopir.errors import CodegenError, LoopIRError
from loopir.nodes import Program

_TRIED = 4  # configurations, where the compiler refuses the first
_MOST_KERNELS = 1024
_TENSORS = ("A", "B", "bias", "residual", "C")  # what the kernel of a product may take
_kernels: dict[tuple[Problem, Config, bool], CompiledKernel] = {}


class Bound:
    """`bound(a, b, out, bias, residual)` for tensors of one layout each. `config`: None where the
    result has no element."""

    __slots__ = (
        *("call", "config", "device", "dtype", "is_simple", "kernel"),
        *("plan", "run", "shape", "strides"),
    )

    def __init__(
        self,
        call: Call,
        args: Arguments,
        config: Config | None = None,
        kernel: CompiledKernel | None = None,
    ):
        self.call, self.config, self.kernel = call, config, kernel
        self.shape, self.dtype, self.device = call.shape, args.result_dtype, args.a.device
        self.strides = torch.empty(self.shape, device="meta").stride()
        self.is_simple = call.is_direct and args.bias is None and args.residual is None
        self.plan: Any = None  # of the kernel's file, for launches that need no check
        self.run: Any = None  # what the file does with a plan

    def __call__(self, a, b, out=None, bias=None, residual=None) -> torch.Tensor:
        result = out
        if result is None:
            # half the cost of torch.empty
            result = torch.empty_strided(
                self.shape, self.strides, dtype=self.dtype, device=self.device
            )
        tensors = (a, b, result) if self.is_simple else self._seen(a, b, bias, residual, result)
        plan = self.plan
        if plan is None:
            self._checked(tensors)
            return result
        if out is not None:
            plan.check_disjoint(_names(tensors), [t.data_ptr() for t in tensors])
        if _current_device() == plan.device:
            self.run(plan, *tensors)
        else:
            with torch.cuda.device(plan.device):
                self.run(plan, *tensors)
        return result

    def _seen(self, a, b, bias, residual, result) -> tuple[torch.Tensor, ...]:
        """The tensors as the kernel takes them."""
        call = self.call
        if residual is not None:
            residual = call.residual(residual)
        seen = call.a(a), call.b(b), bias, residual, result.view(call.result)
        return tuple(t for t in seen if t is not None)

    def _checked(self, tensors: tuple[torch.Tensor, ...]) -> None:
        """A launch that checks its arguments, and what its file keeps of them; on the CPU it keeps
        nothing."""
        if self.kernel is None:
            return
        self.kernel(*tensors)
        file, settings = self.kernel.namespace, self.kernel.module.settings
        options = settings.num_warps, settings.num_stages
        self.plan, self.run = file._found(options, tensors)[2], file._run


# of torch's own in C, where there is one
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)


def _names(tensors: tuple[torch.Tensor, ...]) -> tuple[str, ...]:
    """Of arguments, for a message."""
    extras = (f"tensor {i}" for i in range(2, len(tensors) - 1))
    return ("a", "b", *extras, "out")


# --- the first call


def first_call(
    args: Arguments, config: Config | None = None, tune: bool = False
) -> tuple[Bound, torch.Tensor]:
    """The call for later ones, and the result of this one. LoopIRError: no configuration can
    compute it."""
    call = call_of(args)
    if 0 in call.result:
        bound = Bound(call, args)
        return bound, bound(args.a, args.b, args.out, args.bias, args.residual)
    if tune and config is None:
        from backends.triton_codegen.ops.tune import winner

        config = winner(call, args)
    index = args.a.get_device()
    return _first_that_runs(call, args, _wanted(call.problem, config, index))


def _wanted(problem: Problem, config: Config | None, index: int) -> Iterator[Config]:
    if config is not None:
        yield config
    else:
        yield from (r.config for r in plan_of(problem, device_of(index)).ranked[:_TRIED])


def _first_that_runs(
    call: Call, args: Arguments, wanted: Iterator[Config]
) -> tuple[Bound, torch.Tensor]:
    """A compiler may refuse what the planner took for possible."""
    refusals: list[Exception] = []
    for config in wanted:
        try:
            kernel = compiled(call.problem, config, args.a.is_cuda)
            bound = Bound(call, args, config, kernel)
            return bound, bound(args.a, args.b, args.out, args.bias, args.residual)
        except LoopIRError as error:
            refusals.append(error)
    raise CodegenError(f"matmul: no kernel for {call.problem}: {refusals[0]}") from refusals[0]


def compiled(problem: Problem, config: Config, on_gpu: bool) -> CompiledKernel:
    """The kernel of a configuration, kept; interpreted where there is no GPU."""
    key = (problem, config, on_gpu)
    found = _kernels.get(key)
    if found is None:
        if len(_kernels) >= _MOST_KERNELS:
            _kernels.clear()
        target = "jit" if on_gpu else "interpret"
        settings, program = Settings(**config.settings()), config.program(problem)
        _check_params(config, program)
        found = compile(program, target, settings=settings, pipeline=config.pipeline)
        _kernels[key] = found
    return found


def _check_params(config: Config, program: Program) -> None:
    """A pass may have added a parameter, as the `order` of stream-k{permuted=true}."""
    names = dict.fromkeys(p.name for kernel in program.kernels for p in kernel.params)
    if more := [name for name in names if name not in _TENSORS]:
        raise CodegenError(
            f"{config}: the kernel takes {', '.join(more)} beside the tensors of a product; "
            "leave out the option that adds it"
        )
