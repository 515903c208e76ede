"""Running passes in order, with the verifier between them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from loopir.nodes import Program
from loopir.verifier import verify
from passes.base import Pass
from passes.pipeline_text import Registry, parse_pass, parse_passes
from passes.registry import PASSES

__all__ = ["Observer", "PassPipeline", "PassTrace", "parse_pass", "parse_pipeline"]


@dataclass(frozen=True)
class PassTrace:
    """What one pass of a run did. `seconds`: of `apply`, the verifier of its result included."""

    applied: Pass
    before: Program
    after: Program
    seconds: float

    @property
    def changed(self) -> bool:
        return self.before != self.after


Observer: TypeAlias = Callable[[PassTrace], None]


@dataclass(frozen=True)
class PassPipeline:
    """Passes in order; `str` prints the pipeline string that parses back to it."""

    passes: tuple[Pass, ...] = ()

    def __str__(self) -> str:
        return ",".join(map(str, self.passes))

    def run(self, program: Program, *, observers: Iterable[Observer] = ()) -> Program:
        """`program` after every pass; each observer is called after each pass. The verifier runs
        before the first pass and after each.

        NotApplicable: a pass refuses. VerifyError: `program` itself breaks a rule. InternalError: a
        pass made a program that does, which is a bug of the pass; the text is a reproducer.
        """
        watchers = tuple(observers)
        verify(program)
        for p in self.passes:
            trace = _step(p, program)
            for watch in watchers:
                watch(trace)
            program = trace.after
        return program


def parse_pipeline(text: str, registry: Registry = PASSES) -> PassPipeline:
    """The pipeline that `text` spells, `tile-order{group=8},stream-k{units=132}`; empty for empty
    text. PipelineError: the column, what is wrong, the nearest name where one is unknown."""
    return PassPipeline(parse_passes(text, registry))


def _step(p: Pass, program: Program) -> PassTrace:
    start = time.perf_counter()
    after = p.apply(program)
    return PassTrace(p, program, after, time.perf_counter() - start)
