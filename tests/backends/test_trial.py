"""`loopir-triton run`: emitted kernels against the reference interpreter, and what must agree."""

import io
import re

import numpy as np
import pytest

from backends.triton_codegen import trial
from backends.triton_codegen.tool import main
from backends.triton_codegen.trial_rules import is_exact, rounding
from loopir.parser import parse
from loopir.printer import to_text
from passes.cli import DONE, REFUSED
from passes.opt_compare import ROUNDING
from passes.pipeline import parse_pipeline
from tests.support import kernels
from tests.support.nests import GEMM_NEST
from tests.support.texts import GEMM, MAX_ROWS, edited

SPLIT = ["-p", "stream-k{units=5}"]
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


@pytest.fixture
def run(monkeypatch, capsys):
    def start(*options: str, text: str = GEMM) -> tuple[int, list[str]]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = main(["run", "-", "--target", "interpret", *options])
        out, err = capsys.readouterr()
        return code, (out + err).splitlines()

    return start


def comparisons(lines: list[str]) -> list[str]:
    return [line for line in lines if " against " in line]


def test_a_program_is_compared_with_the_reference_interpreter(run):
    code, lines = run("--integer")
    assert (code, comparisons(lines)) == (DONE, ["C, program against reference: equal"])
    checksums = re.findall(r"(program|reference): .* ms; C ([0-9a-f]{16})", "\n".join(lines))
    assert [title for title, _ in checksums] == ["program", "reference"]
    assert len({digits for _, digits in checksums}) == 1
    assert lines[-1] == "the outputs agree"


@pytest.mark.parametrize("merge", ["atomic", "workspace"])
def test_an_untiled_nest_is_interpreted_and_compiled_as_the_passes_leave_it(merge, run):
    road = f"tile{{m=16 n=16 k=16}},offload,local-storage,stream-k{{merge={merge} units=3}}"
    code, lines = run("-p", road, "--integer", text=GEMM_NEST.replace("K = 7", "K = 40"))
    assert (code, comparisons(lines)) == (DONE, ["C, after against reference: equal"])
    code, lines = run(text=GEMM_NEST)
    assert code == REFUSED
    assert any("run `offload` first" in line for line in lines)


def test_a_program_and_what_passes_make_of_it_are_compared_with_the_reference(run):
    code, lines = run(*SPLIT, "--integer")
    assert code == DONE
    assert comparisons(lines) == [
        "C, before against reference: equal",
        "C, after against reference: equal",
        "C, after against before: equal",
    ]


@pytest.mark.parametrize("name", kernels.NAMES)
@pytest.mark.parametrize("options", [[], ["--integer"]], ids=["real", "integer"])
def test_any_kernel_agrees_with_the_reference(name, options, run):
    program = parse(kernels.text(name))
    wanted = trial.open_sizes(program, kernels.SIZES)
    sizes = [f"--size={n}={v}" for n, v in wanted.items()]
    code, lines = run(*options, *sizes, text=kernels.text(name))
    assert (code, lines[-1]) == (DONE, "the outputs agree")


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "i8"])
def test_narrow_types_agree_with_the_reference(dtype, run):
    text = GEMM.replace("f16[", f"{dtype}[").replace("BK = 16", "BK = 32")
    text = text.replace("f32[", "i32[") if dtype == "i8" else text
    assert run(*SPLIT, text=text)[0] == DONE


def test_the_launcher_picks_the_blocks_of_a_persistent_kernel(run):
    persistent = to_text(parse_pipeline("stream-k").run(parse(GEMM)))
    for options in ([], ["--units", "3"]):
        code, lines = run("--integer", *options, text=persistent)
        assert (code, lines[-1]) == (DONE, "the outputs agree")


# --- what differs


@pytest.fixture
def broken_backend(monkeypatch):
    """A backend that leaves out the first panel of a loop from 0, of whatever program."""
    plain = trial.compile

    def compile(program, *rest, **options):
        text = to_text(program)
        return plain(parse(text.replace("for kp in 0 ..", "for kp in 1 ..")), *rest, **options)

    monkeypatch.setattr(trial, "compile", compile)


@pytest.mark.parametrize("options", [[], ["--integer"]], ids=["real", "integer"])
def test_a_fault_of_the_backend_shows_without_any_pass(options, run, broken_backend):
    code, lines = run(*options)
    assert code == REFUSED
    assert lines[-1] == ("THE OUTPUTS DIFFER by more than they may: C, program against reference")


def test_a_fault_of_the_backend_before_and_after_passes_shows(run, broken_backend):
    code, lines = run("-p", "tile-order", "--integer")
    assert code == REFUSED
    assert "C, after against before: equal" in lines
    assert lines[-1] == (
        "THE OUTPUTS DIFFER by more than they may: "
        "C, before against reference; C, after against reference"
    )


def test_a_pass_that_changes_the_outputs_shows(run, monkeypatch):
    plain = trial.Trial._outputs

    def outputs(self, program):
        found, seconds = plain(self, program)
        is_after = "UNITS" in to_text(program)
        return {name: array + 5 * is_after for name, array in found.items()}, seconds

    monkeypatch.setattr(trial.Trial, "_outputs", outputs)
    code, lines = run(*SPLIT)
    assert code == REFUSED
    assert lines[-1].endswith(": C, after against reference; C, after against before")


def test_a_last_bit_counts_for_integers_only(run, monkeypatch):
    plain = trial.run

    def last_bit(program, arrays, *rest, **options):
        plain(program, arrays, *rest, **options)
        arrays["C"][0, 0] = np.nextafter(arrays["C"][0, 0], np.float32(np.inf))

    monkeypatch.setattr(trial, "run", last_bit)
    assert run("--integer")[0] == REFUSED
    assert run()[0] == DONE


def test_a_program_that_the_reference_refuses_is_refused(run):
    code, lines = run(text=RACE)
    assert code == REFUSED
    assert lines[0].startswith("-: the reference interpreter refuses the program: race: ")


# --- what is too large


@pytest.mark.parametrize(
    ("limit", "value", "amount"),
    [
        ("_MOST_WORK", 1000, "more than 1,000 multiply-adds and elements of tiles"),
        ("MOST_ELEMENTS", 25_279, "25,280 elements of tensors; 25,279 at most"),
    ],
)
def test_a_large_problem_is_not_interpreted(limit, value, amount, run, monkeypatch):
    monkeypatch.setattr(trial, limit, value)
    code, lines = run()
    assert (code, lines[1:]) == (DONE, [f"reference: skipped, too large ({amount})"])
    code, lines = run(*SPLIT, "--integer")
    assert (code, comparisons(lines)) == (DONE, ["C, after against before: equal"])
    assert lines[-1] == "the outputs agree"


def test_a_problem_of_the_largest_size_is_interpreted(run, monkeypatch):
    monkeypatch.setattr(trial, "MOST_ELEMENTS", 25_280)
    assert len(comparisons(run()[1])) == 1


# --- rules


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        (GEMM, True),
        (MAX_ROWS, True),
        (kernels.COPY, True),
        (kernels.FUNCTIONS, False),
        (edited(GEMM, ("acc: register f32", "acc: register f16"), ("C: f32", "C: f16")), False),
        (edited(kernels.COPY, ("previous * 10", "previous * 0.1")), False),
        (edited(kernels.COPY, ("previous * 10", "previous / 4")), False),
    ],
)
def test_exact_programs_are_told_from_others(text, exact):
    assert is_exact(parse(text)) == exact


def test_tf32_operands_widen_the_tolerance():
    text = GEMM.replace("f16[", "f32[")
    assert rounding(parse(text)) == ROUNDING
    assert rounding(parse(text.replace("dot acc, a, b", "dot acc, a, b tf32x3"))) == ROUNDING
    assert rounding(parse(text.replace("dot acc, a, b", "dot acc, a, b tf32"))) > ROUNDING
