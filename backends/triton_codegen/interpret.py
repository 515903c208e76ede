"""Runs emitted kernels on the CPU through Triton's interpreter, in a process that also compiles.

`@triton.jit` decides at decoration whether a function is interpreted, so the functions stay
compiled ones, and `interpreting()` swaps each for an interpreted twin for a while. Inside it the
interpreter of Triton 3.6 is repaired (`_REPAIRS`): it multiplies the bit patterns of bf16, rounds
to bf16 and fp8 by other rules than the hardware, and breaks on numpy >= 2.4. All of it is put back
on leaving, even what the interpreter itself forgets.
"""

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton import knobs
from triton.runtime import interpreter as _interpreter
from triton.runtime.interpreter import InterpretedFunction, InterpreterBuilder, TensorHandle
from triton.runtime.jit import JITFunction

from backends.triton_codegen.helpers import OVERLAPPING
from backends.triton_codegen.rounding import from_float32, is_stored_as_bits, to_float32

_lock = threading.RLock()
_twins: dict[JITFunction, InterpretedFunction] = {}

# What the interpreter patches, and the functions of Triton's own that are written in Triton.
_PATCHED = (
    tl,
    tl.core,
    tl.math,
    tl.standard,
    tl.random,
    tl.tensor,
    tl.dtype,
    tl.condition,
    tl.core.constexpr,
    tl.core.tensor_descriptor_base,
    tl.core.tensor_descriptor,
)


@contextlib.contextmanager
def interpreting(*namespaces: dict[str, Any]) -> Iterator[None]:
    """Within it, calls of the JIT functions in `namespaces` (module globals) run interpreted,
    repaired, on the CPU.

    One thread at a time. Floating-point warnings of numpy are off, as a GPU has none.
    """
    with _lock, contextlib.ExitStack() as stack:
        stack.enter_context(np.errstate(all="ignore"))
        stack.enter_context(_twinned(namespaces))
        stack.enter_context(_repaired())
        stack.enter_context(knobs.runtime.scope())
        knobs.runtime.interpret = True
        yield


# --- twins


def _twin(function: JITFunction) -> InterpretedFunction:
    return _twins.setdefault(function, InterpretedFunction(function.fn))


def _nothing() -> None:
    """Kernels run one after the other here."""


def _method(function: InterpretedFunction):
    return lambda *args, **kwargs: function(
        *args, **kwargs
    )  # a plain function, so that x.sum() binds x


@contextlib.contextmanager
def _twinned(namespaces: tuple[dict[str, Any], ...]) -> Iterator[None]:
    language = [(o, dict(vars(o))) for o in _PATCHED]
    files = [(g, {k: v for k, v in g.items() if type(v) is JITFunction}) for g in namespaces]
    try:
        for owner, members in language:
            _swap_members(owner, members)
        for namespace, functions in files:
            namespace.update({k: _twin(v) for k, v in functions.items()})
            namespace["_interpreter"] = "mended"
            namespace.update({k: _nothing for k in functions if k in OVERLAPPING})
        yield
    finally:
        for namespace, functions in files:
            namespace.update(functions)
            namespace["_interpreter"] = "Triton's own"
        for owner, members in language:
            _restore_members(owner, members)


def _swap_members(owner: Any, members: dict[str, Any]) -> None:
    for name, value in members.items():
        if type(value) is JITFunction:
            setattr(owner, name, _method(_twin(value)) if isinstance(owner, type) else _twin(value))


def _restore_members(owner: Any, members: dict[str, Any]) -> None:
    for name, value in members.items():
        if vars(owner).get(name) is not value:
            setattr(owner, name, value)
    if isinstance(owner, type):
        for name in [n for n in vars(owner) if n not in members]:
            delattr(owner, name)


# --- repairs

_patch_tensor = _interpreter._patch_lang_tensor
_create_dot = InterpreterBuilder.create_dot
_cast_impl = InterpreterBuilder.cast_impl


def _patch_tensor_index(tensor, scope) -> None:
    """`range(<runtime value>)`: numpy >= 2.4 makes no int of a one-element array."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def _dot(self, a, b, acc, *rest):
    """Products of bf16 and fp8 tiles, which are kept as bit patterns, in f32."""
    return _create_dot(self, _computable(a), _computable(b), acc, *rest)


def _computable(handle: TensorHandle) -> TensorHandle:
    name = str(handle.dtype.scalar.name)
    if not is_stored_as_bits(name):
        return handle
    return TensorHandle(to_float32(handle.data, name), tl.float32)


def _cast(self, source, target_type):
    """Casts from or to bf16 and fp8; others are numpy's."""
    target = target_type.scalar
    if not (is_stored_as_bits(source.dtype.scalar.name) or is_stored_as_bits(target.name)):
        return _cast_impl(self, source, target_type)
    source = _computable(source)
    if is_stored_as_bits(target.name):
        return TensorHandle(from_float32(source.data, target.name), target)
    return _cast_impl(self, source, target_type)


def _fp_to_fp(self, source, target_type, rounding_mode):
    return _cast(self, source, target_type)


_REPAIRS = (
    (_interpreter, "_patch_lang_tensor", _patch_tensor_index),
    (InterpreterBuilder, "create_dot", _dot),
    (InterpreterBuilder, "cast_impl", _cast),
    (InterpreterBuilder, "create_fp_to_fp", _fp_to_fp),
)


@contextlib.contextmanager
def _repaired() -> Iterator[None]:
    builder = _interpreter.interpreter_builder
    saved, options = [(o, n, getattr(o, n)) for o, n, _ in _REPAIRS], builder.options
    try:
        for owner, name, repair in _REPAIRS:
            setattr(owner, name, repair)
        # twice as fast; the overflow checks assert nothing
        builder.options = dataclasses.replace(options, sanitize_overflow=False)
        yield
    finally:
        builder.options = options
        for owner, name, value in saved:
            setattr(owner, name, value)
