"""JSON text for people: what fits on a line is on one."""

import json
from typing import Any

_WIDTH = 100


def json_text(data: Any) -> str:
    """`data` as ASCII JSON, keys in their order, a line break at the end."""
    return f"{_text(data, 0)}\n"


def _text(data: Any, indent: int) -> str:
    line = json.dumps(data, ensure_ascii=True)
    if indent + len(line) <= _WIDTH or not isinstance(data, dict | list | tuple) or not data:
        return line
    if isinstance(data, dict):
        items = [f"{json.dumps(k)}: {_text(v, indent + 1)}" for k, v in data.items()]
        return _block("{", items, "}", indent)
    return _block("[", [_text(item, indent + 1) for item in data], "]", indent)


def _block(start: str, items: list[str], end: str, indent: int) -> str:
    inner = f"\n{' ' * (indent + 1)}"
    return f"{start}{inner}{f',{inner}'.join(items)}\n{' ' * indent}{end}"
