"""When a run ends, and in which order it works."""

from dataclasses import dataclass, field

from backends.bench.arms import configured, library
from backends.bench.crew import Crew, Worker
from backends.bench.progress import Progress
from backends.bench.results import Case
from backends.bench.session import Method, Session, Task
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


def session(diary: Diary, jobs: int = 1, **method) -> Session:
    crew = Crew([Worker(fake.Inline) for _ in range(jobs)])
    plan = Method(rounds=8, **method)
    return Session(plan, Worker(fake.Inline), crew, diary, clock=lambda: diary.seconds)


def test_kernels_of_some_shapes_are_compiled_before_the_first_is_timed():
    diary = Diary()
    tasks = [task(m, fake.FAST, fake.SLOW, fake.TILE) for m in (64, 128, 192)]
    assert len(list(session(diary).run(tasks))) == 3
    steps = [(done, text.split()[0]) for done, text in diary.shown if "round" not in text]
    first = [(0, "compiled")] * 6 + [(0, "64x64x64"), (1, "128x64x64")]
    assert steps == [*first, *[(2, "compiled")] * 3, (2, "192x64x64")]
    assert diary.shown[-1] == (3, "192x64x64 bf16->bf16 row*col round 8")


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
