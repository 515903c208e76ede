"""A CSV of results read back; it is not trusted: what is no result is refused with its place."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from backends.bench.arms import Arm, Group
from backends.bench.columns import COLUMNS
from backends.bench.results import OK, PEERS, Case, Result
from backends.bench.stats import Ratio
from backends.planner.config import Config
from backends.planner.problem import Problem

_MOST_BYTES, _MOST_ROWS, _MOST_TEXT = 64 << 20, 50_000, 1000
_NAMED = 3  # of the columns that a file lacks
_MOST_SIZE, _US, _RATIO = 2**31, (1e-3, 1e10), (1e-4, 1e4)
_N = TypeVar("_N", int, float)


class NoTable(Exception):
    """The file is no table of results; the text says where and why."""


@dataclass(frozen=True)
class Origin:
    """Where a row was measured, and with what."""

    device: str
    torch: str
    triton: str
    commit: str

    @property
    def text(self) -> str:
        return f"{self.device}, torch {self.torch}, triton {self.triton}, at commit {self.commit}"


@dataclass(frozen=True)
class Table:
    """`origins`: of the rows, each once."""

    results: tuple[Result, ...]
    origins: tuple[Origin, ...]

    @property
    def devices(self) -> list[str]:
        """Their names, each once."""
        return list(dict.fromkeys(origin.device for origin in self.origins))

    @property
    def shapes(self) -> list[tuple[Result, ...]]:
        """The results of each shape."""
        by_case: dict[Case, list[Result]] = {}
        for result in self.results:
            by_case.setdefault(result.case, []).append(result)
        return [tuple(found) for found in by_case.values()]


def read_tables(paths: Iterable[Path]) -> Table:
    """The results of all files, in order. NoTable: a row is no result, or is there twice. OSError:
    a file cannot be read."""
    results: dict[tuple[Case, str], Result] = {}
    origins: dict[Origin, None] = {}
    for path in paths:
        for cells in _rows(path):
            result = _result(cells)
            key = result.case, result.arm.name
            if key in results:
                cells.refuse("arm", f"{result.arm.name!r} is there twice for this shape")
            results[key] = result
            origins[_origin(cells)] = None
    return Table(tuple(results.values()), tuple(origins))


@dataclass(frozen=True)
class _Cells:
    """A row; `place` is for messages."""

    values: Mapping[str, str]
    place: str

    def refuse(self, name: str, text: str) -> NoReturn:
        raise NoTable(f"{self.place}: column {name}: {text}")

    def text(self, name: str) -> str:
        value = self.values[name]
        if len(value) > _MOST_TEXT:
            self.refuse(name, f"{len(value)} characters, {_MOST_TEXT} at most")
        return value

    def number(self, name: str, kind: type[_N], least: float, most: float) -> _N:
        text = self.text(name)
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not least <= value <= most:
            self.refuse(name, f"a number from {least:g} to {most:g}, not {_short(text)}")
        return value


def _rows(path: Path) -> Iterator[_Cells]:
    reader = csv.reader(io.StringIO(_text(path), newline=""), strict=True)
    try:
        names = next(reader, [])
        _check_names(path, names)
        for count, values in enumerate(reader, 1):
            place = f"{path}, line {reader.line_num}"
            if len(values) != len(names) or count > _MOST_ROWS:
                most = f"{len(names)} columns a row, {_MOST_ROWS} rows at most"
                raise NoTable(f"{place}: {len(values)} columns in row {count}; {most}")
            yield _Cells(dict(zip(names, values, strict=True)), place)
    except csv.Error as error:
        raise NoTable(f"{path}, line {reader.line_num}: {error}") from None


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise NoTable(f"{path}: more than {_MOST_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NoTable(f"{path}: byte {error.start} is not UTF-8 text") from None


def _check_names(path: Path, names: list[str]) -> None:
    if missing := [name for name in COLUMNS if name not in names]:
        raise NoTable(
            f"{path}, line 1: no column {_some(missing)}; it is no table of loopir-triton bench, "
            "or one that an older script wrote"
        )
    if len(set(names)) < len(names):
        raise NoTable(f"{path}: a column is there twice")


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


# --- a row


def _result(cells: _Cells) -> Result:
    case, arm, status = _case(cells), _arm(cells), cells.text("status")
    if status != OK:
        return Result(case, arm, status, cells.text("reason"))
    us, rounds = cells.number("us", float, *_US), cells.number("rounds", int, 1, _MOST_SIZE)
    ratios = {group: ratio for group in PEERS if (ratio := _ratio(cells, group.value))}
    return Result(case, arm, OK, us=us, rounds=rounds, ratios=ratios)


def _case(cells: _Cells) -> Case:
    sizes = {name: cells.number(name, int, 1, _MOST_SIZE) for name in ("m", "n", "k", "batch")}
    words = ("dtype", "out_dtype", "a_layout", "b_layout")
    values: dict[str, Any] = {**sizes, **{name: cells.text(name) for name in words}}
    try:
        return Case(cells.text("set"), Problem(**values))
    except ValueError as error:
        raise NoTable(f"{cells.place}: {error}") from None


def _arm(cells: _Cells) -> Arm:
    group, config = cells.text("group"), cells.text("config")
    if group not in {g.value for g in Group}:
        cells.refuse("group", f"one of {', '.join(g.value for g in Group)}, not {_short(group)}")
    try:
        return Arm(cells.text("arm"), Group(group), _config(config) if config else None)
    except ValueError as error:
        cells.refuse("config", str(error))


_config = lru_cache(maxsize=1024)(Config.parse)  # a sweep has the same ones for every shape


def _ratio(cells: _Cells, name: str) -> Ratio | None:
    if not cells.text(name):
        return None
    ends = (f"{name}_low", name, f"{name}_high")
    low, value, high = (cells.number(end, float, *_RATIO) for end in ends)
    if not low <= value <= high:
        cells.refuse(name, f"{value:g} is not inside its interval, {low:g}..{high:g}")
    return Ratio(low, value, high)


def _origin(cells: _Cells) -> Origin:
    return Origin(*(cells.text(field.name) for field in fields(Origin)))
