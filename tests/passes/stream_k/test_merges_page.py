"""docs/merges.md: its dumps are what its pipelines make, its figures those of the pass."""

import re
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import expr_text, to_text
from passes.base import Applicable
from passes.pipeline import parse_pipeline
from passes.stream_k import StreamKPass
from passes.stream_k.options import Merge
from passes.stream_k.report import workspace_bytes
from tests.support.documents import fenced, page

ROOT = Path(__file__).parents[3]
PAGE = page("merges.md")
ROWS = re.findall(r"^\| `(stream-k\{.*?\})` \| (.+?) \| ([\d,]+) \|$", PAGE, re.MULTILINE)


@cache
def base() -> Program:
    return parse((ROOT / "examples/gemm_bias.lir").read_text())


def dumps() -> list[tuple[str, str]]:
    """Each dump with the last pipeline named before it."""
    found = re.findall(
        r"`(stream-k\{[^`]*\})`(?:(?!`stream-k).)*?```text\n(.*?)```", PAGE, re.DOTALL
    )
    assert len(found) == len(fenced(PAGE, "text"))
    return found


@pytest.mark.parametrize(("pipeline", "text"), dumps())
def test_a_dump_is_part_of_what_the_pipeline_makes(pipeline: str, text: str):
    made = to_text(parse_pipeline(pipeline).run(base())).splitlines()
    shown = text.splitlines()
    starts = [i for i, line in enumerate(made) if line.strip() == shown[0]]
    blocks = (dedent("\n".join(made[i : i + len(shown)])).splitlines() for i in starts)
    assert shown in blocks


@pytest.mark.parametrize(("pipeline", "slots", "size"), ROWS)
def test_slots_and_bytes_are_those_of_the_pass(pipeline: str, slots: str, size: str):
    (made,) = parse_pipeline(pipeline).passes
    assert isinstance(made, StreamKPass)
    verdict = made.can_be_applied(base())
    assert isinstance(verdict, Applicable)
    assert f"{workspace_bytes(verdict.plan):,}" == size
    where = {b.name: expr_text(b.expr) for b in made.apply(base()).kernels[0].where}
    assert where["SLOTS"] == f"max(1, {slots})"


def test_the_page_shows_all_merges_and_is_short():
    table = re.findall(r"^\| `([\w-]+)`", PAGE, re.MULTILINE)
    assert {*table} - {"stream-k"} == {m.value for m in Merge} - {"auto"}
    assert len(ROWS) == 5
    assert len(PAGE.splitlines()) <= 110
