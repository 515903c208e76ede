"""Jobs for worker processes: what one is silent or dies in is killed and named, and the rest of the
job is done without it."""

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import TypeVar

from backends.bench.channel import Channel, Lost
from backends.bench.messages import Done, Facts, Failed, Job, Round
from backends.bench.outcome import Outcome

_T = TypeVar("_T")


class Worker:
    """Does jobs in a process of its own, which is replaced whenever an arm hangs or crashes it.

    `connect`: starts one.
    """

    def __init__(self, connect: Callable[[], Channel]):
        self._connect = connect
        self._channel: Channel | None = None

    def do(self, job: Job, on_round: Callable[[int], None] = lambda done: None) -> Outcome:
        """All of `job` that can be done. Each arm that hangs or crashes is one more start without
        it, and its failure is told; one that nothing can be blamed on ends the job for all."""
        lost: dict[str, Failed] = {}
        while True:
            arms = tuple(arm for arm in job.arms if arm.name not in lost)
            outcome = Outcome(failures=dict(lost))
            if not arms:
                return outcome
            try:
                self._run(replace(job, arms=arms), outcome, on_round)
                return outcome
            except Lost as loss:
                self.kill()
                blamed = [a.name for a in arms] if loss.arm is None else [loss.arm]
                lost |= {name: Failed(name, loss.ending, loss.text) for name in blamed}

    def start(self) -> Facts:
        """Start the process anew; what it measures with. Lost: it does not start."""
        self.kill()
        self._channel = self._connect()
        facts = self._channel.next()
        assert isinstance(facts, Facts), "a worker's first word"
        return facts

    def kill(self) -> None:
        """End the process, if there is one, whatever it does; the next job starts a new one."""
        if self._channel is not None:
            self._channel.kill()
            self._channel = None

    def _run(self, job: Job, outcome: Outcome, on_round: Callable[[int], None]) -> None:
        if self._channel is None:
            self.start()
        assert self._channel is not None
        self._channel.send(job)
        message = None
        while not isinstance(message, Done):
            message = self._channel.next()
            outcome.note(message)
            if isinstance(message, Round):
                on_round(len(outcome.rounds))


class Crew:
    """Several workers that do jobs at once, in any order; for work that is not timed."""

    def __init__(self, workers: Sequence[Worker]):
        self._workers = workers

    @property
    def size(self) -> int:
        return len(self._workers)

    def do_all(self, jobs: Mapping[_T, Job]) -> Iterator[tuple[_T, Outcome]]:
        """The keys of the jobs with what became of each, as they are done."""
        idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for worker in self._workers:
            idle.put(worker)

        def done(job: Job) -> Outcome:
            worker = idle.get()
            try:
                return worker.do(job)
            finally:
                idle.put(worker)

        with ThreadPoolExecutor(len(self._workers)) as threads:
            running = {threads.submit(done, job): key for key, job in jobs.items()}
            try:
                for future in as_completed(running):
                    yield running[future], future.result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self.kill()
                raise

    def kill(self) -> None:
        with ThreadPoolExecutor(len(self._workers)) as threads:  # a GPU's memory takes time to free
            list(threads.map(Worker.kill, self._workers))
