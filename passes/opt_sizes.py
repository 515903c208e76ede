"""`--size` and `--seed`, which the tools that run a program share."""

from collections.abc import Collection, Mapping

from loopir.nodes import AtMost, Program
from loopir.scope import launch_symbols

_MOST = 2**63
SIZE_HELP = "a size that the program leaves open, or another value of a constant in `where`"


class UsageError(Exception):
    """An option that is missing or does not fit the program."""


def parse_sizes(texts: Collection[str]) -> dict[str, int]:
    """Values by name. ValueError: a text that is no `NAME=N`."""
    return dict(map(_size, texts))


def _size(text: str) -> tuple[str, int]:
    name, sign, number = text.partition("=")
    digits = number.isascii() and number.isdecimal()
    if not sign or not name.isidentifier() or not digits or not _fits(number):
        raise ValueError(f"--size: NAME=N with 0 <= N < 2**63, not {text}")
    return name, int(number)


def _fits(number: str) -> bool:
    return len(number) < 100 and int(number) < _MOST


def check_seed(seed: int) -> None:
    """ValueError: no seed."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"--seed: 0 to 2**32 - 1, not {seed}")


def picked(program: Program) -> set[str]:
    """Symbols that the launcher picks, up to an `at_most`."""
    needs = (r for kernel in program.kernels for r in kernel.requires)
    return {r.name for r in needs if isinstance(r, AtMost)}


def settable(program: Program) -> set[str]:
    """Open sizes, and the names that a `where` clause binds to a number."""
    numbers = {b.name for k in program.kernels for b in k.where if b.expr.is_Integer}
    return numbers | open_names(program)


def open_names(program: Program) -> set[str]:
    """The launch symbols of all kernels."""
    return {name for kernel in program.kernels for name in launch_symbols(kernel)}


def check_names(sizes: Mapping[str, int], names: Collection[str]) -> None:
    """UsageError: a size that is none of `names`."""
    for name in sizes:
        if name not in names:
            known = ", ".join(sorted(names)) or "none"
            raise UsageError(f"--size {name}: no size that can be set; there are {known}")


def open_sizes(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that a launch of `program` is given. UsageError: one is missing."""
    names = open_names(program)
    for name in sorted(names - picked(program)):
        require(name, sizes)
    return {name: value for name, value in sizes.items() if name in names}


def require(name: str, sizes: Mapping[str, int]) -> int:
    """The value of an open size. UsageError: it has none."""
    if name not in sizes:
        raise UsageError(f"size {name} is open: add --size {name}=N")
    return sizes[name]
