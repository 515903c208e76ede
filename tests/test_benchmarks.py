"""The benchmarks' parts, on the CPU: which arms there are, that each is right, and that a wrong one
is no row. Their times are of no meaning here."""

import pytest

from benchmarks import gemm, merges

SHAPE = (40, 50, 200)
TILE = (32, 32, 32, 4)


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "DEVICE", "cpu")
    monkeypatch.setattr(gemm, "TARGET", "interpret")
    monkeypatch.setattr(gemm, "TILES", (TILE,))
    monkeypatch.setattr(gemm, "_flushed", lambda: None)
    monkeypatch.setattr(gemm, "_timed", lambda arm, flush: (arm.run(), 2.0)[1])
    monkeypatch.setattr(merges, "SCHEDULES", {TILE: ("units=5", "splits=7")})
    monkeypatch.setattr(merges, "_BATCH", 1)
    monkeypatch.setattr(merges, "_BATCHES", 1)


def test_a_row_an_arm_has_time_error_and_what_the_launch_costs(capsys: pytest.CaptureFixture[str]):
    rows = merges.measure(SHAPE, 2)
    assert len(rows) == 2 + 2 * len(merges.MERGES)
    assert all(float(str(row["error"])) <= 1 for row in rows)
    assert {row["us"] for row in rows} == {"2.00"}
    assert all(float(str(row["host_us"])) > 0 for row in rows)
    sized = {str(row["arm"]).split()[0] for row in rows if row["workspace_bytes"]}
    assert sized == {"workspace", "fixup", "atomic-workspace"}
    assert len(capsys.readouterr().out.splitlines()) == len(rows)


def test_gemm_has_a_row_an_arm():
    rows = gemm.measure(SHAPE, 2)
    assert rows[0]["arm"] == gemm.BASELINE
    assert len(rows) == 1 + len(gemm.PIPELINES)


def test_control_a_wrong_result_is_no_row():
    a, b = gemm.operands(SHAPE)
    wrong = gemm.baseline(a, b)
    half = gemm.Arm("half", wrong.out, lambda: wrong.out.copy_(0.5 * (a @ b)))
    with pytest.raises(AssertionError, match="half: error"):
        gemm.timed_rows(SHAPE, [wrong, half], a, b, 2)


@pytest.mark.parametrize("shape", merges.SHAPES, ids=str)
def test_every_merge_takes_every_schedule_of_the_benchmark(
    shape: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.undo()
    for (*tile, _), schedules in merges.SCHEDULES.items():
        found = [name for name, _ in merges.programs(shape, tuple(tile), schedules)]
        assert len(found) == 1 + len(merges.MERGES) * len(schedules)
