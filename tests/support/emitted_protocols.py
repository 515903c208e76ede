"""Reads out of emitted Triton text what a unit does for a segment, as steps of the model."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from loopir.nodes import Program
from loopir.workspaces import parts_of
from tests.support.protocol_steps import BARRIERS, OF_THE_LAST, TELL_THE_LAST, Step

_ARRIVES = {
    "acq_rel": Step.ARRIVE,
    "release": Step.ARRIVE_RELEASE,
    "acquire": Step.ARRIVE_ACQUIRE,
    "relaxed": Step.ARRIVE_RELAXED,
}


class Read(NamedTuple):
    step: Step
    is_for_the_last: bool


def steps_of(source: str, program: Program) -> tuple[tuple[Step, ...], ...]:
    """By kernel, the steps for a split tile. ValueError: a whole tile takes other steps than the
    epilogue, or what is for the last arriver and what is not are mixed up."""
    parts = parts_of(program)
    reader = _Reader(
        frozenset(w.name for w in parts.tiles),
        frozenset(w.name for w in parts.counters),
        frozenset(p.name for k in program.kernels for p in k.params),
    )
    functions = {f.name: f for f in ast.walk(ast.parse(source)) if isinstance(f, ast.FunctionDef)}
    kernels = (_once(reader.body(functions[k.name].body, ())) for k in program.kernels)
    return tuple(_checked(reads) for reads in kernels)


def _once(reads: Iterator[Read]) -> list[Read]:
    """Tiles that are stored or loaded one after the other are one step; barriers stay."""
    found: list[Read] = []
    for read, same in groupby(reads):
        found += list(same) if read.step in BARRIERS else [read]
    return found


def _checked(reads: list[Read]) -> tuple[Step, ...]:
    arrives = any(r.step in TELL_THE_LAST for r in reads)
    for read in reads:
        if read.is_for_the_last != (arrives and read.step in OF_THE_LAST):
            raise ValueError(f"for the last arriver or not: {read}")
    return tuple(read.step for read in reads)


@dataclass
class _Reader:
    slots: frozenset[str]
    counters: frozenset[str]
    params: frozenset[str]
    flag: str = ""

    def body(self, body: list[ast.stmt], within: tuple[str, ...]) -> Iterator[Read]:
        """within: what stands around it, `for` or the name of a condition."""
        for stmt in body:
            if isinstance(stmt, ast.If) and stmt.orelse:
                whole = _once(self.body(stmt.body, within))
                if whole != [Read(Step.FINALISE, False)]:
                    raise ValueError(f"a whole tile takes {whole}")
                yield from self.body(stmt.orelse, within)
            elif isinstance(stmt, ast.If | ast.For | ast.While):
                around = "for" if isinstance(stmt, ast.For) else ast.unparse(stmt.test)
                yield from self.body(stmt.body, (*within, around))
            else:
                yield from self._calls(stmt, within)

    def _calls(self, stmt: ast.stmt, within: tuple[str, ...]) -> Iterator[Read]:
        for call in (n for n in ast.walk(stmt) if isinstance(n, ast.Call)):
            step = self._step(call, within)
            if step in TELL_THE_LAST and isinstance(stmt, ast.Assign):
                self.flag = ast.unparse(stmt.targets[0])
            if step:
                yield Read(step, bool(self.flag) and self.flag in within)

    def _step(self, call: ast.Call, within: tuple[str, ...]) -> Step | None:
        function = ast.unparse(call.func)
        if function == "tl.debug_barrier":
            return Step.BARRIER
        if function not in ("tl.store", "tl.load", "tl.atomic_add"):
            return None
        keywords = {k.arg: ast.unparse(k.value).strip("'") for k in call.keywords}
        names = {n.id for n in ast.walk(call.args[0]) if isinstance(n, ast.Name)}
        if names & self.slots:
            folds = Step.FOLD if "for" in within else Step.FOLD_SUM
            return {"tl.store": Step.STORE, "tl.load": folds, "tl.atomic_add": Step.ADD}[function]
        if names & self.counters and function == "tl.store":
            return Step.RESET if self.flag in within else Step.CLEAR
        if names & self.counters:
            is_for_all = keywords.get("scope") == "gpu"
            return _ARRIVES[keywords["sem"]] if is_for_all else Step.ARRIVE_RELAXED
        return Step.FINALISE if names & self.params and function == "tl.store" else None
