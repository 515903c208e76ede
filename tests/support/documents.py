"""Reading the pages under docs/: fenced blocks, entries with examples, edits of a base program."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

_BLOCK = re.compile(
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$"
    r"|^Refused by `(?P<refusing>[^`]+)`: (?P<codes>[A-Z0-9 ]+)\.$"
    r"(?:\nAccepted by `(?P<accepting>[^`]+)`\.$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Attempt:
    """A program and a pipeline."""

    program: str
    pipeline: str


@dataclass(frozen=True)
class Example:
    """What is refused, and with which codes; and what is accepted, if the page says so: another
    pipeline, or the base beside an edit of it."""

    entry: str
    refused: Attempt
    codes: frozenset[str]
    accepted: Attempt | None


@dataclass(frozen=True)
class Entry:
    """A heading `### CODE: rule` (`code` "" where there is none) below the heading of a pass."""

    section: str
    code: str
    rule: str
    examples: tuple[Example, ...]


def page(name: str) -> str:
    return (DOCS / name).read_text()


def fenced(text: str, kind: str) -> list[str]:
    """The fenced blocks of one kind, in order."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def entries(text: str) -> tuple[Entry, ...]:
    """The entries of a page of refusals. The base of an edit is the program that its section starts
    with, or, where it starts with none, the first program of the page."""
    base = fenced(text, "lir")[0]
    return tuple(
        _entry(section, head, body, (fenced(part.split("\n### ")[0], "lir") or [base])[0])
        for section, part in parts(text, "## ")
        for head, body in parts(part, "### ")
    )


def parts(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """The title and the text of each part that a heading of one level starts."""
    for part in re.split(rf"^{mark}", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield title, body


def _entry(section: str, head: str, body: str, base: str) -> Entry:
    code, colon, rule = head.partition(": ")
    examples = tuple(_examples(code, body, base))
    return Entry(section, code, rule, examples) if colon else Entry(section, "", head, examples)


def _examples(entry: str, body: str, base: str) -> Iterator[Example]:
    program, is_edit = base, False
    for found in _BLOCK.finditer(body):
        if kind := found["kind"]:
            is_edit = kind == "diff"
            program = with_edit(base, found["text"]) if is_edit else found["text"]
            continue
        refused, accepted = Attempt(program, found["refusing"]), None
        if found["accepting"]:
            accepted = Attempt(program, found["accepting"])
        elif is_edit:
            accepted = Attempt(base, found["refusing"])
        yield Example(entry, refused, frozenset(found["codes"].split()), accepted)


def with_edit(base: str, edit: str) -> str:
    """`base` after an edit: hunks between blank lines, of lines that start with "-" (they go), "+"
    (they come) or " " (they stay). ValueError: the lines of a hunk do not stand there just once."""
    text = "\n" + base
    for hunk in edit.split("\n\n"):
        lines = [line for line in hunk.split("\n") if line]
        old, new = _side(lines, "-"), _side(lines, "+")
        if text.count(old) != 1:
            raise ValueError(f"{text.count(old)} places for the edit\n{hunk}")
        text = text.replace(old, new)
    return text[1:]


def _side(lines: list[str], mark: str) -> str:
    """The whole lines that a hunk finds ("-") or leaves ("+"), with the line break before them."""
    return "\n" + "".join(f"{line[1:]}\n" for line in lines if line[0] in (mark, " "))
