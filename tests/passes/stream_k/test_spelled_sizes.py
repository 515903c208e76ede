"""Sizes of the `where` clause that are bound to other such sizes."""

from loopir.build import gemm
from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import spelled
from loopir.symbols import ceildiv, imax, sym
from passes.base import Applicable, Refused
from passes.stream_k import StreamKPass
from tests.support.texts import edited

OPEN = to_text(gemm(None, 64, None))
BOUND = "P = max(1, ceildiv(K, BK))"
AT_LAUNCH = StreamKPass(launch_constants=True)


def test_a_name_is_spelled_by_names_that_the_launch_binds():
    program = parse(edited(OPEN, (BOUND, f"{BOUND.replace('P', 'Q')}, R = Q, P = R")))
    found = spelled(program.kernels[0])
    assert found["P"] == found["Q"] == imax(1, ceildiv(sym("K"), 64))


def test_a_panel_count_by_way_of_other_names_is_positive():
    text = edited(OPEN, (BOUND, f"{BOUND.replace('P', 'Q')}, R = Q, P = R"))
    assert isinstance(AT_LAUNCH.can_be_applied(parse(text)), Applicable)


def test_a_panel_count_by_way_of_other_names_may_be_zero():
    text = edited(OPEN, (BOUND, "Q = ceildiv(K, BK), R = Q, P = R"))
    verdict = AT_LAUNCH.can_be_applied(parse(text))
    assert isinstance(verdict, Refused)
    assert verdict.codes == {"SK05"}
    assert verdict.reasons[0].found == "the panel count may be zero"
