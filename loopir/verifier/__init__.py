"""The verifier: what a program must satisfy before a pass or a backend looks at it."""

from collections.abc import Iterator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from loopir.errors import VerifyError
from loopir.nodes import Program
from loopir.printer import excerpt
from loopir.verifier.context import Context
from loopir.verifier.readable import ill_typed, unreadable
from loopir.verifier.rules import RULES, Rule
from loopir.walk import Path

__all__ = ["RULES", "Rule", "Violation", "verify", "violations"]

_MOST_SHOWN = 100


@dataclass(frozen=True)
class Violation:
    """A broken rule: its code in `RULES`, the path of the node, the text on its line to mark."""

    rule: str
    path: Path
    message: str
    focus: str = ""


def violations(program: Program) -> tuple[Violation, ...]:
    """Every broken rule, by code and then in text order; empty for a well-formed program. Of one
    that holds what is no part of the IR, only that."""
    if reason := ill_typed(program):
        return (Violation("V40", (), reason),)
    found = tuple(dict.fromkeys(_violations(program)))
    if not found and (reason := unreadable(program)):
        return (Violation("V40", (), reason),)
    return found


def _violations(program: Program) -> Iterator[Violation]:
    contexts = [Context(program, ("kernels", i)) for i in range(len(program.kernels))]
    for code, rule in RULES.items():
        for ctx in contexts:
            yield from (Violation(code, *finding) for finding in rule.check(ctx))


#: programs found well-formed, by identity: they cannot change, and are verified at every door
_well_formed: WeakValueDictionary[int, Program] = WeakValueDictionary()


def verify(program: Program) -> None:
    """Raise VerifyError, which shows the violations inside the IR, if there is one."""
    known = _well_formed.get(id(program))
    if known is not None and known is program:
        return
    found = violations(program)
    if found:
        head = f"{len(found)} violation(s) of the IR's rules"
        shown = [_shown(program, v) for v in found[:_MOST_SHOWN]]
        more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
        raise VerifyError("\n\n".join((head, *shown, *more)))
    _well_formed[id(program)] = program


def _shown(program: Program, violation: Violation) -> str:
    head = f"{violation.rule}: {RULES[violation.rule].title}"
    if not violation.path:  # V40: there may be no text to show
        return f"{head}\n  found: {violation.message}"
    place = excerpt(program, violation.path, violation.focus)
    return f"{head}\n{place}\n  found: {violation.message}"
