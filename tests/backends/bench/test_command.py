"""Whole runs on a lab that pretends."""

import csv
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.bench.channel import Channel
from backends.bench.columns import COLUMNS
from backends.bench.command import main
from backends.bench.stopwatch import Part
from passes.cli import DONE, REFUSED, USAGE
from tests.support import bench as fake

QUICK = ("--jobs", "1", "--hang", "1.5", "--rounds", "8")


SWEPT = ("--sweep", "decomposition=split-k", "--sweep", "splits=2")


def bench(*argv: str, connect: Callable[[], Channel] = fake.Inline) -> int:
    return main([*argv, *QUICK], connect)


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_line_a_shape_and_a_mean_a_set(capsys: pytest.CaptureFixture[str]):
    assert bench("--set", "square", "--shape", "64x64x64", "--config", fake.FAST) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [
        ["square", "4096x4096x4096"],
        ["square", "8192x8192x8192"],
        ["shape", "64x64x64"],
    ]
    assert "16.00 us 8589.9 TFLOP/s" in lines[0]
    assert "x1.250 (1.250..1.250)" in lines[0]
    assert lines[3].startswith("square       against blas")
    assert "geometric mean x1.250" in lines[3]
    assert "2 won, 0 tied, 0 lost" in lines[3]


def test_the_csv_repeats_itself(tmp_path: Path):
    """A row's arguments run again give the row again."""
    bench("m=64:128:64", "n=64", "k=64", "--config", fake.SLOW, "-o", str(tmp_path / "a"))
    rows = read_rows(tmp_path / "a.csv")
    assert len(rows) == 2 * 3
    assert [tuple(row) for row in rows] == [COLUMNS] * 6
    (own,) = [row for row in rows if row["config"] and row["m"] == "128"]
    bench(*shlex.split(own["arguments"]), "-o", str(tmp_path / "b"))
    (again,) = [row for row in read_rows(tmp_path / "b.csv") if row["config"]]
    assert own | {"set": "shape"} == again
    assert (own["us"], own["blas"], own["workspace_bytes"], own["pack"]) == (
        "40",
        "0.5",
        "4096",
        "1",
    )
    assert (own["device"], own["torch"], own["status"]) == ("a pretence", "2", "ok")


def test_the_manifest_has_every_time_and_how_the_run_was_asked_for(tmp_path: Path):
    bench("--shape", "64x64x64", "--config", fake.FAST, "-o", str(tmp_path / "a"), "--commit", "c0")
    manifest = json.loads((tmp_path / "a.json").read_text())
    assert manifest["commit"] == "c0"
    assert list(manifest["seconds"]) == [part.value for part in Part]
    assert "--shape 64x64x64" in manifest["arguments"]
    by_arm = {s["arm"]: s["times_us"] for s in manifest["samples"]}
    assert by_arm == {"cublas": [20.0] * 8, "cublaslt": [25.0] * 8, fake.FAST: [16.0] * 8}


def test_a_profile_says_where_the_seconds_went(capsys: pytest.CaptureFixture[str]):
    bench("--shape", "64x64x64", "--config", fake.FAST, "--profile")
    last = capsys.readouterr().out.splitlines()[-1]
    assert [word for word in last.split() if word.isalpha()] == [p.value for p in Part]


def test_an_arm_that_fails_is_a_row_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    configs = (fake.FAST, fake.HUNG, fake.STALE)
    words = [word for text in configs for word in ("--config", text)]
    argv = ("--shape", "64x64x64", *words, "-o", str(tmp_path / "a"))
    assert bench(*argv, connect=fake.process) == REFUSED
    rows = {row["arm"]: row for row in read_rows(tmp_path / "a.csv")}
    assert {arm: row["status"] for arm, row in rows.items() if row["config"]} == {
        fake.FAST: "ok",
        fake.HUNG: "hung",
        fake.STALE: "wrong",
    }
    assert rows[fake.HUNG]["us"] == rows[fake.STALE]["us"] == ""
    assert "nothing was heard" in rows[fake.HUNG]["reason"]
    assert f"hung {fake.HUNG}" in capsys.readouterr().out


def test_a_refused_arm_is_no_failure_of_the_run():
    assert bench("--shape", "64x64x64", "--config", fake.FAST, "--config", fake.REFUSED) == DONE


def test_the_best_of_a_sweep_are_timed_afresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sweep = ("tile=64x64x32,64x64x64,32x32x32", "stages=2,3", "order=none")
    words = [word for text in sweep for word in ("--sweep", text)]
    code = bench(
        "--shape",
        "64x64x64",
        *words,
        "--sweep-rounds",
        "6",
        "--top",
        "2",
        "-o",
        str(tmp_path / "a"),
    )
    assert code == DONE
    rounds = {row["arm"]: row["rounds"] for row in read_rows(tmp_path / "a.csv")}
    again = {arm for arm, count in rounds.items() if count == "8"}
    assert len(rounds) == 2 + 6
    assert {"cublas", "cublaslt"} < again
    assert len(again) == 4
    rows = read_rows(tmp_path / "a.csv")
    assert {row["blas"] for row in rows if row["arm"] not in again} == {"0.5", "1.25", "2"}
    assert "x2.000" in capsys.readouterr().out


def test_data_parallel_arms_are_a_crowd_too(tmp_path: Path):
    words = ("--baseline", "data-parallel", "--config", fake.FAST, "--sweep-rounds", "6")
    output = ("--top", "2", "-o", str(tmp_path / "a"))
    assert bench("--shape", "512x512x512", *words, *output) == DONE
    rows = read_rows(tmp_path / "a.csv")
    crowd = [row["rounds"] for row in rows if row["group"] == "data-parallel"]
    assert sorted(crowd) == ["6"] * (len(crowd) - 2) + ["8", "8"]
    (own,) = [row for row in rows if row["group"] == "ours"]
    assert (own["rounds"], own["data-parallel"], own["blas"]) == ("8", "0.625", "")


def test_what_fails_in_a_sweep_is_not_timed_again(tmp_path: Path):
    sweep = ("tile=16x16x16,16x16x32,16x16x64,32x32x32,64x64x64", "warps=1", "stages=1")
    words = [word for text in (*sweep, "order=none") for word in ("--sweep", text)]
    output = ("--top", "1", "-o", str(tmp_path / "a"))
    assert bench("--shape", "64x64x64", *words, *output) == REFUSED
    rows = {row["arm"]: row for row in read_rows(tmp_path / "a.csv") if row["config"]}
    failed = {arm: row["status"] for arm, row in rows.items() if row["status"] != "ok"}
    assert failed == {fake.REFUSED: "refused", fake.WRONG: "wrong", fake.STALE: "wrong"}
    assert len(rows) == 5


def test_time_that_is_up_leaves_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code = bench(
        "--set", "wave", "--config", fake.FAST, "--budget", "1e-9", "-o", str(tmp_path / "a")
    )
    assert code == REFUSED
    assert read_rows(tmp_path / "a.csv") == []
    assert len(json.loads((tmp_path / "a.json").read_text())["not_run"]) == 10
    assert "time was up before 10 of 10 shapes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no shape"),
        (["--set", "waves"], "set 'waves'"),
        (["m=1:2:0", "n=1", "k=1"], "range '1:2:0'"),
        (["--shape", "64x64x64", "--config", "gemm 7"], "config"),
        (["--shape", "64x64x64", "--arm", "best"], "arm 'best'"),
        (["--shape", "64x64x64", "--baseline", "mkl"], "baseline 'mkl'"),
        (["--shape", "64x64x64", "--baseline", "none,cublas"], "baseline 'none'"),
        (["m=1:99999999999", "n=1", "k=1"], "range '1:99999999999': more than"),
        (["m=1:2000", "n=1:2000", "k=1"], "4000000 shapes"),
        (["--random", "1000000000"], "--random 1000000000"),
        (["--shape", "64x64x64", "--sweep", "colour=red"], "sweep 'colour=red'"),
        (["--shape", "64x64x64", "--layout", "row"], "--layout row"),
        (["--shape", "64x64x64", "--layout", "row,diagonal"], "diagonal"),
        (["--shape", "64x64x64", "--pack", "0"], "--pack: at least 1"),
        (["--shape", "64x64x64", "--budget", "nan"], "--budget: more than 0"),
        (["--shape", "64x64x64", "--batch", "0"], "--batch: at least 1"),
        (["--shape", "64x64x64", "-o", ""], "--output: the name of a file is missing"),
        (["--shape", "64x64x64", "--sweep", "merge=fixup"], "--sweep: no combination"),
        (["--shape", "64x64x64", *SWEPT, "--sweep", "merge=hope"], "not hope"),
        (["--shape", "64x64x64", "--config", "gemm 64x64x32 w4 s2: fly"], "unknown pass 'fly'"),
    ],
)
def test_usage_that_is_wrong_is_said(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as stop:
        main(words, fake.Inline)
    assert stop.value.code == USAGE
    assert said in capsys.readouterr().err
