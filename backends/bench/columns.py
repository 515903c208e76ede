"""The columns of a CSV of results, and the row of each."""

from collections.abc import Mapping
from dataclasses import dataclass

from backends.bench.results import PEERS, Case, Result, one_line

CASE = ("set", "m", "n", "k", "batch", "dtype", "out_dtype", "a_layout", "b_layout")
_ARM = ("arm", "group", "config", "status", "reason")
TIMES = ("us", "low_us", "high_us", "tflops", "gbs", "host_us", "workspace_bytes", "error")
_RATIOS = tuple(f"{group.value}{end}" for group in PEERS for end in ("", "_low", "_high"))
_RUN = ("pack", "seed", "device", "torch", "triton", "cuda", "python", "commit", "arguments")
_REASON = 500  # characters
COLUMNS = (*CASE, *_ARM, *TIMES, "rounds", *_RATIOS, *_RUN)


@dataclass(frozen=True)
class About:
    """What holds for a whole run. `common`: the arguments that every row needs to be repeated."""

    device: str
    versions: Mapping[str, str]
    commit: str
    arguments: str
    common: str
    pack: int
    seed: int


def row(result: Result, about: About) -> dict[str, str]:
    """The text of every column; empty where there is nothing to say."""
    arm, times = result.arm, {name: getattr(result, name) for name in TIMES}
    values: dict[str, object] = {
        **_case(result.case),
        **times,
        **_ratios(result),
        **about.versions,
        "arm": arm.name,
        "group": arm.group.value,
        "config": arm.config,
        "status": result.status,
        "reason": one_line(result.reason, _REASON),
        "rounds": result.rounds,
        "pack": about.pack,
        "seed": about.seed,
        "device": about.device,
        "commit": about.commit,
        "arguments": reproducing(result, about),
    }
    return {name: _text(values.get(name)) for name in COLUMNS}


def reproducing(result: Result, about: About) -> str:
    """The arguments of a run that times this arm on this shape again."""
    p, arm = result.case.problem, result.arm
    text = f"config:{arm.config}" if arm.config else arm.name
    return f"--shape {p.m}x{p.n}x{p.k} {about.common} --arm '{text}'"


def _case(case: Case) -> dict[str, object]:
    p = case.problem
    layouts = p.a_layout.value, p.b_layout.value
    values = (case.set, p.m, p.n, p.k, p.batch, p.dtype.value, p.result.value, *layouts)
    return dict(zip(CASE, values, strict=True))


def _ratios(result: Result) -> dict[str, float]:
    values = {}
    for group, ratio in result.ratios.items():
        name = group.value
        values |= {name: ratio.value, f"{name}_low": ratio.low, f"{name}_high": ratio.high}
    return values


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
