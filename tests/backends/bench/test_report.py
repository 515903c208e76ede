from dataclasses import replace

from backends.bench.arms import Arm, Group
from backends.bench.report import arm_lines, failure_lines, line, mean_lines
from backends.bench.results import chosen
from backends.bench.stats import Ratio
from tests.support.tables import CONFIG, cublas, failed, ours

SHAPE = (1536, 1536, 4096)


def other(us: float, group: Group, name: str):
    return replace(ours(SHAPE, us=us), arm=Arm(name, group, CONFIG))


def test_a_line_has_the_figures_of_a_shape():
    found = (cublas(SHAPE, 30.0), ours(SHAPE, (0.97, 1.0, 1.02), us=25.0))
    assert line(found).split() == [
        *("wave", "1536x1536x4096", "25.00", "us", "773.1", "TFLOP/s", "1195", "GB/s"),
        *("x1.000", "(0.970..1.020)", "tie", "planner", *str(CONFIG).split()),
    ]


def test_lines_are_aligned():
    lines = [
        line((ours(shape, (1.1, 1.2, 1.3), us=us),))
        for shape, us in ((SHAPE, 9.0), ((1, 64, 64), 12345.67))
    ]
    assert len({text.index(" us ") for text in lines}) == 1
    assert len({text.index("planner") for text in lines}) == 1


def test_a_shape_without_times_says_so():
    assert line((failed(SHAPE),)).endswith("1536x1536x4096  no arm has a time")


def test_the_planner_stands_for_a_shape_and_else_the_fastest_of_ours():
    planner, fast = ours(SHAPE, us=9.0), other(8.0, Group.OURS, "fast")
    swept, whole = other(7.0, Group.SWEEP, "swept"), other(6.0, Group.DATA_PARALLEL, "whole")
    library = cublas(SHAPE, 5.0)
    everything = (library, whole, swept, fast, planner, failed(SHAPE))
    order = []
    while best := chosen(everything):
        order.append(best.arm.name)
        everything = tuple(r for r in everything if r is not best)
    assert order == ["planner", "fast", "swept", "whole", "cublas"]


def test_arms_are_listed_from_the_fastest_with_the_host_time():
    found = (cublas(SHAPE, 30.0), replace(ours(SHAPE, us=25.0), host_us=6.54))
    first, second = arm_lines(found)
    assert first.split()[:3] == ["ours", "25.00", "us"]
    assert "host   6.5 us  planner gemm" in first
    assert second.split()[:3] == ["blas", "30.00", "us"]


def test_failures_are_told_in_a_line_each_and_counted_beyond_a_few():
    long = replace(failed(SHAPE), reason="a reason\n  of lines " + "x" * 500)
    lines = failure_lines((*[long] * 3, ours(SHAPE)), shown=2)
    assert len(lines) == 3
    assert lines[0].split()[:4] == ["hung", "late:", "a", "reason"]
    assert len(lines[0]) < 150
    assert lines[2].strip() == "and 1 more without times"
    assert failure_lines((ours(SHAPE),)) == []


def test_the_mean_of_a_set_is_geometric_and_counts_who_won():
    found = [
        (ours((1, 1, 1), (1.9, 2.0, 2.1)),),
        (ours((2, 2, 2), (0.45, 0.5, 0.55)),),
        (ours((3, 3, 3), (0.9, 1.0, 1.1)),),
        (failed((4, 4, 4)),),
        (replace(ours((5, 5, 5), set="decode"), ratios={Group.SWEEP: Ratio(1, 1, 1)}),),
    ]
    wave, decode = mean_lines(found)
    assert wave.startswith("wave         against blas           geometric mean x1.000 (")
    assert wave.endswith("of 3: 1 won, 1 tied, 1 lost; least x0.500")
    assert decode.startswith("decode       against sweep ")
