"""From the tensors of a call to a problem: element types, batch dimensions, layouts out of
strides."""

from dataclasses import dataclass, replace
from math import prod
from typing import NoReturn, TypeAlias

import torch

from backends.planner import Problem
from backends.triton_codegen.dtypes import TORCH_NAME
from loopir.build import Activation, Epilogue, Layout

Shape: TypeAlias = tuple[int, ...]
DTYPES = {getattr(torch, name): dtype for dtype, name in TORCH_NAME.items()}


@dataclass(frozen=True)
class Arguments:
    """Of one call of `matmul`, as they were given."""

    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor | None = None
    out_dtype: torch.dtype | None = None
    bias: torch.Tensor | None = None
    activation: Activation | str | None = None
    residual: torch.Tensor | None = None
    alpha: float = 1
    beta: float = 0

    @property
    def result_dtype(self) -> torch.dtype:
        return self.out_dtype or (self.a.dtype if self.out is None else self.out.dtype)


@dataclass(frozen=True)
class View:
    """How a kernel sees a tensor: as a matrix or a batch, expanded, with the batches in one
    dimension, copied; None: as it is."""

    shapes: tuple[Shape, Shape, Shape] | None = None
    is_copied: bool = False

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.shapes is not None:
            matrix, expanded, shape = self.shapes
            tensor = tensor.reshape(matrix).expand(expanded).reshape(shape)
        return tensor.contiguous() if self.is_copied else tensor


@dataclass(frozen=True)
class Call:
    """How the tensors of a call become those of a kernel: `shape` of the result, `result` as the
    kernel sees it."""

    problem: Problem
    shape: Shape
    result: Shape
    a: View
    b: View
    residual: View = View()

    @property
    def is_direct(self) -> bool:
        """Whether the kernel takes all tensors as they are."""
        views = (self.a, self.b, self.residual)
        return self.shape == self.result and all(v == View() for v in views)


def call_of(args: Arguments) -> Call:
    """ValueError: the argument that does not fit, what was expected, what was given."""
    _check_tensors(args)
    a, b = args.a, args.b
    shape_a = tuple(a.shape) if a.dim() > 1 else (1, *a.shape)
    shape_b = tuple(b.shape) if b.dim() > 1 else (*b.shape, 1)
    (m, k), n = shape_a[-2:], shape_b[-1]
    if shape_b[-2] != k:
        _fail("b", f"{k} rows, as a has columns", f"shape {list(b.shape)}")
    batch = _batch(shape_a[:-2], shape_b[:-2])
    shape = (*batch, *([m] if a.dim() > 1 else []), *([n] if b.dim() > 1 else []))
    _check_extras(args, shape, n)
    is_folded = not shape_b[:-2] and _folds(args, prod(batch) * m)
    count, rows = (1, prod(batch) * m) if is_folded else (prod(batch), m)
    target = () if count == 1 else (count,)
    spread = () if is_folded else batch
    a_view = _view(a, (shape_a, (*batch, m, k), (*target, rows, k)))
    b_view = _view(b, (shape_b, (*spread, k, n), (*target, k, n)))
    layout_a, layout_b = _layout(a_view(a)), _layout(b_view(b))
    problem = Problem(
        *(rows, n, k, count),
        dtype=DTYPES[a.dtype],
        out_dtype=DTYPES[args.result_dtype],
        a_layout=layout_a or Layout.ROW_MAJOR,
        b_layout=layout_b or Layout.ROW_MAJOR,
        epilogue=_epilogue(args),
    )
    result = (*target, rows, n)
    a_view, b_view = (
        replace(v, is_copied=layout is None)
        for v, layout in ((a_view, layout_a), (b_view, layout_b))
    )
    return Call(problem, shape, result, a_view, b_view, _residual(args, result))


def _fail(name: str, expected: str, given: object) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {given}")


# --- checks


def _check_tensors(args: Arguments) -> None:
    a, b, known = args.a, args.b, ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
    for name in ("a", "b", "out", "bias", "residual"):
        if (tensor := getattr(args, name)) is not None or name in ("a", "b"):
            _check_tensor(name, tensor, a)
    types = {"a": a.dtype, "out_dtype": args.result_dtype}
    types |= {n: t.dtype for n in ("bias", "residual") if (t := getattr(args, n)) is not None}
    for name, dtype in types.items():
        if dtype not in DTYPES:
            _fail(name, f"one of {known}", dtype)
    if b.dtype is not a.dtype:
        _fail("b", f"dtype {a.dtype}, as a", b.dtype)
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() == 0:
            _fail(name, "a vector, a matrix or a batch of them", "a scalar")


def _check_tensor(name: str, tensor: object, a: torch.Tensor) -> None:
    if not isinstance(tensor, torch.Tensor):
        _fail(name, "a torch.Tensor", type(tensor).__name__)
    if tensor.layout is not torch.strided:
        _fail(name, "a dense tensor", tensor.layout)
    if tensor.device != a.device:
        _fail(name, f"device {a.device}, as a", tensor.device)
    if tensor.requires_grad and torch.is_grad_enabled():
        _fail(name, "no gradient, which matmul cannot give (torch.no_grad(), detach())", "one")


def _check_extras(args: Arguments, shape: Shape, n: int) -> None:
    out = args.out
    if out is not None and tuple(out.shape) != shape:
        _fail("out", f"shape {list(shape)}", list(out.shape))
    if out is not None and out.dtype is not args.result_dtype:
        _fail("out", f"dtype {args.result_dtype}", out.dtype)
    if out is not None:
        check_places(out)
    if out is None and args.beta != 0:
        _fail("out", "a tensor that beta is for", "none")
    if args.bias is not None and tuple(args.bias.shape) != (n,):
        _fail("bias", f"shape {[n]}", list(args.bias.shape))
    if args.residual is not None and tuple(args.residual.shape) != shape:
        _fail("residual", f"shape {list(shape)}", list(args.residual.shape))


def check_places(out: torch.Tensor) -> None:
    """ValueError: elements of a dense tensor lie in one place, as those that `expand` makes."""
    if any(stride == 0 and n > 1 for stride, n in zip(out.stride(), out.shape, strict=True)):
        _fail("out", "memory of its own for each element", f"strides {list(out.stride())}")


# --- batches


def _batch(of_a: Shape, of_b: Shape) -> Shape:
    try:
        return tuple(torch.broadcast_shapes(of_a, of_b))
    except RuntimeError:
        _fail("b", f"batches that go with {list(of_a)} of a", list(of_b))


def _folds(args: Arguments, rows: int) -> bool:
    """Whether it is one product, of the rows of all batches: all are equally far apart."""
    a, out = args.a, args.out
    if a.dim() <= 2:
        return True
    return can_view(a, (rows, a.shape[-1])) and (
        out is None or can_view(out, (rows, prod(out.shape) // max(1, rows)))
    )


def can_view(tensor: torch.Tensor, shape: Shape) -> bool:
    """Whether strides can say where the elements lie in that shape, so that none is copied."""
    try:
        tensor.view(shape)
    except RuntimeError:
        return False
    return True


# --- views


def _view(tensor: torch.Tensor, shapes: tuple[Shape, Shape, Shape]) -> View:
    return View() if tuple(tensor.shape) == shapes[-1] else View(shapes)


def _layout(tensor: torch.Tensor) -> Layout | None:
    """Which dimension has its elements one behind the other, one of a single element being as good
    as any; None: neither."""
    rows, columns = tensor.shape[-2:]
    if tensor.stride(-1) == 1 or columns <= 1:
        return Layout.ROW_MAJOR
    return Layout.COL_MAJOR if tensor.stride(-2) == 1 or rows <= 1 else None


def _residual(args: Arguments, result: Shape) -> View:
    if args.residual is None:
        return View()
    view = _view(args.residual, (result, result, result))
    return replace(view, is_copied=view(args.residual).stride(-1) != 1)


def _epilogue(args: Arguments) -> Epilogue:
    bias, residual = (None if t is None else DTYPES[t.dtype] for t in (args.bias, args.residual))
    return Epilogue(args.alpha, args.beta, bias, args.activation, residual)
