"""What a worker keeps from job to job, and what it tells of its time."""

from dataclasses import dataclass, field, replace

from backends.bench.arms import configured, library
from backends.bench.messages import Built, Died, Done, Job, Message
from backends.bench.stopwatch import Part
from backends.bench.worker import serve
from backends.planner.config import Config
from backends.planner.problem import Problem
from tests.support import bench as fake


@dataclass
class Ledger(fake.FakeLab):
    """Which sizes were opened and closed, one after the other."""

    lines: list[str] = field(default_factory=list)

    def open(self, problem: Problem, seed: int) -> fake.FakeBench:
        self.lines.append(f"open {problem.m} {seed}")
        bench = super().open(problem, seed)
        return Booked(self.lines, f"close {problem.m} {seed}", bench)


class Booked:
    def __init__(self, lines: list[str], line: str, bench: fake.FakeBench):
        self._lines, self._line, self._bench = lines, line, bench

    def __getattr__(self, name: str):
        return getattr(self._bench, name)

    def close(self) -> None:
        self._lines.append(self._line)


def job(m: int, **options) -> Job:
    arms = (library("cublas"), configured(Config.parse(fake.FAST)))
    return Job(Problem(m, 64, 64), arms, **{"rounds": 6, **options})


def heard(lab: fake.FakeLab, *jobs: Job) -> list[Message]:
    messages: list[Message] = []
    serve(fake.Jobs(list(jobs), messages.append), lambda: lab)
    return messages


def test_a_problem_is_opened_once_and_closed_before_the_next():
    lab = Ledger()
    heard(lab, job(64), job(64, rounds=8), job(128), job(64), job(64, seed=1))
    assert lab.lines == [
        "open 64 0",
        "close 64 0",
        "open 128 0",
        "close 128 0",
        "open 64 0",
        "close 64 0",
        "open 64 1",
    ]


def test_control_what_did_not_open_is_not_kept():
    lab = Ledger()
    assert isinstance(heard(lab, job(64), job(13), job(13))[-1], Died)
    assert lab.lines == ["open 64 0", "close 64 0", "open 13 0"]


def test_an_arm_is_built_from_the_kernel_of_its_name():
    (first,) = [m for m in heard(fake.FakeLab(), job(64)) if m == Built(fake.FAST, 0, fake.KERNEL)]
    given = job(64, kernels={fake.FAST: first.kernel})
    built = [m for m in heard(fake.FakeLab(), given) if isinstance(m, Built)]
    assert built == [Built("cublas", 0, fake.KERNEL), replace(first, kernel=b"")]


def test_a_job_tells_what_its_time_went_into():
    messages = heard(fake.FakeLab(), job(64), job(64, rounds=0))
    full, short = [m.seconds for m in messages if isinstance(m, Done)]
    assert {part for part, seconds in full.items() if seconds > 0} >= {
        Part.LOAD,
        Part.CHECK,
        Part.TIME,
    }
    assert short[Part.LOAD] > 0
    assert short[Part.CHECK] == short[Part.TIME] == 0
