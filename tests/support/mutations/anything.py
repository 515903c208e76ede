"""Changes of any statement, size or word."""

import re
from random import Random

from loopir.errors import ParseError
from loopir.nodes import Barrier, Body, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.symbols import ceildiv, to_expr
from loopir.walk import node_at
from tests.support.edits import put_after, put_before, replaced, spliced
from tests.support.mutations.parts import Parts, Placed, mutation


def _leaves(parts: Parts) -> list[Placed]:
    return [*parts.before, *parts.inside, *parts.after]


@mutation("V03")
def a_statement_gone(rng: Random, parts: Parts) -> Program | None:
    return spliced(parts.program, rng.choice(_leaves(parts))[0], ())


@mutation("V02")
def a_statement_twice(rng: Random, parts: Parts) -> Program | None:
    path, stmt = rng.choice(_leaves(parts))
    return put_after(parts.program, path, (stmt,))


@mutation("V03")
def two_statements_swapped(rng: Random, parts: Parts) -> Program | None:
    path, stmt = rng.choice(_leaves(parts))
    body = node_at(parts.program, path[:-1])
    at = int(path[-1])
    if at + 1 == len(body):
        return None
    swapped: Body = (*body[:at], body[at + 1], stmt, *body[at + 2 :])
    return replaced(parts.program, path[:-1], swapped)


@mutation("V03")
def a_statement_moved(rng: Random, parts: Parts) -> Program | None:
    """To any other place."""
    source, target = (rng.choice(_leaves(parts))[0] for _ in range(2))
    stmt = node_at(parts.program, source)
    if target[: len(source)] == source:
        return None
    marked = replaced(parts.program, source, Barrier())
    return put_before(marked, target, (stmt,))


@mutation("SK06")
def a_size_changed(rng: Random, parts: Parts) -> Program | None:
    where = parts.program.kernels[0].where
    i = rng.randrange(len(where))
    changed = rng.choice((where[i].expr + 1, to_expr(2), ceildiv(where[i].expr, 2)))
    return replaced(parts.program, ("kernels", 0, "where", i, "expr"), changed)


@mutation("V03")
def words_exchanged(rng: Random, parts: Parts) -> Program | None:
    """A name or a number in the place of another."""
    text = to_text(parts.program)
    words = [m.span() for m in re.finditer(r"\b(?:[A-Za-z]\w*|\d+)\b", text)]
    (a, b), (c, d) = rng.choice(words), rng.choice(words)
    try:
        return parse(text[:a] + text[c:d] + text[b:])
    except ParseError:
        return None
