"""Tokens of the text form.

Lines matter: a statement ends with its line. A line goes on inside `( )` and `[ ]` and after a
comma. `#` starts a comment; a line `# -----`, with five dashes or more, separates programs.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple, NoReturn

from loopir.errors import ParseError

MAX_CHARACTERS = 4 * 1024 * 1024
MAX_NAME = 128
MAX_NUMBER = 64

#: Words that can never be names.
RESERVED = frozenset({"min", "max", "ceildiv", "and", "or", "not", "inf"})


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
    r"""(?P<SPACE>[ \t]+)
    | (?P<SEPARATOR>^\#[ ]-{5,}[ \t]*$) | (?P<COMMENT>\#.*)
    | (?P<FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+)
    | (?P<INT>[0-9]+)
    | (?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<SYMBOL>\+:|\.\.|//|\*\*|==|!=|<=|>=|[-+*/%<>=()\[\]{},:@])""",
    re.VERBOSE,
)
_KINDS = {kind.name: kind for kind in TokenKind}  # spaces and comments are no tokens
_MAX_LENGTH = {
    TokenKind.NAME: MAX_NAME,
    TokenKind.INT: MAX_NUMBER,
    TokenKind.FLOAT: MAX_NUMBER,
}
_BRACKETS = {"(": 1, "[": 1, ")": -1, "]": -1}


def tokenize(text: str) -> tuple[list[str], list[Token]]:
    """The lines of `text` and its tokens, an END last.

    Raises ParseError for what is no str, for text over MAX_CHARACTERS, and for a character that
    starts no token.
    """
    if not isinstance(text, str):
        raise ParseError(f"expected text (str), found {type(text).__name__}", 1, 1)
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"text of {len(text)} characters; the limit is {MAX_CHARACTERS}", 1, 1)
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    tokens = list(_tokens(lines))
    tokens.append(Token(TokenKind.END, "", len(lines), len(lines[-1]) + 1))
    return lines, tokens


def _tokens(lines: list[str]) -> Iterator[Token]:
    brackets, last = 0, "\n"
    for number, line in enumerate(lines, 1):
        for token in _line_tokens(line, number):
            yield token
            last = token.text
            brackets = _bracket_depth(brackets, last)
        if not brackets and last not in (",", "\n"):
            last = "\n"
            yield Token(TokenKind.NEWLINE, last, number, len(line) + 1)


def _bracket_depth(depth: int, text: str) -> int:
    if text in ("{", "}"):  # never in brackets, so an unclosed one does not swallow the lines below
        return 0
    return max(0, depth + _BRACKETS.get(text, 0))


def _line_tokens(line: str, number: int) -> Iterator[Token]:
    position = 0
    for match in _TOKEN.finditer(line):
        if match.start() != position:
            break
        position = match.end()
        kind = _KINDS.get(match.lastgroup or "")
        if kind is None:
            continue
        token = Token(kind, match.group(), number, match.start() + 1)
        if kind in _MAX_LENGTH:
            _check_extent(token, line)
        yield token
    if position < len(line):
        fail_at(f"unexpected character {line[position]!a}", number, position + 1, line)


def _check_extent(token: Token, line: str) -> None:
    longest = _MAX_LENGTH[token.kind]
    if len(token.text) > longest:
        fail_at(f"longer than {longest} characters", token.line, token.column, line)
    end = token.column - 1 + len(token.text)
    after = line[end : end + 1]
    if token.kind is not TokenKind.NAME and (after.isalnum() or after == "_"):
        fail_at(f"number {token.text} runs into {after!a}", token.line, token.column, line)


def fail_at(message: str, line: int, column: int, source: str) -> NoReturn:
    """Raise a ParseError that shows `source`, each character that would not print as `?`."""
    shown = "".join(c if c.isprintable() else "?" for c in source.replace("\t", " "))
    raise ParseError(message, line, column, shown)
