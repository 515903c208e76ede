"""Loads of elements that nothing reads again."""

import re

import pytest

from backends.triton_codegen import compile, emit
from loopir import build
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from passes.evict_first import EvictFirstPass
from passes.lowering import lower
from passes.pipeline import parse_pipeline
from tests.support import texts
from tests.support.texts import edited

GEMM = edited(texts.GEMM, ("M = 96, N", "M = 32, N"))  # one row of tiles
B = "coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked"


def marked(program: Program) -> list[str]:
    return re.findall(r"load \w+, (\w+)\[.* evict_first$", to_text(program), re.M)


def apply(text: str) -> Program:
    return EvictFirstPass().apply(parse(text))


def found(text: str) -> list[str]:
    """What the pass finds of each load."""
    refused = EvictFirstPass().can_be_applied(parse(text)).explain()
    return re.findall(r"^  found: (.*)$", refused, re.M)


def test_what_one_block_alone_reads_is_marked():
    assert marked(apply(GEMM)) == ["B"]
    assert marked(apply(edited(GEMM, ("M = 32, N = 80", "M = 33, N = 30")))) == ["A"]
    assert marked(apply(edited(GEMM, ("N = 80", "N = 30")))) == ["A", "B"]


def test_control_columns_that_other_rows_of_tiles_read_are_not():
    text = edited(GEMM, ("M = 32, N", "M = 65, N"))
    assert found(text) == ["`A` is read 3 times along `tj`", "`B` is read 3 times along `ti`"]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (("tj * BN +: BN] masked\n        b", "tj * 31 +: BN] masked\n        b"), "side by side"),
        (("tj * BN +: BN] masked\n        b", "tj +: BN] masked\n        b"), "side by side"),
        (("B[kp * BK +: BK, tj", "B[tj * BK +: BK, tj"), "side by side"),
        (("K +: BK, tj * BN +: BN] masked\n", "K +: BK, 0 +: BN] masked\n"), "3 times along `tj`"),
        ((B, f"{B}\n        {B}"), "read by 2 statements"),
        (("where M = 32, ", "where "), "read again along `ti`"),
    ],
)
def test_what_may_be_read_again_is_not_marked(edit: tuple[str, str], why: str):
    whys = [text for text in found(edited(GEMM, edit)) if text.find("`B`") >= 0]
    assert whys
    assert all(why in text for text in whys)


def test_a_loop_that_repeats_a_load_reads_again():
    again = f"for r in 0 .. 2 {{\n          {B}\n        }}"
    assert "`B` is read 2 times along `r`" in found(edited(GEMM, (B, again)))


def test_windows_of_a_convolution_overlap():
    conv = lower(build.conv_nest(1, 16, (8, 8), 16, (3, 3), padding=1), m=16, n=16, k=16)
    refused = EvictFirstPass().can_be_applied(conv)
    assert refused.codes == {"EF02"}
    assert "no blocks side by side" in refused.explain()


def test_shared_marks_what_tiles_read_together():
    many = edited(GEMM, ("M = 32, N", "M = 65, N"))
    program = EvictFirstPass(shared=True).apply(parse(many))
    assert marked(program) == ["A", "B"]
    assert parse_pipeline("evict-first{shared=true}").run(parse(many)) == program


def test_shared_marks_every_load_of_a_parameter():
    twice = edited(GEMM, (B, f"{B}\n        {B}"))
    assert marked(EvictFirstPass(shared=True).apply(parse(twice))) == ["A", "B", "B"]


def test_shared_adds_to_what_is_marked_and_then_is_refused():
    both = parse_pipeline("evict-first,evict-first{shared=true}").run(parse(GEMM))
    assert marked(both) == ["A", "B"]
    assert EvictFirstPass(shared=True).can_be_applied(both).codes == {"EF03"}


@pytest.mark.parametrize(
    "pipeline",
    ["evict-first,stream-k{units=3}", "evict-first,stream-k{splits=7}", "tile-order,evict-first"],
)
def test_the_word_stays_through_other_passes_and_through_text(pipeline: str):
    program = parse_pipeline(pipeline).run(parse(GEMM))
    assert marked(program) == ["B"]
    assert parse(to_text(program)) == program


def test_a_second_kernel_that_reads_the_parameter_keeps_it():
    other = GEMM.replace("@gemm", "@other").replace("C", "D")
    text = f"{GEMM}\n{other}"
    assert set(found(text)) == {f"`{name}` is read by 2 statements" for name in "AB"}


def test_the_backend_says_it_of_that_load_only():
    source = emit(apply(GEMM)).source
    assert source.count('eviction_policy="evict_first"') == 1
    assert "eviction_policy" not in emit(parse(GEMM)).source


def test_the_instruction_has_a_policy_where_a_load_goes_to_registers():
    """Control: Triton's asynchronous copies, of two stages and more, have none."""
    sass = {
        stages: compile(apply(GEMM), "cuda:90", num_stages=stages).kernels[0].sass
        for stages in (1, 3)
    }
    assert len(re.findall(r"LDG\.E\.EF", sass[1])) > 0
    assert "LDG.E.EF" not in sass[3]


def test_a_while_around_a_load_reads_again():
    turns = f"while i < 2 {{\n          {B}\n          set i = i + 1\n        }}"
    text = edited(GEMM, (B, f"let i = 0\n        {turns}"))
    assert "`B` is read again along `while i < 2`" in found(text)


def test_parameters_that_may_be_the_same_storage_count_as_one():
    text = edited(GEMM, ("M = 32, N = 80", "M = 32, N = 30"))
    aliased = edited(
        text, ("max(1, ceildiv(K, BK)) {", "max(1, ceildiv(K, BK))\n    alias(A, B) {")
    )
    assert found(aliased) == ["`A` or `B` is read by 2 statements"] * 2
    assert marked(apply(text)) == ["A", "B"]


def test_so_do_those_that_are_the_same_by_way_of_a_third():
    text = edited(GEMM, ("M = 32, N = 80", "M = 32, N = 30"))
    clauses = "alias(A, C)\n    alias(B, C) {"
    aliased = edited(text, ("max(1, ceildiv(K, BK)) {", f"max(1, ceildiv(K, BK))\n    {clauses}"))
    assert found(aliased) == ["`A` or `B` or `C` is read by 2 statements"] * 2


def test_storage_that_is_written_too_is_read_once():
    aliased = ("max(1, ceildiv(K, BK)) {", "max(1, ceildiv(K, BK))\n    alias(B, C) {")
    assert marked(apply(edited(GEMM, aliased))) == ["B"]


def test_a_workspace_is_read_from_the_shared_cache_whatever_the_word():
    """PTX has no `.cg` with a policy."""
    program = parse_pipeline("stream-k{splits=7 merge=fixup}").run(parse(GEMM))
    text = re.sub(r"(load \w+, partials\[.*)$", r"\1 evict_first", to_text(program), flags=re.M)
    assert "evict_first" in text
    assert "eviction_policy" not in emit(parse(text)).source
