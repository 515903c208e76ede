"""Lines of the emitted file that stay within the width of a page."""

WIDTH = 100


def comma_lines(head: str, items: list[str], tail: str, indent: str = "") -> list[str]:
    """`head` + items between commas + `tail`, on one line if it fits, else the items filled below
    the head."""
    line = f"{indent}{head}{', '.join(items)}{tail}"
    return [line] if len(line) <= WIDTH else _wrapped(head, items, tail, indent)


def tuple_lines(head: str, items: list[str]) -> list[str]:
    """`head` and a Python tuple, on one line if it fits."""
    line = f"{head}{tuple_text(items)}"
    return [line] if len(line) <= WIDTH else _wrapped(f"{head}(", items, ")")


def _wrapped(head: str, items: list[str], tail: str, indent: str = "") -> list[str]:
    rows, inner = [f"{indent}{head}"], f"{indent}    "
    row = inner
    for item in items:
        if row != inner and len(row) + len(item) + 1 > WIDTH:
            rows.append(row.rstrip())
            row = inner
        row += f"{item}, "
    return [*rows, row.rstrip(), f"{indent}{tail}"]


def tuple_text(items: list[str]) -> str:
    """A Python tuple."""
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
