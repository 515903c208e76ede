"""Reading a pipeline string, `tile-order{group=8},stream-k{merge=atomic units=132}`, into passes.

    pipeline := [pass ("," pass)*]      pass := NAME ["{" item* "}"]      item := WORD ["=" VALUE]

An item without a value is a bool option (`launch-constants`), or a value that only one enum option
of the pass has (`along_m`). White space may stand between any two of these.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any, NoReturn

from loopir.errors import PipelineError
from passes.base import Pass
from passes.options import Option, options_of, read_value
from passes.registry import PASSES

Registry = Mapping[str, type[Pass]]
_TOKEN = re.compile(r'\s*([A-Za-z0-9_.:/+-]+|"(?:[^"\\]|\\.)*"|[{}=,]|\Z)', re.DOTALL)
_END = ""


def parse_passes(text: str, registry: Registry = PASSES) -> tuple[Pass, ...]:
    """The passes that a pipeline string names; none for an empty one. PipelineError: the column,
    what is wrong, and the nearest name where one is unknown."""
    reader = _Reader(text, registry)
    if reader.token == _END:
        return ()
    passes = [reader.read_pass()]
    while reader.accept(","):
        passes.append(reader.read_pass())
    reader.expect(_END, "',' or the end")
    return tuple(passes)


def parse_pass(text: str, registry: Registry = PASSES) -> Pass:
    """The one pass that `text` names. PipelineError: as of `parse_passes`."""
    reader = _Reader(text, registry)
    found = reader.read_pass()
    reader.expect(_END, "the end")
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of known names if none is near."""
    names = list(known)
    close = get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known: {', '.join(names)}" if names else "; it has none"


@dataclass
class _Reader:
    """A cursor over the tokens: `token` is the next one, it starts at `at`, and ends at `end`."""

    text: str
    registry: Registry
    token: str = _END
    at: int = 0
    end: int = 0

    def __post_init__(self):
        self.advance()

    def advance(self) -> str:
        """Step over the token, and return it."""
        taken, found = self.token, _TOKEN.match(self.text, self.end)
        if found is None:
            rest = self.text[self.end :].lstrip()
            self.fail(f"unexpected character {rest[0]!r}", len(self.text) - len(rest))
        self.token, self.at, self.end = found[1], found.start(1), found.end()
        return taken

    def accept(self, token: str) -> bool:
        if self.token != token:
            return False
        self.advance()
        return True

    def expect(self, token: str, what: str) -> None:
        if self.token != token:
            self.fail(f"expected {what}, found {self._found()}")
        if token != _END:
            self.advance()

    def word(self, what: str) -> str:
        if self.token in ("{", "}", "=", ",", _END):
            self.fail(f"expected {what}, found {self._found()}")
        return self.advance()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        column = self.at if at is None else at
        line = re.sub(r"\s", " ", self.text)
        raise PipelineError(f"column {column + 1}: {message}\n  {line}\n  {' ' * column}^")

    def _found(self) -> str:
        return f"'{self.token}'" if self.token else "the end"

    def read_pass(self) -> Pass:
        at, name = self.at, self.word("the name of a pass")
        cls = self.registry.get(name)
        if cls is None:
            self.fail(f"unknown pass '{name}'{nearest(name, self.registry)}", at)
        values, places = self._read_items(cls) if self.accept("{") else ({}, {})
        for o in options_of(cls):
            if o.required and o.field not in values:
                self.fail(f"{name} needs option '{o.key}', {o.expected}", at)
        try:
            return cls(**values)
        except (ValueError, TypeError) as error:
            self._fail_of(cls, str(error), places, at)

    def _fail_of(self, cls: type[Pass], why: str, places: dict[str, int], at: int) -> NoReturn:
        """`why` may start with the field of an option, `min_panels: ...`: its text form, where it
        stands."""
        field, colon, rest = why.partition(":")
        keys = {o.field: o.key for o in options_of(cls)}
        if colon and field in keys:
            self.fail(f"{keys[field]}:{rest}", places.get(field, at))
        self.fail(why, at)

    def _read_items(self, cls: type[Pass]) -> tuple[dict[str, Any], dict[str, int]]:
        """The values, and where each option stands."""
        values: dict[str, Any] = {}
        places: dict[str, int] = {}
        while not self.accept("}"):
            at = self.at
            o, value = self._read_item(cls)
            if o.field in values:
                self.fail(f"option '{o.key}' of {cls.name} is given twice", at)
            values[o.field], places[o.field] = value, at
        return values, places

    def _read_item(self, cls: type[Pass]) -> tuple[Option, Any]:
        between = " (spaces stand between options)" if self.token == "," else ""
        at, word = self.at, self.word(f"an option or '}}'{between}")
        options = {o.key: o for o in options_of(cls)}
        if not self.accept("="):
            return self._bare(cls, options, word, at)
        if word not in options:
            self.fail(f"{cls.name} has no option '{word}'{nearest(word, options)}", at)
        value_at, text = self.at, self.word(f"a value of option '{word}'")
        return options[word], self._value(options[word], text, value_at)

    def _bare(
        self, cls: type[Pass], options: dict[str, Option], word: str, at: int
    ) -> tuple[Option, Any]:
        named = options.get(word)
        if named and named.type is bool:
            return named, True
        if named:
            self.fail(f"option '{word}' of {cls.name} wants {named.expected}: {word}=...", at)
        owners = [o for o in options.values() if issubclass(o.type, Enum) and word in o.words]
        if not owners:
            known = (*options, *(w for o in options.values() for w in o.words))
            self.fail(f"{cls.name} has no option '{word}'{nearest(word, known)}", at)
        if len(owners) > 1:
            choices = " or ".join(f"{o.key}={word}" for o in owners)
            self.fail(f"'{word}' is ambiguous: write {choices}", at)
        return owners[0], self._value(owners[0], word, at)

    def _value(self, o: Option, text: str, at: int) -> Any:
        try:
            return read_value(o, text)
        except ValueError as error:
            self.fail(str(error), at)
