"""`loopir-opt`: results, reports, and the exit code and message of every kind of bad input."""

import contextlib
import io
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from loopir import __version__
from loopir.deps import dependences, to_dot
from loopir.nodes import Program
from loopir.parser import parse, parse_many
from loopir.printer import to_text
from passes import opt
from passes.base import Pass
from passes.cli import DONE, run_tool
from passes.pipeline import parse_pipeline
from passes.registry import PASSES
from tests.support.opt_tool import Result
from tests.support.texts import GEMM, MAX_ROWS, edited

SECOND = edited(GEMM, ("@gemm", "@second"))
ORDERED = edited(GEMM, ("ceildiv(N, BN)] {", "ceildiv(N, BN)] order grouped(8) {"))
SECOND_ORDERED = edited(ORDERED, ("@gemm", "@second"))


def process(*argv: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "passes.opt", *argv]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, **options)


# --- results ---


def test_the_result_follows_a_comment_with_version_and_pipeline(tool):
    result = tool("-", "-p", " tile-order { group=8 }")
    assert result == Result(0, f"# loopir {__version__} -p 'tile-order{{group=8}}'\n{ORDERED}", "")


def test_without_a_pipeline_the_program_is_printed_in_canonical_form(tool):
    loose = GEMM.replace("fill acc, 0", "fill   acc,0   # the identity")
    assert tool("-", stdin=loose) == Result(0, f"# loopir {__version__}\n{GEMM}", "")


def test_a_file_is_read_by_name(tool, tmp_path):
    file = tmp_path / "gemm.lir"
    file.write_text(GEMM)
    assert tool(str(file), "--pipeline=tile-order").out.endswith(ORDERED)


def test_a_byte_order_mark_is_no_part_of_the_text(tool):
    assert tool("-", stdin="\ufeff" + GEMM).out.endswith(GEMM)


def test_several_programs_stay_apart(tool):
    result = tool("-", "-p", "tile-order", stdin=f"{GEMM}# -----\n{SECOND}")
    assert result.code == 0
    first, second = parse_many(result.out)
    assert first == parse(ORDERED)
    assert second == parse_pipeline("tile-order").run(parse(SECOND))
    assert result.out.count("# -----\n") == 1
    assert result.out.count("# loopir ") == 2


def test_the_output_is_an_input_that_means_the_same(tool):
    once = tool("-", "-p", "tile-order", "--explain").out
    assert parse_many(tool("-", stdin=once).out) == parse_many(once)


def test_deps_print_a_graph_of_each_kernel_in_place_of_the_program(tool):
    result = tool("-", "-p", "tile-order", "--deps=dot", stdin=f"{GEMM}# -----\n{SECOND}")
    graphs = [to_dot(dependences(parse(text).kernels[0])) for text in (ORDERED, SECOND_ORDERED)]
    head = f"# loopir {__version__} -p tile-order\n"
    assert result == Result(0, f"{head}{graphs[0]}# -----\n{head}{graphs[1]}", "")


def test_deps_are_those_of_the_result(tool):
    text = tool("-", "-p", "stream-k{merge=atomic units=5}", "--deps", "dot").out
    assert '-> s21 [label="raw C (carried by grid1d (unit))", style=solid];' in text


def test_deps_in_another_form_are_usage(tool):
    result = tool("-", "--deps=svg")
    assert result.code == 2
    assert "--deps: invalid choice: 'svg'" in result.err


# --- reports ---

TWO = "tile-order{along_n},tile-order{group=8}"  # the first changes nothing


@pytest.mark.parametrize(
    ("wanted", "printed"),
    [
        ("all", ["tile-order{along_n}", "tile-order{group=8}"]),
        ("changed", ["tile-order{group=8}"]),
        ("tile-order", ["tile-order{along_n}", "tile-order{group=8}"]),
    ],
)
def test_print_after_dumps_the_program_on_standard_error(tool, wanted, printed):
    result = tool("-", "-p", TWO, f"--print-after={wanted}")
    texts = {"tile-order{along_n}": GEMM, "tile-order{group=8}": ORDERED}
    assert result.code == 0
    assert result.err == "".join(f"# after {p}\n{texts[p]}" for p in printed)
    assert parse_many(result.out) == (parse(ORDERED),)


def test_diff_shows_the_lines_that_a_pass_changed(tool):
    lines = tool("-", "-p", TWO, "--diff").err.splitlines()
    assert [line for line in lines if line[0] in "+-"] == [
        "--- before tile-order{group=8}",
        "+++ after tile-order{group=8}",
        "-  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {",
        "+  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] order grouped(8) {",
    ]


def test_diff_of_a_pass_that_changed_nothing_is_empty(tool):
    assert tool("-", "-p", "tile-order{along_n}", "--diff").err == ""


def test_time_passes_has_a_line_a_pass(tool):
    lines = tool("-", "-p", TWO, "--time-passes").err.splitlines()
    assert [line.split(" ms  ")[1] for line in lines] == TWO.split(",")
    assert all(0 <= float(line.split(" ms  ")[0]) < 60_000 for line in lines)


def test_explain_adds_the_figures_as_comments(tool):
    stream_k = "stream-k{merge=atomic units=5}"
    result = tool("-", "-p", f"tile-order{{group=4}},{stream_k}", "--explain")
    assert result.code == 0
    comments = [line for line in result.out.splitlines() if line.startswith("#")]
    assert comments[1:4] == [
        "# tile-order{group=4}",
        "#   tile order  grouped(4)",
        f"# {stream_k}",
    ]
    figures = "\n".join(comments)
    for label in ("tiles", "waves", "last wave", "utilisation", "units", "panels a unit"):
        assert f"#   {label}" in figures
    for label in ("split tiles", "contributors", "workspace", "zeroing"):
        assert f"#   {label}" in figures


def test_explain_counts_the_tiles_of_the_program(tool):
    out = tool("-", "-p", "stream-k{units=5}", "--explain").out
    rows = dict(line[4:].split("  ", 1) for line in out.splitlines() if line.startswith("#   "))
    figures = {label: text.strip() for label, text in rows.items()}
    assert figures["tiles"] == "9, of 7 panels each"
    assert figures["panels a unit"] == "12 to 13"
    assert figures["split tiles"] == "4 of 9"


def test_list_passes_needs_no_file_and_names_every_option(tool):
    result = tool("--list-passes")
    assert (result.code, result.err) == (0, "")
    for name in PASSES:
        assert f"{name}: " in result.out
    assert "  group=none     an integer or none: rows of tiles in a band" in result.out
    assert "  order=grouped  one of along_n, along_m, grouped: which tiles" in result.out


def test_help_and_version_exit_with_zero(tool):
    assert tool("--version").out == f"loopir-opt {__version__}\n"
    assert "usage: loopir-opt" in tool("--help").out
    assert (tool("--help").code, tool("--version").code) == (0, 0)


# --- exit code 1: refusals and programs that are none ---


def test_a_refusal_exits_with_one_and_the_text_of_the_verdict(tool):
    result = tool("-", "-p", "tile-order", stdin=MAX_ROWS)
    verdict = PASSES["tile-order"]().can_be_applied(parse(MAX_ROWS))
    assert result == Result(1, "", f"-, program 1: {verdict.explain()}\n")


def test_a_refused_program_does_not_keep_the_others_from_the_output(tool):
    text = f"{GEMM}# -----\n{MAX_ROWS}# -----\n{SECOND}"
    result = tool("-", "-p", "tile-order", stdin=text)
    assert result.code == 1
    assert [p.kernels[0].name for p in parse_many(result.out)] == ["gemm", "second"]
    assert "-, program 2: tile-order: not applicable" in result.err


def test_unparsable_text_exits_with_one_and_shows_line_and_caret(tool, tmp_path):
    file = tmp_path / "bad.lir"
    file.write_text(edited(GEMM, ("fill acc, 0", "fil acc, 0")))
    result = tool(str(file))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith(f"{file}: line 7, column 5: ")
    assert result.err.endswith("\n      fil acc, 0\n      ^\n")


def test_a_program_that_breaks_a_rule_exits_with_one(tool):
    result = tool("-", stdin=edited(GEMM, ("    alloc acc: register f32[BM, BN]\n", "")))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("-, program 1: ")
    assert "acc" in result.err


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "# -----\n"])
def test_text_without_a_program_exits_with_one(tool, text):
    result = tool("-", stdin=text)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("-: ")


def test_text_that_is_not_utf_8_exits_with_one_and_shows_the_place(tool):
    result = tool("-", stdin=b"# fine\nkernel @\xff(")
    assert result == Result(1, "", "-: line 2, column 9: byte 0xff is not UTF-8 text\n")


@pytest.mark.parametrize("data", [b"\0" * 9, bytes(range(1, 128)), b"(" * 50_000, b"kernel " * 999])
def test_junk_exits_with_one(tool, data):
    result = tool("-", stdin=data)
    assert (result.code, result.out) == (1, "")
    assert "Traceback" not in result.err


# --- exit code 2: usage ---


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "error: FILE is missing; - reads standard input"),
        (("-", "-p", "tile-ordr"), "unknown pass 'tile-ordr'; did you mean 'tile-order'?"),
        (("-", "-p", "tile-order{grp=8}"), "no option 'grp'; did you mean 'group'?"),
        (("-", "-p", "tile-order{group=x}"), "option 'group' wants an integer or none, not x"),
        (("-", "-p", "tile-order{"), "expected an option or '}', found the end"),
        (("-", "-p", "stream-k{units=0}"), "column 10: units: an int >= 1, not 0"),
        (("-", "-p", "tile-order", "--print-after=tile-ordr"), "did you mean 'tile-order'?"),
        (("-", "--print-after=tile-order"), "no pass 'tile-order' in the pipeline"),
        (("-", "--dif"), "unrecognized arguments: --dif"),
        (("-", "-p"), "expected one argument"),
        (("-", "other"), "unrecognized arguments: other"),
        (("/does/not/exist.lir",), "cannot read /does/not/exist.lir: No such file or directory"),
        (("/",), "cannot read /: Is a directory"),
        (("a\0b",), r"cannot read 'a\x00b': embedded null byte"),
    ],
)
def test_wrong_usage_exits_with_two(tool, argv, message):
    result = tool(*argv)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("usage: loopir-opt")


def test_a_wrong_option_is_shown_with_a_caret(tool):
    err = tool("-", "-p", "tile-order{grp=8}").err
    assert err.endswith("\n  tile-order{grp=8}\n             ^\n")


def test_a_file_that_may_not_be_read_exits_with_two(tool, monkeypatch):
    def denied(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    result = tool("secret.lir")
    assert result.code == 2
    assert "cannot read secret.lir: Permission denied" in result.err


# --- exit code 3: bugs of ours ---


@dataclass(frozen=True)
class Crashes(Pass):
    name: ClassVar[str] = "crashes"

    def match(self, program: Program) -> str:
        return "plan"

    def rewrite(self, program: Program, plan: str) -> Program:
        raise KeyError("oops")


@dataclass(frozen=True)
class Breaks(Crashes):
    name: ClassVar[str] = "breaks"

    def rewrite(self, program: Program, plan: str) -> Program:
        (kernel,) = program.kernels
        (grid,) = kernel.body
        body = (replace(grid, body=grid.body[1:]),)
        return replace(program, kernels=(replace(kernel, body=body),))


@pytest.mark.parametrize(
    ("cls", "message"), [(Crashes, "KeyError: 'oops'"), (Breaks, "breaks a rule of the IR")]
)
def test_a_bug_of_a_pass_exits_with_three_and_a_reproducer(tool, monkeypatch, cls, message):
    monkeypatch.setitem(PASSES, cls.name, cls)
    pipeline = f"tile-order,{cls.name}"
    result = tool("-", "-p", pipeline)
    assert (result.code, result.out) == (3, "")
    assert "bug of ours" in result.err
    assert message in result.err
    assert f"# reproducer: loopir-opt - -p {pipeline} (" in result.err
    assert result.err.endswith(GEMM)
    assert "Traceback" not in result.err


def test_a_bug_of_the_parser_exits_with_three_and_a_reproducer(tool, monkeypatch):
    def crash(text: str):
        raise RecursionError("too deep")

    monkeypatch.setattr(opt, "parse_many", crash)
    result = tool("-")
    assert (result.code, result.out) == (3, "")
    assert "RecursionError: too deep" in result.err
    assert result.err.endswith(GEMM)


def test_a_bug_outranks_a_refusal_and_keeps_the_other_results(tool, monkeypatch):
    monkeypatch.setitem(PASSES, "crashes", Crashes)
    monkeypatch.setattr(Crashes, "match", lambda self, program: _crash_on_gemm(program))
    monkeypatch.setattr(Crashes, "rewrite", lambda self, program, plan: program)
    text = f"{MAX_ROWS}# -----\n{GEMM}# -----\n{SECOND}"
    result = tool("-", "-p", "tile-order,crashes", stdin=text)
    assert result.code == 3
    assert [p.kernels[0].name for p in parse_many(result.out)] == ["second"]


def _crash_on_gemm(program: Program) -> str:
    if program.kernels[0].name == "gemm":
        raise AssertionError("gemm")
    return "plan"


# --- as a process ---


def test_the_process_reads_standard_input_and_writes_the_result():
    p = process("-", "-p", "tile-order", stdout=subprocess.PIPE)
    out, err = p.communicate(GEMM.encode())
    assert (p.returncode, err) == (0, b"")
    assert parse_many(out.decode()) == (parse(ORDERED),)


def test_the_output_does_not_depend_on_the_hash_seed():
    outputs = set()
    for seed in ("0", "12345"):
        pipeline = "tile-order{group=8},stream-k{units=5}"
        p = process(
            *("-", "-p", pipeline, "--explain"),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        outputs.add(p.communicate(GEMM.encode())[0])
        assert p.returncode == 0
    assert len(outputs) == 1


def test_the_name_of_a_file_that_has_no_encoding_is_escaped():
    with io.TextIOWrapper(io.BytesIO(), encoding="utf-8") as output:
        with contextlib.redirect_stdout(output):
            assert run_tool("tool", lambda: print(os.fsdecode(b"caf\xe9")) or DONE) == DONE
        assert output.buffer.getvalue() == b"caf\\udce9\n"


def test_a_closed_pipe_ends_the_process_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    p = process("-", stdout=writing)
    os.close(writing)
    _, err = p.communicate(GEMM.encode())
    assert (p.returncode, err) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_disk_exits_with_two_and_says_so():
    with open("/dev/full", "wb") as full:
        p = process("-", stdout=full)
        _, err = p.communicate(GEMM.encode())
    assert (p.returncode, err) == (
        2,
        b"loopir-opt: error: cannot write the output: No space left on device\n",
    )


def test_a_refusal_of_the_process_exits_with_one():
    p = process("-", "-p", "tile-order", stdout=subprocess.PIPE)
    out, err = p.communicate(MAX_ROWS.encode())
    assert (p.returncode, out) == (1, b"")
    assert b"TO01" in err
    assert b"Traceback" not in err


def test_the_dump_of_a_program_is_what_the_library_prints(tool):
    program = parse_pipeline("stream-k{units=5}").run(parse(GEMM))
    assert tool("-", "-p", "stream-k{units=5}").out.endswith(to_text(program))


@pytest.mark.parametrize(("closed", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_standard_stream_exits_with_two(closed, name):
    command = f"'{sys.executable}' -m passes.opt - {closed}"
    done = subprocess.run(["sh", "-c", command], input=GEMM.encode(), stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert f"error: standard {name} is closed\n".encode() in done.stderr


def test_the_version_that_the_tools_print_is_the_projects():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["version"] == __version__
