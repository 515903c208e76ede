"""The winner of a contest between the planner's best few, timed on tensors like the call's."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import triton

from backends.planner import Config, plan
from backends.triton_codegen.ops.bound import Bound, compiled
from backends.triton_codegen.ops.contest import medians_us
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, Call
from backends.triton_codegen.ops.pins import pin, read_pins
from loopir.errors import LoopIRError

CONTESTANTS, ROUNDS = 8, 16


@dataclass(frozen=True)
class Contest:
    """Median times in us of the configurations that ran, at least one, and why the others could
    not."""

    times_us: Mapping[Config, float]
    refusals: Mapping[Config, LoopIRError]

    @property
    def winner(self) -> Config:
        return min(self.times_us, key=lambda config: self.times_us[config])


def winner(call: Call, args: Arguments) -> Config:
    """The pinned winner, or that of a contest now, which is pinned; on the CPU, which times
    nothing, the planner's choice. ValueError: a graph is being captured."""
    device = device_of(args.a.get_device())
    ranked = plan(call.problem, device).ranked
    if not args.a.is_cuda:
        return ranked[0].config
    pinned = read_pins(device.name, triton.__version__).config(call.problem, device)
    if pinned is not None:
        return pinned
    if torch.cuda.is_current_stream_capturing():
        raise ValueError("tune: expected a launch that no graph captures, got one that is")
    with torch.cuda.device(args.a.device):
        won = contest(call, args, [r.config for r in ranked[:CONTESTANTS]]).winner
    try:
        pin(device.name, triton.__version__, call.problem, won)
    except OSError as error:
        warnings.warn(f"tune: the winner is not pinned, {error}", stacklevel=2)
    return won


def contest(call: Call, args: Arguments, configs: list[Config]) -> Contest:
    """Times on the current device, taken in one series of rounds. LoopIRError: none can run."""
    arms: dict[Config, Callable[[], object]] = {}
    refusals: dict[Config, LoopIRError] = {}
    for config in configs:
        try:
            arms[config] = _arm(call, args, config)
        except LoopIRError as error:
            refusals[config] = error
    if not arms:
        raise next(iter(refusals.values()))
    times = medians_us(list(arms.values()), ROUNDS)
    return Contest(dict(zip(arms, times, strict=True)), refusals)


def _arm(call: Call, args: Arguments, config: Config) -> Callable[[], object]:
    """Launched once; it writes into a result of its own."""
    bound = Bound(call, args, config, compiled(call.problem, config, args.a.is_cuda))
    out = torch.zeros(call.shape, dtype=args.result_dtype, device=args.a.device)

    def run() -> None:
        bound(args.a, args.b, out, args.bias, args.residual)

    run()
    return run
