"""Static arrays of C, each content once, and the numbers and strings in them."""

from collections.abc import Iterable, Sequence

WIDTH = 100


def row(*values: str) -> str:
    """A braced initialiser."""
    return f"{{{', '.join(values)}}}"


def quoted(text: str) -> str:
    """A string literal of printable ASCII."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def number(value: int) -> str:
    """A 64-bit literal; the least one cannot be written as one."""
    if value == -(2**63):
        return f"-{2**63 - 1}LL - 1"
    return str(value) if -(2**31) < value < 2**31 else f"{value}LL"


class ArrayWriter:
    """Collects `static const` arrays and their text. Arrays of equal items are one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[tuple[str, tuple[str, ...]], str] = {}

    def array(self, ctype: str, items: Iterable[str]) -> str:
        """The name of an array with these items; "NULL" of none, which C has no array of."""
        key = ctype, tuple(items)
        if not key[1]:
            return "NULL"
        if key not in self._names:
            self._names[key] = f"{ctype.removeprefix('loopir_')}s_{len(self._names)}"
            self.lines += _array_lines(ctype, self._names[key], key[1])
        return self._names[key]

    def counted(self, ctype: str, items: Sequence[str]) -> tuple[str, str]:
        """The name of an array, and its length."""
        return self.array(ctype, items), str(len(items))


def _array_lines(ctype: str, name: str, items: Sequence[str]) -> list[str]:
    return [f"static const {ctype} {name}[] = {{", *_wrapped(items), "};"]


def _wrapped(items: Sequence[str]) -> list[str]:
    """Items side by side where they fit."""
    lines, line = [], "   "
    for item in items:
        if line != "   " and len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return [*lines, line]
