"""What docs/schedules.md says is so: its code prints its text, its commands work, its numbers are
those of the simulation."""

import re
import shlex
from pathlib import Path

import pytest

from loopir.build import gemm
from passes import opt
from passes.decomposition import (
    DataParallel,
    Fold,
    Hybrid,
    KAligned,
    Schedule,
    SplitK,
    StreamK,
    simulate,
    waves,
)
from passes.pipeline import parse_pipeline
from tests.support.documents import fenced, page
from tests.support.schedules import different_k, loads

ROOT = Path(__file__).parents[1]
PAGE = page("schedules.md")
COMMANDS = re.findall(r"^    (loopir-opt [^\n]*)", PAGE, re.MULTILINE)
ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", PAGE, re.MULTILINE)
ALIGNED = re.findall(r"^\| (\d+) x (\d+) x (\d+) \|(.*)\|$", PAGE, re.MULTILINE)


def test_the_python_of_the_page_prints_the_text_below_it(capsys):
    for code, text in zip(fenced(PAGE, "python"), fenced(PAGE, "text"), strict=True):
        exec(compile(code, "schedules.md", "exec"), {})
        assert capsys.readouterr().out.rstrip() == text.rstrip()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_runs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    arguments = [
        str(tmp_path / word) if word in ("gemm.svg", "gemm.json") else word
        for word in shlex.split(command)[1:]
    ]
    assert opt.main(arguments) == 0, capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == command.count(" gemm.")


def computed(sms: int) -> list[str]:
    w = waves(144, sms)
    times = [simulate(DataParallel(144, 64), places=sms).makespan]
    for splits in (2, 4):
        split = SplitK(144, 64, splits)
        times.append(simulate(split, places=sms, fold=Fold.REDUCTION_WAVE).makespan)
    stream_k = simulate(StreamK(144, 64, sms), places=sms)
    times.append(stream_k.makespan)
    shares = [f"{w.count}", f"{w.last}", f"{100 * w.utilization:.1f} %"]
    return [*shares, *(f"{t:g}" for t in times), f"{stream_k.ideal:.1f}"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_numbers_of_1536_are_computed(row):
    sms, cells = row
    assert [cell.strip() for cell in cells.split("|")] == computed(int(sms))


def busiest_k_parts(schedule: Schedule) -> str:
    parts = max(map(schedule.contributors, schedule.split_tiles()))
    return f"{max(loads(schedule))}, {different_k(schedule):.1f}, {parts}"


@pytest.mark.parametrize("row", ALIGNED, ids=lambda row: " ".join(row[:3]))
def test_the_numbers_of_aligned_tails_are_computed(row):
    *sizes, cells = row
    m, n, k = map(int, sizes)
    tiles, panels = -(-m // 128) * -(-n // 256), k // 64
    cuts = StreamK(tiles, panels, 132), Hybrid(tiles, panels, 132)
    aligned = KAligned(tiles, panels, 132), KAligned(tiles, panels, 132, cost=3)
    numbers = tiles, tiles % 132, -(-tiles * panels // 132)
    found = [*map(str, numbers), *map(busiest_k_parts, (*cuts, *aligned))]
    assert [cell.strip() for cell in cells.split("|")] == found


def test_control_the_page_has_what_is_tested():
    assert [sms for sms, _ in ROWS] == ["108", "132", "148"]
    assert computed(108) != computed(132)
    assert len(ALIGNED) == 6
    assert len(COMMANDS) == 3


def test_the_pipelines_and_schedules_of_the_table_are_real():
    named = re.findall(r"^\| [\w-]+ \| `(\w+)\((.*?)\)` \| `(.*?)` \|", PAGE, re.MULTILINE)
    schedules = {c.__name__: c for c in (DataParallel, SplitK, StreamK, Hybrid, KAligned)}
    assert [name for name, _, _ in named] == list(schedules)
    for name, arguments, pipeline in named:
        made = schedules[name](**dict.fromkeys(arguments.split(", "), 4))
        assert made.tiles == 4
        (p,) = parse_pipeline(pipeline).passes
        verdict = p.can_be_applied(gemm(256, 256, 512))
        assert type(verdict.plan.schedule) is schedules[name]  # pyright: ignore


def test_its_pictures_and_examples_exist():
    paths = re.findall(r"\]\((.*?)\)", PAGE)
    assert len(paths) == 2
    assert all((ROOT / "docs" / path).is_file() for path in paths)
    assert (ROOT / "examples" / "explain_schedule.py").is_file()
    assert simulate(DataParallel(5, 8), places=4).makespan == 20
