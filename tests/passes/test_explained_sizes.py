"""Bytes of workspace, and units, as `explain` tells them: one size for one schedule."""

import re

import pytest

from loopir.build import gemm
from loopir.parser import parse
from passes.decomposition import Bounds, Direction
from passes.explain import explain
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.texts import GEMM, edited

WAVE = gemm(1536, 1536, 4096)


def workspaces(text: str) -> list[str]:
    return re.findall(r"^  workspace +(.*)$", text, re.MULTILINE)


def test_the_size_of_the_best_is_that_of_the_workspace_merge_with_its_counters():
    (found,) = workspaces(explain(WAVE))
    of_plan, _ = workspaces(explain(WAVE, StreamKPass(units=132)))
    assert found == (
        f"stream-k: {of_plan} by merge=workspace (262 slots of 65,536 bytes, 131 counters), "
        "0 by merge=atomic"
    )
    assert of_plan == "17,171,200 bytes"


@pytest.mark.parametrize("merge", list(Merge))
def test_a_plan_that_is_the_best_is_told_by_its_own_merge(merge: Merge):
    """Backward ranges, which no other candidate has."""
    plan = StreamKPass(merge=merge, units=5, bounds=Bounds.BIG_UNITS, direction=Direction.BACKWARD)
    of_plan, of_best = workspaces(explain(gemm(896, 128, 1984), plan, sms=5))
    assert of_best == f"this plan: {of_plan}"


def test_units_that_fragments_replace_by_slices_are_told():
    twelve_panels = edited(GEMM, ("K = 100", "K = 180"))
    fragments = parse_pipeline("mma-expand").run(parse(twelve_panels))
    text = explain(fragments, StreamKPass(units=5))
    assert re.search(r"^  units +18$", text, re.MULTILINE)
    assert re.search(r"^  units asked for +5: a hint", text, re.MULTILINE)
