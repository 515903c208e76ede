"""What a launch is given: sizes from the shapes of arrays, and the checks that a launcher makes."""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import sympy

from loopir.errors import LaunchError
from loopir.interp.errors import DivisorError
from loopir.interp.formats import STORAGE, is_emulated, is_value
from loopir.interp.indices import value
from loopir.nodes import AtMost, Kernel, Param, Program
from loopir.printer import expr_text
from loopir.scope import launch_symbols
from loopir.symbols import Expr
from loopir.types import Direction

DEFAULT_UNITS = 4

Arrays = Mapping[str, np.ndarray]


def parameters(program: Program) -> dict[str, Param]:
    """The parameters of all kernels by name, each as the first kernel that has it declares it.
    LaunchError: two kernels declare one with different dtypes."""
    found: dict[str, Param] = {}
    for param in (p for kernel in program.kernels for p in kernel.params):
        first = found.setdefault(param.name, param)
        if first.dtype is not param.dtype:
            raise LaunchError(f"{param.name}: {first.dtype.value} and {param.dtype.value}")
    return found


def check_arrays(program: Program, arrays: Arrays) -> None:
    """LaunchError: a name, a type, a value or an overlap that does not fit the parameters."""
    params = parameters(program)
    for name in params.keys() ^ arrays.keys():
        state = "no array given" if name in params else "the program has no such parameter"
        raise LaunchError(f"{name}: {state}")
    for name, param in params.items():
        _check_array(param, arrays[name])
    _check_overlaps(program, params, arrays)


def _check_array(param: Param, array: np.ndarray) -> None:
    if not isinstance(array, np.ndarray):
        raise LaunchError(f"{param.name}: a numpy array, not {type(array).__name__}")
    accepted = (np.dtype(np.float32), np.dtype(np.float64))
    accepted = accepted if is_emulated(param.dtype) else (STORAGE[param.dtype],)
    if array.dtype not in accepted:
        wanted = " or ".join(map(str, accepted))
        raise LaunchError(f"{param.name}: {wanted} for {param.dtype.value}, not {array.dtype}")
    if array.ndim != len(param.shape):
        raise LaunchError(f"{param.name}: {len(param.shape)} dimensions, not {array.ndim}")
    if param.direction is not Direction.IN and not array.flags.writeable:
        raise LaunchError(f"{param.name}: an array that can be written")
    if param.direction is not Direction.OUT and is_emulated(param.dtype):
        _check_values(param, array)


def _check_values(param: Param, array: np.ndarray) -> None:
    fits = is_value(array, param.dtype)
    if not fits.all():
        where = tuple(map(int, np.argwhere(~fits)[0]))
        raise LaunchError(
            f"{param.name}: {array[where]} at {list(where)} is no {param.dtype.value}; use "
            f"loopir.interp.rounded"
        )


def _check_overlaps(program: Program, params: Mapping[str, Param], arrays: Arrays) -> None:
    declared = aliases(program)
    for a, b in combinations(params, 2):
        is_output = any(params[n].direction is not Direction.IN for n in (a, b))
        if not is_output or not np.may_share_memory(arrays[a], arrays[b]):
            continue
        if frozenset((a, b)) not in declared:
            raise LaunchError(f"{b}: memory of its own, not shared with {a}")
        if arrays[a].dtype != arrays[b].dtype:
            raise LaunchError(f"{b}: {arrays[a].dtype}, as {a}, whose storage it shares")


def aliases(program: Program) -> frozenset[frozenset[str]]:
    """Pairs of parameters that may share storage."""
    return frozenset(frozenset((x.a, x.b)) for k in program.kernels for x in k.aliases)


# --- sizes


def check_sizes(program: Program, sizes: Mapping[str, int]) -> None:
    """LaunchError: no kernel has a launch symbol of that name, or no size can have that value."""
    symbols = {name for kernel in program.kernels for name in launch_symbols(kernel)}
    needs = (need for kernel in program.kernels for need in kernel.requires)
    picked = {need.name for need in needs if isinstance(need, AtMost)}
    for name, size in sizes.items():
        if name not in symbols:
            raise LaunchError(f"{name}: no launch symbol; there are {sorted(symbols) or 'none'}")
        least = 1 if name in picked else 0
        if size < least:
            raise LaunchError(f"{name}: an int of at least {least}, not {size}")


def launch_values(kernel: Kernel, arrays: Arrays, sizes: Mapping[str, int]) -> dict[str, int]:
    """Values of the launch symbols and of the `where` names.

    A symbol is measured where it stands alone as a size of a parameter, else it is in `sizes`. One
    that `at_most` bounds is the smaller of its bound and `sizes`, or 4. LaunchError: a symbol with
    no value or two, a shape that does not fit.
    """
    env = _given(kernel, arrays, sizes)
    bind_where(kernel, env)
    for need in kernel.requires:
        if isinstance(need, AtMost):
            most = known(need.expr, env, f"the bound of {need.name}")
            env[need.name] = min(sizes.get(need.name, DEFAULT_UNITS), most)
    bind_where(kernel, env)
    missing = [n for n in (*launch_symbols(kernel), *_where_names(kernel)) if n not in env]
    if missing:
        raise LaunchError(f"{missing[0]}: no value; say sizes={{{missing[0]!r}: ...}}")
    for param in kernel.params:
        _check_shape(param, arrays[param.name].shape, env)
    return env


def _where_names(kernel: Kernel) -> Iterator[str]:
    return (b.name for b in kernel.where)


def _given(kernel: Kernel, arrays: Arrays, sizes: Mapping[str, int]) -> dict[str, int]:
    symbols = launch_symbols(kernel)
    picked = {r.name for r in kernel.requires if isinstance(r, AtMost)}
    env = {n: v for n, v in sizes.items() if n in symbols and n not in picked}
    for param in kernel.params:
        for expr, size in zip(param.shape, arrays[param.name].shape, strict=True):
            if isinstance(expr, sympy.Symbol) and expr.name in symbols:
                env.setdefault(expr.name, size)
    return env


def bind_where(kernel: Kernel, env: dict[str, int]) -> None:
    """Add the `where` names that have a value by now. LaunchError: a divisor below one."""
    for binding in kernel.where:
        try:
            env[binding.name] = value(binding.expr, env)
        except KeyError:
            continue
        except DivisorError as error:
            raise LaunchError(f"{binding.name}: {error.message}") from None


def known(expr: Expr, env: Mapping[str, int], what: str) -> int:
    """The value of `expr`, a size. LaunchError: `what` needs a symbol that `env` lacks, or the
    size is negative."""
    try:
        size = value(expr, env)
    except KeyError as missing:
        name = missing.args[0]
        raise LaunchError(f"{name}: no value for {what}; say sizes={{{name!r}: ...}}") from None
    except DivisorError as error:
        raise LaunchError(f"{what}: {error.message}") from None
    if size < 0:
        raise LaunchError(f"{what}: {expr_text(expr)} is {size}")
    return size


def _check_shape(param: Param, found: tuple[int, ...], env: Mapping[str, int]) -> None:
    wanted = tuple(known(e, env, f"the shape of {param.name}") for e in param.shape)
    if wanted != found:
        text = ", ".join(map(expr_text, param.shape))
        raise LaunchError(f"{param.name}: shape [{text}] = {list(wanted)}, not {list(found)}")
