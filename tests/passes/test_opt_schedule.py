"""`loopir-opt --timeline`, `--trace` and `--sms`."""

import json

import pytest

from loopir.parser import parse_many
from passes.decomposition import Fold, StreamK, simulate
from passes.drawing import to_svg, to_text, to_trace
from passes.stream_k import StreamKPass
from tests.support.texts import GEMM, MAX_ROWS, edited

SECOND = edited(GEMM, ("@gemm", "@second"))
OPEN = edited(GEMM, ("M = 96, ", ""))
PASS = "stream-k{units=5}"
TITLE = f"@gemm, {PASS}"
DRAWN = simulate(StreamK(9, 7, 5), fold=Fold.LAST_ARRIVER)


def comments(out: str) -> list[str]:
    return [line[2:] for line in out.splitlines() if line.startswith("# ")]


def test_the_timeline_is_written_as_svg_and_the_trace_as_json(tool, tmp_path):
    svg, trace = tmp_path / "out.svg", tmp_path / "out.json"
    result = tool("-", "-p", PASS, f"--timeline={svg}", f"--trace={trace}")
    assert (result.code, result.err) == (0, "")
    assert result.out == tool("-", "-p", PASS).out
    assert svg.read_text() == to_svg(DRAWN, TITLE)
    assert trace.read_text() == to_trace(DRAWN, TITLE)
    assert json.loads(trace.read_text())["traceEvents"]


def test_the_timeline_is_text_in_a_text_file(tool, tmp_path):
    file = tmp_path / "out.txt"
    file.write_text("old and longer than what is new" * 500)
    assert tool("-", "-p", PASS, f"--timeline={file}").code == 0
    assert file.read_text() == to_text(DRAWN, TITLE)


def test_a_dash_puts_the_timeline_into_the_comments_of_the_result(tool):
    out = tool("-", "-p", PASS, "--timeline", "-").out
    assert to_text(DRAWN, TITLE, columns=98).splitlines() == comments(out)[1:]
    heads = [line for line in out.splitlines() if line.startswith("#")]
    assert max(map(len, heads)) <= 100
    assert parse_many(out) == parse_many(tool("-", "-p", PASS).out)


def test_the_schedule_is_that_of_the_plan_behind_other_passes(tool, tmp_path):
    file = tmp_path / "out.json"
    text = "tile-order{group=2},stream-k{bounds=ceil direction=backward units=4}"
    assert tool("-", "-p", text, f"--trace={file}").code == 0
    events = [r for r in json.loads(file.read_text())["traceEvents"] if r["ph"] == "X"]
    first = next(e["args"] for e in events if e["cat"] == "compute")
    assert first == {"tile": 2, "k0": 0, "k1": 2}  # unit 0 owns 16 of 63, and starts at the end
    assert len({e["tid"] for e in events}) == 4


def test_several_programs_have_numbered_files(tool, tmp_path):
    file = tmp_path / "out.svg"
    result = tool("-", "-p", PASS, f"--timeline={file}", stdin=f"{GEMM}# -----\n{SECOND}")
    assert result.code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"p1-out.svg", "p2-out.svg"}
    assert "@gemm, stream-k" in (tmp_path / "p1-out.svg").read_text()
    assert "@second, stream-k" in (tmp_path / "p2-out.svg").read_text()


def test_places_are_sms_where_the_pass_is_not_told_its_units(tool):
    text = "stream-k{decomposition=split-k splits=2}"
    assert "18 units on 4 places" in comments(tool("-", "-p", text, "--timeline=-", "--sms=4").out)
    assert "18 units on 132 places" in comments(tool("-", "-p", text, "--timeline=-").out)
    assert "5 units on 5 places" in comments(tool("-", "-p", PASS, "--timeline=-", "--sms=4").out)


def test_a_refused_program_writes_nothing(tool, tmp_path):
    file = tmp_path / "out.svg"
    refused = "stream-k{merge=atomic units=5}"
    result = tool("-", "-p", refused, f"--timeline={file}", stdin=MAX_ROWS)
    assert (result.code, result.out) == (1, "")
    assert list(tmp_path.iterdir()) == []


def test_a_schedule_that_the_launch_completes_is_usage(tool, tmp_path):
    for pipeline, text in (("stream-k", GEMM), ("stream-k{launch-constants=true units=4}", OPEN)):
        result = tool("-", "-p", pipeline, f"--trace={tmp_path / 'x.json'}", stdin=text)
        assert (result.code, result.out) == (2, "")
        assert "the launch completes the schedule; to draw it, say units=N" in result.err
    assert list(tmp_path.iterdir()) == []


def test_more_units_than_anyone_would_look_at_are_usage_but_may_be_traced(tool, tmp_path):
    text = edited(GEMM, ("M = 96, N = 80, K = 100", "M = 9600, N = 80, K = 1000"))
    pipeline = "stream-k{units=2049}"
    result = tool("-", "-p", pipeline, "--timeline=-", stdin=text)
    assert (result.code, result.out) == (2, "")
    assert "2049 units, 2048 at most; --trace takes them" in result.err
    assert tool("-", "-p", pipeline, f"--trace={tmp_path / 'x.json'}", stdin=text).code == 0


def test_a_schedule_too_large_to_play_is_usage(tool, tmp_path):
    text = edited(GEMM, ("M = 96, N = 80, K = 100", "M = 96000, N = 80000, K = 100"))
    result = tool("-", "-p", PASS, f"--trace={tmp_path / 'x.json'}", stdin=text)
    assert (result.code, result.out) == (2, "")
    assert "7500000 tiles and 5 units are too many to play, 1000000 at most" in result.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--timeline=x.svg",), "--timeline: no pass of the pipeline makes a schedule"),
        (("--trace=x.json", "-p", "tile-order"), "--trace: no pass of the pipeline makes a sched"),
        (("--timeline=x.png", "-p", PASS), "--timeline: NAME.svg or NAME.txt, not 'x.png'"),
        (("--timeline=", "-p", PASS), "--timeline: NAME.svg or NAME.txt, not ''"),
        (("--timeline=a\0.svg", "-p", PASS), r"--timeline: NAME.svg or NAME.txt, not 'a\x00.svg'"),
        (("--trace=-", "-p", PASS), "--trace: NAME.json, not '-'"),
        (("--sms=0", "--explain"), "--sms: 1 to 1048576, not 0"),
        (("--sms=2000000", "--explain"), "--sms: 1 to 1048576, not 2000000"),
        (("--sms=many", "--explain"), "--sms: invalid int value: 'many'"),
        (("--sms=4",), "--sms: for --explain, --timeline and --trace only"),
        (("--verify-only", "--timeline=-"), "--verify-only: no other option goes with it"),
    ],
)
def test_wrong_usage_exits_with_two(tool, argv, message):
    result = tool("-", *argv)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_file_that_cannot_be_written_exits_with_two(tool, tmp_path):
    result = tool("-", "-p", PASS, f"--timeline={tmp_path / 'none' / 'out.svg'}")
    assert result.code == 2
    assert "cannot write" in result.err
    assert "No such file or directory" in result.err


def test_explain_without_a_schedule_tells_what_would_be_best(tool):
    out = tool("-", "-p", "tile-order{group=4}", "--explain", "--sms=8").out
    text = "\n".join(comments(out))
    assert "tile-order{group=4}\n  tile order  grouped(4)\n@gemm in every decomposition" in text
    assert "  SMs                    8, as given; one block each" in text
    assert "    data-parallel" in text


def test_explain_compares_the_plan_on_the_sms_that_are_assumed(tool):
    out = "\n".join(comments(tool("-", "-p", PASS, "--explain").out))
    assert "132, assumed; one block each" in out
    assert "    this plan" in out
    assert out.count("in every decomposition") == 1


def test_a_reproducer_repeats_the_options_that_draw(tool, monkeypatch):
    def broken(self, program, plan):
        raise KeyError("oops")

    monkeypatch.setattr(StreamKPass, "rewrite", broken)
    result = tool("-", "-p", PASS, "--explain", "--timeline=-", "--sms=8", "--trace=x.json")
    assert result.code == 3
    assert " --explain --timeline=- --trace=x.json --sms=8 (" in result.err


def test_control_another_schedule_is_another_drawing(tool):
    texts = {tool("-", "-p", f"stream-k{{units={n}}}", "--timeline=-").out for n in (4, 5, 6)}
    assert len(texts) == 3
