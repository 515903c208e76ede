"""`loopir-triton plot`."""

import random
from pathlib import Path

import pytest

from backends.bench.plot import MOST_SHAPES, main
from backends.triton_codegen import tool
from passes.cli import DONE, REFUSED, USAGE
from tests.support.charts import faults, read
from tests.support.tables import csv_text, cublas, failed, ours

A, B = (4096, 4096, 4096), (1, 4096, 4096)
RESULTS = [ours(A, (0.9, 0.95, 0.98), us=190), cublas(A, us=180), ours(B, set="decode")]


@pytest.fixture
def csv(tmp_path: Path) -> str:
    path = tmp_path / "a.csv"
    path.write_text(csv_text(RESULTS), newline="")
    return str(path)


def test_both_charts_are_on_a_page_and_the_means_are_printed(
    csv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main([csv, "-o", str(tmp_path / "a.svg")]) == DONE
    page = read((tmp_path / "a.svg").read_text())
    assert faults(page) == []
    assert page.text_of("Speed against cuBLAS")
    assert page.text_of("Speed against the roofline")
    assert page.text_of("NVIDIA H200, bf16").endswith("TB/s")
    assert [p.label for p in page.points].count("4096x4096x4096") == 3
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in printed] == ["wave", "decode"]
    assert "geometric mean x0.950 (0.900..0.980) of 1: 0 won, 0 tied, 1 lost" in printed[0]


@pytest.mark.parametrize(("chart", "points"), [("ratio", 2), ("roofline", 3), ("both", 5)])
def test_a_chart_alone_goes_to_standard_output(
    chart: str, points: int, csv: str, capsys: pytest.CaptureFixture[str]
):
    assert main([csv, "--chart", chart, "--title", "<b>&"]) == DONE
    page = read(capsys.readouterr().out)
    assert len(page.points) == points
    assert [t for t, _ in page.texts if t.startswith("<b>& against")]


def test_one_drawing_of_a_file_is_as_the_other(csv: str, capsys: pytest.CaptureFixture[str]):
    main([csv])
    first = capsys.readouterr().out
    main([csv])
    assert capsys.readouterr().out == first


def test_a_device_that_the_planner_does_not_know_has_no_roof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "a.csv"
    path.write_text(csv_text([ours(A)], device="<b>GTX\x01\n</b>"), newline="")
    assert main([str(path), "--chart", "roofline"]) == DONE
    page = read(capsys.readouterr().out)
    assert page.text_of("<b>GTX  </b>, torch 2.11")
    assert not [t for t, _ in page.texts if "TB/s" in t]


@pytest.mark.parametrize(
    ("results", "words", "said"),
    [
        ([failed(A)], [], "no arm has a time"),
        ([], [], "no arm has a time"),
        (RESULTS, ["--against", "sweep"], "no result is compared with sweep"),
        ([cublas(A, us=9)], ["--chart", "ratio"], "no result is compared with blas"),
        ([cublas((1, 1, k + 1), 9) for k in range(MOST_SHAPES + 1)], [], "2000 can be drawn"),
    ],
    ids=["failed", "empty", "no peer", "no ratio", "many"],
)
def test_nothing_to_draw_is_refused_in_words(
    results, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "a.csv"
    path.write_text(csv_text(results), newline="")
    assert main([str(path), *words]) == REFUSED
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_table_is_refused_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "a.csv").write_bytes(bytes(range(256)))
    assert main([str(tmp_path / "a.csv")]) == REFUSED
    assert "byte 128 is not UTF-8 text" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["absent.csv"], ["/"], ["a.csv", "--chart", "pie"], ["a.csv", "--against", "us"]]
)
def test_usage_that_is_wrong_is_said(words: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == USAGE
    assert "loopir-triton plot: error:" in capsys.readouterr().err


def test_a_drawing_that_cannot_be_written_is_told(csv: str, capsys: pytest.CaptureFixture[str]):
    assert tool.main(["plot", csv, "-o", "/absent/a.svg"]) == USAGE
    assert "cannot write /absent/a.svg" in capsys.readouterr().err


def test_files_with_random_damage_are_drawn_or_refused(
    csv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    rng, whole, codes = random.Random(7), Path(csv).read_bytes(), set()
    path = tmp_path / "damaged.csv"
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(data))
            data[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 2))
        path.write_bytes(data)
        codes.add(main([str(path)]))
        out, err = capsys.readouterr()
        assert (out.endswith("</svg>\n") and not err) or str(path) in err or "compared" in err
    assert codes == {DONE, REFUSED}
