"""Pipelines: text both ways, the verifier between passes, observers."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from loopir.errors import InternalError, NotApplicable, PipelineError, VerifyError
from loopir.nodes import Grid, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import OrderKind
from passes.base import Pass, Refusal
from passes.pipeline import PassPipeline, PassTrace, parse_pipeline
from passes.tile_order import TileOrderPass
from tests.support.texts import GEMM, edited


@dataclass(frozen=True)
class Renames(Pass):
    """Gives every kernel a name."""

    name: ClassVar[str] = "renames"
    to: str = "renamed"

    def match(self, program: Program) -> str:
        return self.to

    def rewrite(self, program: Program, plan: str) -> Program:
        return replace(program, kernels=tuple(replace(k, name=plan) for k in program.kernels))


@dataclass(frozen=True)
class Breaks(Renames):
    """A faulty pass: it leaves out the first `alloc`, so a tile is used that nothing made."""

    name: ClassVar[str] = "breaks"

    def rewrite(self, program: Program, plan: str) -> Program:
        (kernel,) = program.kernels
        (grid,) = kernel.body
        assert isinstance(grid, Grid)
        return replace(
            program, kernels=(replace(kernel, body=(replace(grid, body=grid.body[1:]),)),)
        )


@dataclass(frozen=True)
class Refuses(Renames):
    name: ClassVar[str] = "refuses"

    def match(self, program: Program) -> tuple[Refusal, ...]:
        return (Refusal("XX01", "never", ("kernels", 0), "a program", "give up"),)


REGISTRY = {cls.name: cls for cls in (Renames, Breaks, Refuses)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tile-order",
        "tile-order{group=8}",
        "tile-order{along_m},tile-order{along_n}",
        "tile-order{group=8},stream-k{merge=atomic units=132}",
    ],
)
def test_a_canonical_pipeline_string_prints_back_exactly(text):
    assert str(parse_pipeline(text)) == text


def test_white_space_and_order_of_options_are_normalised():
    text = " tile-order { group = 8 } ,\n stream-k{ units=132  merge=atomic } "
    assert str(parse_pipeline(text)) == "tile-order{group=8},stream-k{merge=atomic units=132}"


def test_a_pipeline_runs_its_passes_in_order():
    pipeline = PassPipeline((Renames(to="first"), Renames(to="second")))
    assert pipeline.run(parse(GEMM)) == parse(edited(GEMM, ("@gemm", "@second")))


def test_an_empty_pipeline_returns_the_program():
    assert PassPipeline().run(parse(GEMM)) == parse(GEMM)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("tile-order,", 12, "expected the name of a pass, found the end"),
        (",tile-order", 1, "expected the name of a pass, found ','"),
        ("tile-order,,tile-order", 12, "expected the name of a pass, found ','"),
        ("tile-order tile-order", 12, "expected ',' or the end, found 'tile-order'"),
        ("tile-order,strem-k", 12, "unknown pass 'strem-k'; did you mean 'stream-k'?"),
        ("tile-order{grupo=8}", 12, "no option 'grupo'; did you mean 'group'?"),
        ("tile-order{along_k}", 12, "no option 'along_k'; did you mean 'along_n'?"),
        ("stream-k{units=4 slot-layout=auto merge=atomic}", 18, ": slot-layout: not with merge"),
        ("tile-order,stream-k{units=4 min-panels=0}", 29, ": min-panels: an int >= 1, not 0"),
        ("tile-order,stream-k{decomposition=hybrid}", 12, ": units: decomposition=hybrid needs"),
    ],
)
def test_a_mistake_in_a_pipeline_string_is_shown_at_its_column(text, column, message):
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(text)
    assert str(raised.value).startswith(f"column {column}: ")
    assert message in str(raised.value)


def test_a_refusal_stops_the_pipeline_with_the_text_of_the_verdict():
    program = parse(GEMM)
    with pytest.raises(NotApplicable) as raised:
        PassPipeline((Renames(), Refuses(), Breaks())).run(program)
    renamed = Renames().apply(program)
    assert str(raised.value) == Refuses().can_be_applied(renamed).explain()
    assert "XX01" in str(raised.value)


def test_a_pass_that_breaks_a_rule_is_a_bug_of_ours_with_a_reproducer():
    program = parse(GEMM)
    with pytest.raises(InternalError) as raised:
        PassPipeline((Renames(), Breaks(to="x"))).run(program)
    text = str(raised.value)
    assert text.startswith("pass breaks{to=x} made a program that breaks a rule of the IR.\n")
    assert to_text(Renames().apply(program)) in text


def test_control_the_rewrite_by_itself_breaks_the_program():
    broken = Breaks().rewrite(parse(GEMM), None)
    assert "alloc acc" not in to_text(broken)


@pytest.mark.parametrize("plan", [(), ("not a refusal",), (1, 2)])
def test_a_match_that_gives_neither_plan_nor_refusals_is_a_bug_of_ours(plan):
    @dataclass(frozen=True)
    class Confused(Renames):
        def match(self, program):
            return plan

    with pytest.raises(InternalError, match="match gives a plan or refusals"):
        Confused().can_be_applied(parse(GEMM))


def test_a_program_that_was_broken_before_is_the_users_mistake():
    program = Breaks().rewrite(parse(GEMM), None)
    with pytest.raises(VerifyError):
        Renames().can_be_applied(program)
    with pytest.raises(VerifyError):
        PassPipeline((Renames(),)).run(program)
    with pytest.raises(VerifyError):
        PassPipeline().run(program)


def test_observers_see_each_pass_with_the_program_before_and_after_it():
    traces: list[PassTrace] = []
    counts: list[int] = []
    pipeline = PassPipeline((Renames(), TileOrderPass(order=OrderKind.ALONG_N), Renames()))
    result = pipeline.run(
        parse(GEMM), observers=(traces.append, lambda t: counts.append(len(traces)))
    )
    assert [t.applied for t in traces] == list(pipeline.passes)
    assert [t.changed for t in traces] == [True, False, False]
    assert traces[0].before == parse(GEMM)
    assert traces[1].before == traces[0].after
    assert traces[-1].after == result
    assert counts == [1, 2, 3]
    assert all(0 <= t.seconds < 60 for t in traces)


def test_an_observer_does_not_see_a_program_that_breaks_a_rule():
    traces: list[PassTrace] = []
    with pytest.raises(InternalError):
        PassPipeline((Breaks(),)).run(parse(GEMM), observers=(traces.append,))
    assert traces == []


def test_a_run_leaves_its_input_unchanged():
    program = parse(GEMM)
    PassPipeline((Renames(), TileOrderPass(group=4))).run(program)
    assert program == parse(GEMM)


def test_a_pipeline_of_test_local_passes_has_text_too():
    pipeline = parse_pipeline("renames{to=x},breaks", REGISTRY)
    assert pipeline == PassPipeline((Renames(to="x"), Breaks()))
    assert str(pipeline) == "renames{to=x},breaks"
