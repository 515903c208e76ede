"""What the command-line tools share: exit codes, reading the input, endings without a traceback."""

import argparse
import contextlib
import io
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from loopir import __version__
from loopir.errors import ParseError

DONE, REFUSED, USAGE, BUG, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141


def run_tool(name: str, body: Callable[[], int]) -> int:
    """The exit code of `body`, of what argparse said, or of an output that cannot be written."""
    if sys.stdout is None:
        complain(f"{name}: error: standard output is closed")
        return USAGE
    _escape_what_has_no_encoding()
    try:
        code = body()
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse has printed what is wrong
        return int(stop.code or DONE)
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        _drop_output()
        complain(f"{name}: error: cannot write {error.filename or 'the output'}: {error.strerror}")
        return USAGE


def _escape_what_has_no_encoding() -> None:
    """As standard error does: the name of a file need not be text in the terminal's encoding."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(text: str) -> None:
    """Print to standard error, if there is one that takes it; the exit code says the rest."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, end="" if text.endswith("\n") else "\n", file=sys.stderr)


def read_input(parser: argparse.ArgumentParser, file: str | None) -> bytes:
    """The bytes of a file, or of standard input for `-`; ends the tool as a usage error does."""
    if file is None:
        parser.error("FILE is missing; - reads standard input")
    if file == "-" and sys.stdin is None:
        parser.error("standard input is closed")
    try:
        return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        parser.error(f"cannot read {file}: {error.strerror}")
    except ValueError as error:
        parser.error(f"cannot read {file!r}: {error}")


def decoded(data: bytes) -> str:
    """The text of `data`. ParseError: the place of a byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        column = error.start - before.rfind(b"\n")
        message = f"byte 0x{data[error.start]:02x} is not UTF-8 text"
        raise ParseError(message, before.count(b"\n") + 1, column) from None


def report_bug(tool: str, arguments: str, data: bytes, error: Exception) -> int:
    """Print a reproducer in place of a traceback; the exit code."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    complain(
        f"{tool}: this is a bug of ours, please report it with all of this text.\n"
        f"{type(error).__name__}: {error}\nat {where}\n\n"
        f"# reproducer: {tool} {arguments} (loopir {__version__})\n"
        f"{data.decode('utf-8', 'backslashreplace')}"
    )
    return BUG


def _drop_output() -> None:
    """Point standard output at nothing, so that the last flush does not fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
