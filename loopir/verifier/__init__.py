"""The verifier: what a program must satisfy before a pass or a backend looks at it."""

from collections.abc import Iterator
from dataclasses import dataclass

from loopir.errors import VerifyError
from loopir.nodes import Program
from loopir.printer import excerpt
from loopir.verifier.context import Context
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
    """Every broken rule, by code and then in text order; empty for a well-formed program."""
    return tuple(dict.fromkeys(_violations(program)))


def _violations(program: Program) -> Iterator[Violation]:
    contexts = [Context(program, ("kernels", i)) for i in range(len(program.kernels))]
    for code, rule in RULES.items():
        for ctx in contexts:
            yield from (Violation(code, *finding) for finding in rule.check(ctx))


def verify(program: Program) -> None:
    """Raise VerifyError, which shows the violations inside the IR, if there is one."""
    found = violations(program)
    if found:
        head = f"{len(found)} violation(s) of the IR's rules"
        shown = [_shown(program, v) for v in found[:_MOST_SHOWN]]
        more = [f"and {len(found) - _MOST_SHOWN} more"] if len(found) > _MOST_SHOWN else []
        raise VerifyError("\n\n".join((head, *shown, *more)))


def _shown(program: Program, violation: Violation) -> str:
    place = excerpt(program, violation.path, violation.focus)
    return f"{violation.rule}: {RULES[violation.rule].title}\n{place}\n  found: {violation.message}"
