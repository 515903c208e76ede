"""`loopir-triton cache list|clear|verify`: the kernels that were compiled ahead of time and kept.

Exit codes: 0 done; 1 an entry is damaged, or what the environment says of the cache is refused; 2
usage, or a folder that cannot be used; 3 a bug of ours.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime

from backends.triton_codegen.cache.entry import Damaged
from backends.triton_codegen.cache.options import limit_bytes
from backends.triton_codegen.cache.store import Listed, Store, open_store, store_folder
from loopir.errors import LoopIRError
from passes.cli import DONE, REFUSED, complain

_TOOL = "loopir-triton cache"
_ROW = "{:12}  {:{w}}  {:10}  {:>13}  {}"
_HEAD = ("key", "kernel", "target", "bytes", "last used")


def main(argv: list[str]) -> int:
    """Run the command; the exit code."""
    action = _ACTIONS[_parser().parse_args(argv).action]
    try:
        limit = limit_bytes()
    except LoopIRError as error:
        complain(f"{_TOOL}: {error}")
        return REFUSED
    if not store_folder().exists():
        print(f"no entries: {store_folder()} does not exist")
        return DONE
    with closing(open_store(limit)) as store:
        return action(store)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_TOOL,
        allow_abbrev=False,
        description="The kernels that were compiled ahead of time and kept on disk.",
    )
    text = "list: a line an entry; verify: check each against its SHA-256; clear: remove all"
    parser.add_argument("action", choices=list(_ACTIONS), help=text)
    return parser


def _list(store: Store) -> int:
    entries = store.entries()
    rows = [(e, _names(store, e)) for e in reversed(entries)]
    width = max([6, *(len(names[0]) for _, names in rows)])
    if rows:
        print(_ROW.format(*_HEAD, w=width))
    for entry, names in rows:
        print(_ROW.format(entry.key[:12], *names, f"{entry.bytes:,}", _time(entry), w=width))
    print(f"{_total(entries)} of {store.limit_bytes:,} at most, in {store_folder()}")
    return DONE


def _time(entry: Listed) -> str:
    try:
        return datetime.fromtimestamp(entry.used_ns / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    except (OSError, OverflowError, ValueError):  # anything may be a file's time
        return "?"


def _names(store: Store, entry: Listed) -> tuple[str, str]:
    try:
        return store.names(entry.key) or ("(gone)", "")
    except Damaged:
        return "(damaged)", ""


def _verify(store: Store) -> int:
    entries = store.entries()
    damages = list(_damages(store, entries))
    for text in damages:
        complain(text)
    for name in store.foreign():
        print(f"no entry, left alone: {name!r}")
    print(f"{_total(entries)}, {len(damages)} damaged")
    return REFUSED if damages else DONE


def _damages(store: Store, entries: list[Listed]) -> Iterator[str]:
    for entry in entries:
        try:
            store.load(entry.key)
        except Damaged as damage:
            yield f"{entry.key[:12]}: {damage}"


def _clear(store: Store) -> int:
    entries = store.entries()
    for entry in entries:
        store.remove(entry.key)
    store.trim()
    print(f"{_total(entries)} removed from {store_folder()}")
    return DONE


def _total(entries: list[Listed]) -> str:
    count = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
    return f"{count}, {sum(e.bytes for e in entries):,} bytes"


_ACTIONS = {"list": _list, "verify": _verify, "clear": _clear}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
