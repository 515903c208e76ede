"""The winner of a contest between the planner's best few, timed on tensors like the call's."""

from collections.abc import Callable

import torch
import triton

from backends.planner import Config, plan
from backends.triton_codegen.ops.bound import Bound, compiled
from backends.triton_codegen.ops.contest import medians_us
from backends.triton_codegen.ops.devices import device_of
from backends.triton_codegen.ops.operands import Arguments, Call
from backends.triton_codegen.ops.pins import pin, read_pins
from loopir.errors import LoopIRError

_CONTESTANTS, _ROUNDS = 8, 16


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
        won = contest(call, args, [r.config for r in ranked[:_CONTESTANTS]])
    pin(device.name, triton.__version__, call.problem, won)
    return won


def contest(call: Call, args: Arguments, configs: list[Config]) -> Config:
    """The fastest on the current device; those that cannot run are left out. LoopIRError: all."""
    arms: dict[Config, Callable[[], object]] = {}
    refusals: list[LoopIRError] = []
    for config in configs:
        try:
            arms[config] = _arm(call, args, config)
        except LoopIRError as error:
            refusals.append(error)
    if not arms:
        raise refusals[0]
    times = medians_us(list(arms.values()), _ROUNDS)
    return min(zip(times, arms, strict=True), key=lambda timed: timed[0])[1]


def _arm(call: Call, args: Arguments, config: Config) -> Callable[[], object]:
    """Launched once; it writes into a result of its own."""
    bound = Bound(call, args, config, compiled(call.problem, config, on_gpu=True))
    out = torch.zeros(call.shape, dtype=args.result_dtype, device=args.a.device)

    def run() -> None:
        bound(args.a, args.b, out, args.bias, args.residual)

    run()
    return run
