"""`loopir-opt --run`: results of the interpreter before and after passes, and what is refused."""

import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse, parse_many
from loopir.printer import to_text
from passes import opt_run
from passes.base import Pass
from passes.opt_compare import digest
from passes.pipeline import parse_pipeline
from passes.registry import PASSES
from tests.support import kernels
from tests.support.texts import GEMM, MAX_ROWS, edited

OPEN = edited(GEMM, (" M = 96,", ""))
SPLIT = "stream-k{units=5}"
LAUNCHED = "stream-k{launch-constants=true}"
RACE = """\
kernel @race(out Y: f32[N])
    where N = 4 {
  grid (t) in [2] {
    alloc y: register f32[N]
    fill y, 1
    store Y[0 +: N], y
  }
}
"""


@dataclass(frozen=True)
class Edits(Pass):
    """Replaces `old` by `new` in the text: a pass that is wrong where the test wants it."""

    name: ClassVar[str] = "edits"
    old: ClassVar[str] = ""
    new: ClassVar[str] = ""

    def match(self, program: Program) -> str:
        return "plan"

    def rewrite(self, program: Program, plan: str) -> Program:
        return parse(edited(to_text(program), (self.old, self.new)))


@pytest.fixture
def wrong_pass(monkeypatch):
    def install(old: str, new: str) -> str:
        monkeypatch.setitem(PASSES, Edits.name, Edits)
        monkeypatch.setattr(Edits, "old", old)
        monkeypatch.setattr(Edits, "new", new)
        return Edits.name

    return install


def reports(out: str) -> list[str]:
    return [line[len("# run: ") :] for line in out.splitlines() if line.startswith("# run: ")]


# --- reports


def test_a_run_prints_the_checksum_of_each_output_above_the_program(tool):
    program = parse(GEMM)
    arrays = random_inputs(program, 0)
    run(program, arrays)
    result = tool("-", "--run")
    assert (result.code, result.err) == (0, "")
    assert reports(result.out) == [f"C f32[96, 80] {digest(arrays['C'])}"]
    assert parse_many(result.out) == (program,)


def test_the_result_of_passes_is_compared_with_the_program_as_read(tool):
    plain, split = tool("-", "--run"), tool("-", "-p", SPLIT, "--run")
    assert (split.code, split.err) == (0, "")
    assert reports(split.out) == [f"{reports(plain.out)[0]}, equal"]
    assert parse(split.out) == parse_pipeline(SPLIT).run(parse(GEMM))


def test_floats_differ_by_rounding(tool):
    result = tool("-", "-p", SPLIT, "--run", "--floats")
    assert result.code == 0
    pattern = r"C f32\[96, 80\] [0-9a-f]{16}, largest error \S+ of values up to \S+, .* differ"
    assert re.fullmatch(pattern, reports(result.out)[0])


def test_the_seed_decides_what_the_inputs_are(tool):
    outs = [tool("-", "--run", *o).out for o in ((), ("--seed=0",), ("--seed", "1"))]
    assert outs[0] == outs[1] != outs[2]


def test_the_seed_of_the_schedule_changes_no_exact_sum(tool):
    for seed in ("1", "2"):
        assert reports(tool("-", "-p", SPLIT, "--run", "--seed", seed).out)[0].endswith(", equal")


def test_each_program_of_several_has_its_report(tool):
    out = tool("-", "--run", stdin=f"{GEMM}# -----\n{MAX_ROWS}").out
    assert [line.split(" ")[0] for line in reports(out)] == ["C", "Y"]
    assert parse_many(out) == (parse(GEMM), parse(MAX_ROWS))


def test_reports_stand_above_graphs_too(tool):
    out = tool("-", "--run", "--deps=dot").out
    assert len(reports(out)) == 1
    assert "digraph" in out


@pytest.mark.parametrize("name", kernels.NAMES)
def test_any_kernel_runs(name, tool):
    wanted = opt_run.open_names(parse(kernels.text(name)))
    sizes = [f"--size={n}={v}" for n, v in kernels.SIZES.items() if n in wanted]
    for options in ([], ["--floats"]):
        result = tool("-", "--run", *options, *sizes, stdin=kernels.text(name))
        assert (result.code, result.err) == (0, "")


# --- sizes


def test_a_size_binds_what_is_open_and_rebinds_what_is_not(tool):
    small = edited(GEMM, ("M = 96", "M = 40"))
    assert tool("-", "--run", "--size=M=40").out == tool("-", "--run", stdin=small).out
    opened = tool("-", "--run", "--size=M=40", stdin=OPEN)
    assert reports(opened.out) == reports(tool("-", "--run", stdin=small).out)


def test_a_size_can_be_a_block_count_that_a_pass_leaves_open(tool):
    texts = [tool("-", "-p", LAUNCHED, "--run", *o) for o in ((), ("--size=UNITS=7",))]
    assert [t.code for t in texts] == [0, 0]
    assert all(reports(t.out)[0].endswith(", equal") for t in texts)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "size M is open: add --size M=N"),
        (["--size", "M=8", "--size", "Q=1"], "--size Q: no size that can be set; there are BK,"),
        (["--size", "M=8", "--size", "P=4"], "--size P: no size that can be set"),
        (["--size", "M=99999999999"], "elements, and --run takes 134,217,728 at most"),
    ],
)
def test_a_size_that_cannot_be_is_usage(tool, options, said):
    result = tool("-", "--run", *options, stdin=OPEN)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("loopir-opt: error: -, program 1: ")
    assert said in result.err


def test_a_block_count_that_a_pass_has_fixed_cannot_be_set(tool):
    result = tool("-", "-p", SPLIT, "--run", "--size=UNITS=4")
    assert (result.code, result.out) == (2, "")
    assert "--size UNITS: no size that can be set" in result.err


def test_a_lack_of_memory_is_usage(tool, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(opt_run, "random_inputs", fails)
    result = tool("-", "--run")
    assert (result.code, "not enough memory" in result.err) == (2, True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--seed", "1"], "--seed: for --run only"),
        (["--size", "M=1", "--floats"], "--size, --floats: for --run only"),
        (["--run", "--seed", "-1"], "--seed: 0 to 2**32 - 1, not -1"),
        (["--run", "--seed", "x"], "invalid int value: 'x'"),
        (["--run", "--size", "M"], "--size: NAME=N with 0 <= N < 2**63, not M"),
        (["--run", "--size", "M=-1"], "--size: NAME=N"),
        (["--run", "--size", f"M={'9' * 5000}"], "--size: NAME=N"),
    ],
)
def test_wrong_usage_exits_with_two(tool, argv, said):
    result = tool("-", *argv)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert result.err.startswith("usage: loopir-opt")


# --- programs that differ, and programs that the interpreter refuses


def test_a_pass_that_changes_what_is_computed_exits_with_one(tool, wrong_pass):
    name = wrong_pass("for kp in 0 .. P", "for kp in 1 .. P")
    result = tool("-", "-p", name, "--run")
    assert result.code == 1
    assert result.err == "-, program 1: the passes change what it computes: C\n"
    assert re.search(r", largest error \S+ of values", reports(result.out)[0])
    assert "for kp in 1 .. P" in result.out
    assert tool("-", "-p", name, "--run", "--floats").code == 1
    assert tool("-", "-p", name).code == 0


def test_a_last_bit_counts_for_integers_only(tool, wrong_pass, monkeypatch):
    name = wrong_pass("@gemm", "@same")
    plain = opt_run.run

    def last_bit(program, arrays, *rest, **options):
        plain(program, arrays, *rest, **options)
        if program.kernels[0].name == "same":
            arrays["C"][0, 0] = np.nextafter(arrays["C"][0, 0], np.float32(np.inf))

    monkeypatch.setattr(opt_run, "run", last_bit)
    assert tool("-", "-p", name, "--run").code == 1
    assert tool("-", "-p", name, "--run", "--floats").code == 0


def test_a_refusal_of_the_interpreter_exits_with_one_and_shows_the_place(tool):
    result = tool("-", "--run", stdin=RACE)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("-, program 1: race: ")
    assert "store Y[0 +: N], y" in result.err
    assert "schedule: Seeded(0)" in result.err
    assert "Traceback" not in result.err


def test_a_refusal_tells_before_from_after_the_passes(tool, wrong_pass):
    name = wrong_pass("store C[ti * BM +: BM", "store C[0 +: BM")
    assert "program 1: after the passes: race: " in tool("-", "-p", name, "--run").err
    name = wrong_pass("@race", "@renamed")
    assert "program 1: before the passes: race: " in tool("-", "-p", name, "--run", stdin=RACE).err


def test_a_refused_run_keeps_no_other_program_from_the_output(tool):
    result = tool("-", "--run", stdin=f"{RACE}# -----\n{GEMM}")
    assert (result.code, parse_many(result.out)) == (1, (parse(GEMM),))


def test_a_bug_of_a_run_has_a_reproducer_with_its_options(tool, monkeypatch):
    def fails(*_, **__):
        raise KeyError("oops")

    monkeypatch.setattr(opt_run, "run", fails)
    result = tool("-", "-p", "tile-order", "--run", "--seed=3", "--size=M=8", "--floats")
    assert result.code == 3
    assert "loopir-opt - -p tile-order --run --floats --seed=3 --size=M=8 (" in result.err
