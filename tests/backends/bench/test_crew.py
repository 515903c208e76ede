"""Workers whose arms hang, crash and lie."""

import time

import pytest

from backends.bench.arms import Arm, configured, library
from backends.bench.channel import Channel, Lost
from backends.bench.crew import Crew, Worker
from backends.bench.messages import Ending, Job
from backends.planner.config import Config
from backends.planner.problem import Problem
from tests.support import bench as fake


def job(*configs: str, rounds: int = 8, m: int = 64) -> Job:
    arms: tuple[Arm, ...] = (
        library("cublas"),
        *(configured(Config.parse(text)) for text in configs),
    )
    return Job(Problem(m, 64, 64), arms, rounds, hang_seconds=1.5)


@pytest.fixture
def worker() -> Worker:
    return Worker(fake.Inline)


@pytest.fixture
def process():
    made = Worker(fake.process)
    yield made
    made.kill()


def test_every_round_has_every_arm(worker: Worker):
    outcome = worker.do(job(fake.FAST, fake.SLOW))
    assert outcome.times("cublas") == [20.0] * 8
    assert outcome.times(fake.FAST) == [16.0] * 8
    assert outcome.host_times(fake.FAST) == [5.0] * 8
    assert outcome.workspace_bytes == {"cublas": 0, fake.FAST: 0, fake.SLOW: 4096}
    assert not outcome.failures


@pytest.mark.parametrize(
    ("text", "ending", "said"),
    [
        (fake.REFUSED, Ending.REFUSED, "too much shared memory"),
        (fake.WRONG, Ending.WRONG, "off by 1.5 times"),
        (fake.WRONG_LATER, Ending.WRONG, "off by 1.5 times"),
        (fake.STALE, Ending.WRONG, "off by inf times"),
        (fake.BROKEN, Ending.CRASHED, "run: RuntimeError: CUDA error: an illegal memory access"),
    ],
    ids=["refused", "wrong", "wrong later", "stale", "broken"],
)
def test_an_arm_that_fails_is_named_and_the_rest_goes_on(
    worker: Worker, text: str, ending: Ending, said: str
):
    outcome = worker.do(job(fake.FAST, text, fake.SLOW, rounds=12))
    assert set(outcome.failures) == {text}
    assert outcome.failures[text].ending is ending
    assert said in outcome.failures[text].text
    for arm in ("cublas", fake.FAST, fake.SLOW):
        assert len(outcome.times(arm)) == 12


def test_arms_that_hang_or_end_the_process_cost_a_start_each(process: Worker):
    process.start()
    start = time.monotonic()
    outcome = process.do(job(fake.HUNG, fake.CRASHED, fake.FAST, fake.LATE, rounds=12))
    assert time.monotonic() - start < 30  # a hung arm sleeps for minutes
    found = {name: (failed.ending, failed.text) for name, failed in outcome.failures.items()}
    assert found == {
        fake.HUNG: (Ending.HUNG, "run: nothing was heard for 1.5 s"),
        fake.CRASHED: (Ending.CRASHED, "run: the process ended with code 11"),
        fake.LATE: (Ending.HUNG, "run: nothing was heard for 1.5 s"),
    }
    assert outcome.times(fake.FAST) == [16.0] * 12
    assert len(process.do(job(fake.FAST)).rounds) == 8  # and it goes on


def test_a_process_of_a_preloaded_one_is_watched_as_any():
    worker = Worker(lambda: Channel(fake.FakeLab, preload="tests.support.bench"))
    try:
        outcome = worker.do(job(fake.FAST, fake.CRASHED))
    finally:
        worker.kill()
    assert {name: failed.text for name, failed in outcome.failures.items()} == {
        fake.CRASHED: "run: the process ended with code 11"
    }
    assert outcome.times(fake.FAST) == [16.0] * 8


def test_what_no_arm_is_to_blame_for_fails_all(worker: Worker):
    outcome = worker.do(job(fake.FAST, m=13))
    assert set(outcome.failures) == {"cublas", fake.FAST}
    assert "make operands: RuntimeError: no room" in outcome.failures["cublas"].text


def test_a_lab_that_does_not_open_is_told():
    worker = Worker(lambda: Channel(fake.broken_lab))
    with pytest.raises(Lost, match="start: RuntimeError: no CUDA-capable device"):
        worker.start()
    worker.kill()


def test_a_crew_does_all_jobs_whatever_becomes_of_some():
    texts = (fake.FAST, fake.CRASHED, fake.SLOW, fake.TILE)
    crew = Crew([Worker(fake.process), Worker(fake.process)])
    try:
        found = dict(crew.do_all({text: job(text, rounds=0) for text in texts}))
    finally:
        crew.kill()
    assert set(found) == set(texts)
    assert [t for t, outcome in found.items() if t in outcome.failures] == [fake.CRASHED]
