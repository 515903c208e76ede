"""CSV files read back, good ones and hostile ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from backends.bench.columns import COLUMNS
from backends.bench.results import chosen
from backends.bench.table import NoTable, Origin, read_tables
from tests.support.tables import csv_text, cublas, failed, ours

SHAPE = (1536, 1536, 4096)
GOOD = csv_text([cublas(SHAPE, 12.0), ours(SHAPE)])


def table_of(text: str | bytes, folder: Path):
    path = folder / "a.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_tables([path])


def refusal_of(text: str | bytes, folder: Path) -> str:
    with pytest.raises(NoTable) as raised:
        table_of(text, folder)
    return str(raised.value).replace(str(folder), "")


def test_what_was_written_is_read(tmp_path: Path):
    written = [cublas(SHAPE, 12.0), ours(SHAPE), failed((1, 2, 3), set="decode")]
    table = table_of(csv_text(written), tmp_path)
    assert [[r.arm.name for r in shape] for shape in table.shapes] == [
        ["cublas", "planner"],
        ["late"],
    ]
    assert table.results[1] == written[1]
    assert (table.results[2].status, table.results[2].us) == ("hung", None)
    assert chosen(table.shapes[0]) == written[1]
    assert table.origins == (Origin("NVIDIA H200", "2.11", "3.6", "c0ffee"),)


def test_a_reason_of_many_lines_is_kept_in_one(tmp_path: Path):
    reason = "CodegenError: too wide\n   12 |  dot acc, a, b\n" * 100
    written = replace(failed(SHAPE), reason=reason)
    (read,) = table_of(csv_text([written]), tmp_path).results
    assert read.reason.startswith("CodegenError: too wide 12 | dot acc, a, b Codegen")
    assert len(read.reason) == 500


def test_several_files_are_one_table(tmp_path: Path):
    paths = [tmp_path / name for name in ("a.csv", "b.csv")]
    for path, text in zip(paths, (GOOD, csv_text([ours((1, 2, 3))], commit="d1")), strict=True):
        path.write_text(text, newline="")
    table = read_tables(paths)
    assert len(table.shapes) == 2
    assert [origin.commit for origin in table.origins] == ["c0ffee", "d1"]
    assert table.devices == ["NVIDIA H200"]


def test_columns_may_stand_in_any_order_and_others_between_them(tmp_path: Path):
    result = cublas(SHAPE, 12.0)
    rows = [line.split(",") for line in csv_text([result]).splitlines()]
    text = "\n".join(",".join(["extra", *reversed(cells)]) for cells in rows)
    assert table_of(text, tmp_path).results == (result,)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"us": "abc"}, "column us: a number from 0.001 to 1e+10, not 'abc'"),
        ({"us": ""}, "column us: a number"),
        ({"us": "nan"}, "not 'nan'"),
        ({"us": "inf"}, "not 'inf'"),
        ({"us": "-1"}, "not '-1'"),
        ({"us": "0"}, "not '0'"),
        ({"us": "1e308"}, "not '1e308'"),
        ({"m": "0"}, "column m: a number from 1 to"),
        ({"m": "1.5"}, "not '1.5'"),
        ({"m": "9" * 900}, f"not '{'9' * 37}...'"),
        ({"k": "9" * 5000}, "column k: 5000 characters, 1000 at most"),
        ({"rounds": "x"}, "column rounds"),
        ({"blas": "2"}, "column blas: 2 is not inside its interval, 0.9..1.1"),
        ({"blas_low": ""}, "column blas_low: a number"),
        ({"blas_high": "1e9"}, "column blas_high"),
        ({"group": "theirs"}, "column group: one of ours, blas,"),
        ({"config": "gemm 7"}, "column config: config: 'gemm 7'"),
        ({"config": "gemm 0x0x0 w1 s1"}, "column config: tile"),
        ({"dtype": "bf17"}, "dtype: 'bf17' is none of"),
        ({"a_layout": "diagonal"}, "a_layout"),
        ({"arm": "x" * 2000}, "column arm: 2000 characters"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_cell_that_is_none_is_refused_with_its_place(
    changed: dict[str, str], said: str, tmp_path: Path
):
    text = refusal_of(csv_text([cublas(SHAPE, 12.0), ours(SHAPE)], **changed), tmp_path)
    assert text.startswith("/a.csv, line 3: ")
    assert said in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"/a.csv, line 1: no column set, m, n and {len(COLUMNS) - 3} more;"),
        ("m,n,k\n1,2,3\n", "no column set, batch, dtype and"),
        (GOOD.replace(",us,", ",seconds,", 1), "no column us"),
        (GOOD.replace("set,", "set,set,", 1), "a column is there twice"),
        (GOOD + "one,two\r\n", "line 4: 2 columns in row 3"),
        (GOOD + GOOD.splitlines()[2] + ",more\r\n", f"{len(COLUMNS) + 1} columns in row 3"),
        (GOOD + GOOD.splitlines()[2] + "\r\n", "line 4: column arm: 'planner' is there twice"),
        (GOOD + '"unfinished', "line 4: unexpected end of data"),
        (GOOD + "x" * 200_000, "line 4: field larger than field limit"),
        (GOOD.encode() + b"\xff\xfe", f"byte {len(GOOD)} is not UTF-8 text"),
    ],
    ids=["empty", "other", "renamed", "twice", "short", "long", "again", "open", "wide", "bytes"],
)
def test_a_file_that_is_no_table_is_refused(text: str | bytes, said: str, tmp_path: Path):
    assert said in refusal_of(text, tmp_path)


RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
OTHERS = ("gemm_*.csv", "merges_*_6a3a223.csv", "floors_*.csv")
OLDER = sorted(path for name in OTHERS for path in RESULTS.glob(name))


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.stem)
def test_files_of_older_scripts_are_refused_as_such(path: Path):
    with pytest.raises(NoTable, match=r"line 1: .* or one that an older script wrote"):
        read_tables([path])


def test_all_other_results_are_read():
    newer = sorted({*RESULTS.glob("*_h200_*.csv")} - {*OLDER})
    assert len(OLDER) == 4
    assert all(read_tables([path]).results for path in newer)


def test_a_file_without_an_end_is_refused():
    with pytest.raises(NoTable, match="/dev/zero: more than 64 MiB"):
        read_tables([Path("/dev/zero")])
