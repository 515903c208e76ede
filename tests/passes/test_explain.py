"""The figures that `explain` prints."""

from loopir.parser import parse
from passes.decomposition import StreamK, summary
from passes.explain import explain, schedule_rows
from passes.pipeline_text import parse_pass
from tests.support.texts import GEMM, MAX_ROWS


def test_the_rows_of_a_schedule_hold_every_figure():
    rows = dict(schedule_rows(summary(StreamK(tiles=144, panels=64, units=132))))
    assert rows == {
        "tiles": "144, of 64 panels each",
        "panels in all": "9216",
        "waves, a block a tile": "2",
        "last wave": "12 of 132 blocks",
        "utilisation": "54.5 %",
        "units": "132",
        "panels a unit": "69 to 70",
        "largest over mean share": "1.0026",
        "split tiles": "120 of 144",
        "contributors": "at most 2 (24 tiles with 1, 120 tiles with 2)",
    }


def test_one_of_a_thing_is_singular_and_equal_shares_are_one_number():
    rows = dict(schedule_rows(summary(StreamK(tiles=1, panels=1, units=1))))
    assert rows["tiles"] == "1, of 1 panel each"
    assert rows["panels a unit"] == "1"
    assert rows["last wave"] == "1 of 1 block"
    assert rows["contributors"] == "at most 1 (1 tile with 1)"


def test_an_empty_launch_has_rows_too():
    rows = dict(schedule_rows(summary(StreamK(tiles=0, panels=4, units=8))))
    assert (rows["units"], rows["contributors"]) == ("0", "at most 0 (no tile)")


def test_explain_aligns_the_rows_below_the_text_of_the_pass():
    assert explain(parse(GEMM), parse_pass("tile-order{group=4}")) == (
        "tile-order{group=4}\n  tile order  grouped(4)"
    )


def test_explain_of_a_refused_pass_is_the_verdicts():
    p = parse_pass("tile-order")
    program = parse(MAX_ROWS)
    assert explain(program, p) == p.can_be_applied(program).explain()
