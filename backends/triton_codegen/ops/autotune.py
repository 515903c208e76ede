"""A contest between the planner's best few on made-up operands of a problem."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import triton

from backends.planner import Plan, Problem, plan
from backends.planner.choose import Ranked
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, call_of
from backends.triton_codegen.ops.pins import pin
from backends.triton_codegen.ops.random_operands import random_arguments
from backends.triton_codegen.ops.tune import ROUNDS, Contest, contest
from loopir.errors import CodegenError


@dataclass(frozen=True)
class Tuned:
    """The first `count` candidates of a plan, and the times of those that ran."""

    plan: Plan
    count: int
    contest: Contest

    def text(self) -> str:
        """Predicted and measured time of each, and the winner."""
        won, times = self.contest.winner, self.contest.times_us
        return "\n".join(
            (
                f"{self.plan.problem} on {self.plan.device.name}: {self.count} of "
                f"{len(self.plan.ranked)} candidates, {ROUNDS} rounds",
                "  predicted us  measured us",
                *self._rows(),
                f"winner: {won}, {times[won]:.1f} us",
            )
        )

    def _rows(self) -> Iterator[str]:
        for ranked in self.plan.ranked[: self.count]:
            yield f"  {ranked.prediction.time:12.1f}  {self._measured(ranked)}"

    def _measured(self, ranked: Ranked) -> str:
        config, found = ranked.config, self.contest
        if config in found.refusals:
            return f"{'refused':>11}  {config}: {found.refusals[config]}"
        return f"{found.times_us[config]:11.1f}  {config}"

    def pin(self) -> Path:
        """Pin the winner where `matmul(tune=True)` finds it: the file. OSError."""
        return pin(
            self.plan.device.name, triton.__version__, self.plan.problem, self.contest.winner
        )


def place() -> str | None:
    """The device to time on; None: torch can use no GPU."""
    return "cuda" if torch.cuda.is_available() else None


def autotune(problem: Problem, count: int, device: str) -> Tuned:
    """Time the planner's best `count` on the current device, a `device` of torch's. The problem of
    the plan is the one that `matmul` has, whose operands of one row or column have one layout.
    ValueError: C has no element. CodegenError: the operands have no room. LoopIRError: no candidate
    can run."""
    plan(problem)  # before there are operands
    args = _operands(problem, device)
    call = call_of(args)
    found = plan(call.problem, device_of(args.a.get_device()))
    ranked = found.ranked[:count]
    try:
        times = contest(call, args, [r.config for r in ranked])
    except torch.OutOfMemoryError as error:
        raise _no_room(problem, error) from error
    return Tuned(found, len(ranked), times)


def _operands(problem: Problem, device: str) -> Arguments:
    try:
        return random_arguments(problem, device)
    except RuntimeError as error:  # of a size beyond 2^63 too, which is no OutOfMemoryError
        raise _no_room(problem, error) from error


def _no_room(problem: Problem, error: RuntimeError) -> CodegenError:
    reason = str(error).partition("\n")[0]
    return CodegenError(f"{problem}: its operands have no room on this GPU: {reason}")
