"""What a pass says of a text that it refuses, and of its neighbour that it accepts."""

import pytest

from loopir.errors import NotApplicable
from loopir.nodes import Program
from loopir.parser import parse
from loopir.verifier import verify
from passes.base import Pass, Refused


def check_refused(made: Pass, text: str, codes: str) -> None:
    """AssertionError: the program of `text` is not refused with just `codes`, which are separated
    by spaces, or `apply` does not raise with the same words."""
    program = parse(text)
    verify(program)
    verdict = made.can_be_applied(program)
    assert isinstance(verdict, Refused)
    assert sorted(verdict.codes) == codes.split(), verdict.explain()
    with pytest.raises(NotApplicable) as raised:
        made.apply(program)
    assert str(raised.value) == verdict.explain()


def check_accepted(made: Pass, text: str) -> Program:
    """What the pass makes of `text`. AssertionError, VerifyError: it refuses, or breaks a rule."""
    program = parse(text)
    verify(program)
    verdict = made.can_be_applied(program)
    assert verdict, verdict.explain()
    after = made.apply(program)
    verify(after)
    return after
