"""Almost-legal programs: a legal one with a change, after which it may be legal or not."""

from random import Random

from loopir.errors import ParseError
from loopir.nodes import Program
from tests.support.mutations import anything, output, reduction
from tests.support.mutations.parts import MUTATIONS, Mutation, Parts

__all__ = ["MUTATIONS", "Mutation", "anything", "changed", "mutated", "output", "reduction"]


def mutated(rng: Random, program: Program, name: str) -> Program | None:
    """The program after the change of that name; None where there is nothing to change."""
    return MUTATIONS[name].change(rng, Parts.of(program))


def changed(rng: Random, program: Program, name: str) -> Program:
    """As `mutated`, of any program: as it is where the change does not fit."""
    try:
        return mutated(rng, program, name) or program
    except (StopIteration, LookupError, ParseError):
        return program
