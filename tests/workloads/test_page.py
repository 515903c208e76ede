"""The table of docs/workloads.md says what the builders, the passes and Stream-K do."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pytest

from loopir import build
from loopir.nodes import Program
from loopir.printer import to_text
from passes.base import Refused
from passes.pipeline import parse_pipeline
from tests.support.documents import DOCS, page
from tests.support.workloads import builders

EXAMPLES = DOCS.parent / "examples"
#: the codes of a row of the table that a merge takes back
TAKEN_BACK = {
    "atomic": frozenset(),
    "atomic-workspace": frozenset({"SK07", "SK08"}),
    "workspace": frozenset({"SK03", "SK04", "SK07", "SK08"}),
    "fixup": frozenset({"SK03", "SK04", "SK07", "SK08"}),
}


@dataclass(frozen=True)
class Row:
    """`tile`: options of the pass, or nothing for a program that needs none."""

    call: str
    tile: str
    texts: tuple[str, ...]
    codes: frozenset[str]

    @cached_property
    def program(self) -> Program:
        built = eval(self.call, {name: getattr(build, name) for name in build.__all__})
        pipeline = f"tile{{{self.tile}}},offload,local-storage"
        return parse_pipeline(pipeline).run(built) if self.tile else built


def rows() -> Iterator[Row]:
    for line in page("workloads.md").splitlines():
        if line.startswith("| `"):
            call, tile, texts, verdict = (cell.strip() for cell in line.strip("|").split("|"))
            codes = frozenset() if verdict == "applies" else frozenset(verdict.split())
            yield Row(call.strip("`"), tile.strip("`"), tuple(re.findall("`(.*?)`", texts)), codes)


ROWS = tuple(rows())
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.call)


@each
def test_canonical_form_contains_what_the_table_shows(row: Row):
    text = to_text(row.program)
    assert row.texts
    assert [part for part in row.texts if part not in text] == []


@pytest.mark.parametrize("merge", TAKEN_BACK)
@each
def test_stream_k_says_what_the_page_says(row: Row, merge: str):
    (stream_k,) = parse_pipeline(f"stream-k{{merge={merge} units=132}}").passes
    verdict = stream_k.can_be_applied(row.program)
    reasons = verdict.reasons if isinstance(verdict, Refused) else ()
    codes = row.codes - TAKEN_BACK[merge]
    assert {reason.code for reason in reasons} == codes
    assert bool(verdict) is not bool(codes)


def test_table_has_every_builder_and_verdicts_of_both_kinds():
    assert {row.call.split("(")[0] for row in ROWS} == builders()
    assert {bool(row.codes) for row in ROWS} == {True, False}
    assert page("workloads.md").count("\n| `") == len(ROWS)


def test_every_example_that_the_page_names_is_there():
    named = set(re.findall(r"`(\w+\.(?:py|lir))`", page("workloads.md")))
    assert {"gemv.py", "batched.py", "conv_as_gemm.py", "contraction.py"} <= named
    assert {"dual_gemm.lir", "matmul_nest.lir"} <= named
    assert not [n for n in named if not (EXAMPLES / n).exists()]
