"""A bar on a terminal; nothing elsewhere."""

import sys
from typing import TextIO

_WIDTH, _TEXT = 24, 50
_CLEAR = "\r\x1b[K"


class Progress:
    """`total`: how many shapes there are. `stream`: standard error, if not said."""

    def __init__(self, total: int, stream: TextIO | None = None):
        self._total = max(1, total)
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream is not None and self._stream.isatty()

    def show(self, done: float, text: str) -> None:
        """`done`: of the shapes, one that is half done counts half; `text`: what goes on."""
        filled = min(_WIDTH, int(_WIDTH * done / self._total))
        bar = "#" * filled + "." * (_WIDTH - filled)
        self._write(f"{_CLEAR}[{bar}] {int(done)}/{self._total} {text[:_TEXT]}")

    def clear(self) -> None:
        self._write(_CLEAR)

    def _write(self, text: str) -> None:
        if self._is_shown:
            self._stream.write(text)
            self._stream.flush()
