"""A position in a list of tokens, with the few questions that a recursive-descent parser asks."""

import difflib
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NoReturn, TypeVar

from loopir.lexer import RESERVED, Token, TokenKind, fail_at, tokenize

#: Blocks, parentheses and index expressions nest this deep: far inside Python's recursion limit.
MAX_NESTING = 48
INT64 = range(-(2**63), 2**63)

Choice = TypeVar("Choice", bound=Enum)
Item = TypeVar("Item")


def nearest(word: str, options: Iterable[str]) -> str:
    """`; did you mean ...?` with the option most like `word`, or nothing."""
    close = difflib.get_close_matches(word, list(options), 1)
    return f"; did you mean `{close[0]}`?" if close else ""


def one_of(words: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    *most, last = [f"`{word}`" for word in words]
    return f"{', '.join(most)} or {last}" if most else last


class Cursor:
    """Tokens of a text and where a parser stands in them; every `fail` raises ParseError."""

    def __init__(self, text: str):
        self.lines, self.tokens = tokenize(text)
        self.position = 0
        self.blocks = 0
        self.parentheses = 0
        self.operations = 0

    @property
    def peek(self) -> Token:
        return self.tokens[self.position]

    @property
    def after(self) -> Token:
        """The token behind `peek`."""
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def at(self, *kinds: TokenKind) -> bool:
        return self.peek.kind in kinds

    def take(self) -> Token:
        token = self.peek
        self.position += token.kind is not TokenKind.END
        return token

    def accept(self, *texts: str) -> str:
        """The text of the next token if it is one of `texts`, which is then taken; else nothing."""
        return self.take().text if self.peek.text in texts else ""

    def expect(self, *texts: str) -> str:
        if self.peek.text not in texts:
            self.fail_expected(one_of(texts), texts)
        return self.take().text

    def skip_newlines(self) -> None:
        while self.at(TokenKind.NEWLINE):
            self.take()

    def name(self, what: str) -> str:
        """Take a name; `what` says in an error what it would have named."""
        token = self.peek
        if token.text in RESERVED:
            self.fail(f"expected {what}, found {token}, which is a reserved word")
        if token.kind is not TokenKind.NAME:
            self.fail_expected(what)
        if token.text.startswith("_"):
            self.fail("names that start with `_` are kept for the axes of accesses in short form")
        return self.take().text

    def integer(self, what: str) -> int:
        """Take an integer literal without a sign."""
        if not self.at(TokenKind.INT):
            self.fail_expected(what)
        return self.int_value(self.take(), 1)

    def int_value(self, token: Token, sign: int) -> int:
        value = sign * int(token.text)
        if value not in INT64:
            self.fail(f"integer {token.text} needs more than 64 bits", token)
        return value

    def choice(self, kind: type[Choice], what: str, omit: Iterable[Choice] = ()) -> Choice:
        """Take a word of a closed set."""
        words = {member.value: member for member in kind if member not in omit}
        if self.peek.text not in words:
            self.fail_expected(f"{what} ({', '.join(words)})", words)
        return words[self.take().text]

    def comma_separated(self, item: Callable[["Cursor"], Item]) -> tuple[Item, ...]:
        """One item or more."""
        items = [item(self)]
        while self.accept(","):
            items.append(item(self))
        return tuple(items)

    def listed(
        self, opening: str, item: Callable[["Cursor"], Item], closing: str
    ) -> tuple[Item, ...]:
        """Any number of items in brackets."""
        self.expect(opening)
        if self.accept(closing):
            return ()
        items = self.comma_separated(item)
        if not self.accept(closing):
            self.fail_expected(f"`,` or `{closing}`")
        return items

    def parenthesised(self, inner: Callable[["Cursor"], Item]) -> Item:
        """`( inner )`, at most MAX_NESTING deep."""
        self.enter()
        self.expect("(")
        found = inner(self)
        self.expect(")")
        self.leave()
        return found

    def enter(self) -> None:
        self.parentheses += 1
        if self.parentheses > MAX_NESTING:
            self.fail(f"expression nests deeper than {MAX_NESTING}")

    def leave(self) -> None:
        self.parentheses -= 1

    def fail_expected(self, what: str, options: Iterable[str] = ()) -> NoReturn:
        hint = nearest(self.peek.text, options) if self.at(TokenKind.NAME) else ""
        self.fail(f"expected {what}, found {self.peek}{hint}")

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        place = token or self.peek
        fail_at(message, place.line, place.column, self.lines[place.line - 1])
