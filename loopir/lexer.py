"""Tokens of the text form, and the cursor that both parsers read them through.

Lines matter: a statement ends with its line. A line goes on inside `( )` and `[ ]` and after a comma. `#` starts a
comment; a comment of five or more dashes, `# -----`, separates programs.
"""

import difflib
import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple, NoReturn, TypeVar

from loopir.errors import ParseError

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_NAME = 128
MAX_NUMBER = 64
#: Blocks nest this deep, and so do parentheses and index expressions: far inside Python's recursion limit.
MAX_NESTING = 64
INT64 = range(-(2**63), 2**63)

Choice = TypeVar("Choice", bound=Enum)


class TokenKind(Enum):
    NAME = auto()
    INT = auto()
    FLOAT = auto()
    SYMBOL = auto()
    NEWLINE = auto()
    SEPARATOR = auto()
    END = auto()


class Token(NamedTuple):
    """`line` and `column` count from 1."""

    kind: TokenKind
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        names = {TokenKind.NEWLINE: "end of line", TokenKind.END: "end of text"}
        return names.get(self.kind, f"`{self.text}`")


_TOKEN = re.compile(
    r"""(?P<SPACE>[ \t]+) | (?P<SEPARATOR>\#[ ]-{5,}[ \t]*$) | (?P<COMMENT>\#.*)
    | (?P<FLOAT>[0-9]+(?:\.[0-9]+)(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+) | (?P<INT>[0-9]+)
    | (?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<SYMBOL>\+:|\.\.|//|\*\*|==|!=|<=|>=|[-+*/%<>=()\[\]{},:@])""",
    re.VERBOSE,
)
_SILENT = frozenset({"SPACE", "COMMENT"})
_LIMITS = {TokenKind.NAME: MAX_NAME, TokenKind.INT: MAX_NUMBER, TokenKind.FLOAT: MAX_NUMBER}
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}


def tokenize(text: str) -> tuple[list[str], list[Token]]:
    """The lines of `text` and its tokens, an END last; raises ParseError for a character that starts no token."""
    if not isinstance(text, str):
        raise ParseError(f"expected text (str), found {type(text).__name__}", 1, 1)
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"text of {len(text)} characters; the limit is {MAX_CHARACTERS}", 1, 1)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    tokens: list[Token] = []
    brackets = 0
    for number, line in enumerate(lines, 1):
        for token in _line_tokens(line, number):
            tokens.append(token)
            brackets = _bracket_depth(brackets, token)
        if not brackets and tokens and tokens[-1].text != ",":
            tokens.append(Token(TokenKind.NEWLINE, "\n", number, len(line) + 1))
    tokens.append(Token(TokenKind.END, "", len(lines), len(lines[-1]) + 1))
    return lines, tokens


def _bracket_depth(depth: int, token: Token) -> int:
    if token.text in ("{", "}"):  # never inside brackets: an unclosed one does not swallow the rest of the text
        return 0
    return max(0, depth + _BRACKETS.get(token.text, 0))


def _line_tokens(line: str, number: int) -> Iterable[Token]:
    position = 0
    while position < len(line):
        match = _TOKEN.match(line, position)
        if match is None:
            fail_at(f"unexpected character {line[position]!a}", number, position + 1, line)
        kind, position = match.lastgroup or "", match.end()
        if kind not in _SILENT:
            token = Token(TokenKind[kind], match.group(), number, match.start() + 1)
            _check_length(token, line)
            yield token


def _check_length(token: Token, line: str) -> None:
    if len(token.text) > _LIMITS.get(token.kind, len(token.text)):
        fail_at(f"longer than {_LIMITS[token.kind]} characters", token.line, token.column, line)
    after = line[token.column - 1 + len(token.text) :][:1]
    if token.kind in (TokenKind.INT, TokenKind.FLOAT) and (after.isalnum() or after == "_"):
        fail_at(f"number {token.text} runs into {after!a}", token.line, token.column, line)


def fail_at(message: str, line: int, column: int, source: str) -> NoReturn:
    shown = "".join(c if c.isprintable() else "?" for c in source.replace("\t", " "))
    raise ParseError(message, line, column, shown)


def nearest(word: str, options: Iterable[str]) -> str:
    """`; did you mean ...?` with the option most like `word`, or nothing."""
    close = difflib.get_close_matches(word, list(options), 1)
    return f"; did you mean `{close[0]}`?" if close else ""


def one_of(words: Iterable[str]) -> str:
    """`a`, `b` or `c`."""
    *most, last = [f"`{w}`" for w in words]
    return f"{', '.join(most)} or {last}" if most else last


class Cursor:
    """A position in a list of tokens, with the few questions that a recursive-descent parser asks."""

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

    def take(self) -> Token:
        token = self.tokens[self.position]
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
        while self.peek.kind is TokenKind.NEWLINE:
            self.position += 1

    def name(self, what: str) -> str:
        """Take a name; `what` says in an error what it would have named."""
        token = self.peek
        if token.kind is not TokenKind.NAME:
            self.fail_expected(what)
        if token.text.startswith("_"):
            self.fail("names that start with `_` are kept for the axes of accesses in short form")
        return self.take().text

    def integer(self, what: str) -> int:
        """Take an unsigned integer literal of at most 2**63."""
        if self.peek.kind is not TokenKind.INT:
            self.fail_expected(what)
        return self.int_value(self.take())

    def int_value(self, token: Token) -> int:
        value = int(token.text)
        if value > INT64.stop:
            self.fail(f"integer {token.text} needs more than 64 bits", token)
        return value

    def choice(self, kind: type[Choice], what: str, omit: frozenset[Choice] = frozenset()) -> Choice:
        """Take a word of a closed set."""
        words = {member.value: member for member in kind if member not in omit}
        token = self.peek
        if token.text not in words:
            self.fail_expected(f"{what} ({', '.join(words)})", words)
        return words[self.take().text]

    def fail_expected(self, what: str, options: Iterable[str] = ()) -> NoReturn:
        hint = nearest(self.peek.text, options) if self.peek.kind is TokenKind.NAME else ""
        self.fail(f"expected {what}, found {self.peek}{hint}")

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        place = token or self.peek
        fail_at(message, place.line, place.column, self.lines[place.line - 1])

    def enter_parenthesis(self) -> None:
        self.parentheses += 1
        if self.parentheses > MAX_NESTING:
            self.fail(f"parentheses nest deeper than {MAX_NESTING}")

    def leave_parenthesis(self) -> None:
        self.parentheses -= 1
