"""A worker process as its owner sees it: messages go in and out, silence and death are told."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.context import ForkServerContext

from backends.bench.messages import At, Died, Ending, Job, Message
from backends.bench.worker import Lab, serve

_START_SECONDS, _KILL_SECONDS = 180.0, 10.0


class Lost(Exception):
    """The process is gone, or is to be killed; `arm`: whom it was busy with, None: with none."""

    def __init__(self, arm: str | None, ending: Ending, text: str):
        self.arm, self.ending, self.text = arm, ending, text
        super().__init__(text)


class Channel:
    """Starts a process that serves jobs with what `open_lab`, an importable function, gives.

    `preload`: a module that all such processes share: it is imported once, in a process that they
    are forked from, so each starts at once. Importing it must not touch a GPU.
    """

    def __init__(self, open_lab: Callable[[], Lab], preload: str = ""):
        context = _forking(preload) if preload else multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, open_lab), daemon=True)
        self._process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        self._at = At(None, "start", _START_SECONDS)

    def send(self, job: Job) -> None:
        """Lost: the process has ended."""
        self._at = At(None, "take a job", _START_SECONDS)
        try:
            self._connection.send(job)
        except OSError:
            raise self._ended() from None

    def next(self) -> Message:
        """The next message that is no At. Lost: there is none within the limit of the last At, or
        the process died of an error or without a word."""
        while isinstance(message := self._received(), At):
            self._at = message
        if isinstance(message, Died):
            raise self._lost(Ending.CRASHED, message.text)
        return message

    def kill(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join(_KILL_SECONDS)
        self._connection.close()

    def _received(self) -> Message:
        if not self._connection.poll(self._at.limit):
            raise self._lost(Ending.HUNG, f"nothing was heard for {self._at.limit:g} s")
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> Lost:
        self._process.join(_KILL_SECONDS)
        return self._lost(Ending.CRASHED, f"the process ended with code {self._process.exitcode}")

    def _lost(self, ending: Ending, text: str) -> Lost:
        return Lost(self._at.arm, ending, f"{self._at.doing}: {text}")


def _forking(preload: str) -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    return context
