"""When a run ends, and in which order it works."""

from dataclasses import dataclass, field

import pytest

from backends.bench.arms import Arm, Group, configured, library
from backends.bench.crew import Crew, Worker
from backends.bench.progress import Progress
from backends.bench.results import Case
from backends.bench.session import Session
from backends.bench.stopwatch import Part, Stopwatch
from backends.bench.task import Method, Task
from backends.planner.config import Config
from backends.planner.problem import Problem
from tests.support import bench as fake


@dataclass
class Diary(Progress):
    """A second passes with everything that is shown."""

    seconds: float = 0
    shown: list[tuple[float, str]] = field(default_factory=list)

    def show(self, done: float, text: str) -> None:
        self.seconds += 1
        self.shown.append((done, text))


def task(m: int, *texts: str) -> Task:
    arms = tuple(configured(Config.parse(text)) for text in texts)
    return Task(Case("wave", Problem(m, 64, 64)), (library("cublas"), *arms))


def session(diary: Diary, jobs: int = 1, watch: Stopwatch | None = None, **method) -> Session:
    crew = Crew([Worker(fake.Inline) for _ in range(jobs)])
    plan, watch = Method(rounds=8, **method), watch or Stopwatch(lambda: diary.seconds)
    return Session(plan, Worker(fake.Inline), crew, diary, watch)


def steps(diary: Diary) -> list[tuple[float, str]]:
    """What was shown, but the rounds."""
    return [(done, text.split()[0]) for done, text in diary.shown if "round" not in text]


def test_all_kernels_are_compiled_before_the_first_shape_is_timed():
    diary = Diary()
    tasks = [task(m, fake.FAST, fake.SLOW, fake.TILE) for m in (64, 128, 192)]
    assert len(list(session(diary).run(tasks))) == 3
    compiled = [(0, "compiled")] * 9
    assert steps(diary) == [*compiled, (0, "64x64x64"), (1, "128x64x64"), (2, "192x64x64")]
    assert diary.shown[-1] == (3, "192x64x64 bf16->bf16 row*col round 8")


def test_the_first_times_of_a_large_sweep_do_not_wait_for_its_last_kernel(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("backends.bench.session._KERNELS_A_WORKER", 4)
    diary = Diary()
    tasks = [task(m, fake.FAST, fake.SLOW, fake.TILE) for m in (64, 128, 192)]
    assert len(list(session(diary).run(tasks))) == 3
    first = [(0, "compiled")] * 6 + [(0, "64x64x64"), (1, "128x64x64")]
    assert steps(diary) == [*first, *[(2, "compiled")] * 3, (2, "192x64x64")]


def test_a_kernel_of_two_arms_is_compiled_once():
    """What becomes of it holds for both."""
    diary = Diary()
    texts = {"right": fake.FAST, "left": fake.REFUSED}
    named = (Arm(name, Group.OURS, Config.parse(text)) for name, text in texts.items())
    single = task(64, *texts.values())
    (told,) = session(diary).run([Task(single.case, (*named, *single.arms))])
    assert steps(diary) == [(0, "compiled")] * 2 + [(0, "64x64x64")]
    assert {r.arm.name: r.status for r in told if r.status != "ok"} == {
        fake.REFUSED: "refused",
        "left": "refused",
    }


def test_a_run_stops_between_shapes_when_time_is_up():
    tasks = [task(m, fake.FAST) for m in (64, 128, 192)]
    for seconds, finished in ((1, 0), (4, 1), (13, 2), (100, 3)):
        found = list(session(Diary(), jobs=2, seconds=seconds).run(tasks))
        assert len(found) == finished
        assert all(r.status == "ok" for results in found for r in results)


def test_what_did_not_compile_is_told_with_the_times_of_the_rest():
    (found,) = session(Diary()).run([task(64, fake.REFUSED, fake.FAST)])
    assert [(r.arm.name, r.status) for r in found] == [
        ("cublas", "ok"),
        (fake.REFUSED, "refused"),
        (fake.FAST, "ok"),
    ]


def test_seconds_go_to_what_they_were_spent_on():
    diary = Diary()
    watch = Stopwatch(lambda: diary.seconds)
    made = session(diary, watch=watch)
    list(made.run([task(m, fake.FAST) for m in (64, 128)]))
    watch.begin(Part.REST)
    assert watch.seconds[Part.COMPILE] == 2
    assert sum(watch.seconds.values()) == pytest.approx(diary.seconds)
    assert watch.seconds[Part.START] == watch.seconds[Part.PLAN] == 0
