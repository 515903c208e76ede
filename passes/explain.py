"""What a pass will do to a program, or what would be best for it, in figures: tiles, waves, shares,
candidates, workspace, determinism."""

from loopir.nodes import Program
from loopir.verifier import verify
from passes.base import Pass, Refused, Rows
from passes.decomposition.arithmetic import check_size
from passes.decomposition.cost import UNIT_COST_MODEL, CostModel
from passes.stream_k import StreamKPass
from passes.stream_k.comparison import Comparison
from passes.stream_k.nest import find_nest
from passes.stream_k.problem import problem_of

ASSUMED_SMS = 132


def explain(
    program: Program,
    p: Pass | None = None,
    *,
    sms: int | None = None,
    cost: CostModel = UNIT_COST_MODEL,
) -> str:
    """Without a pass: what a launch of `program` would amount to in every decomposition, for a
    kernel that is a grid of output tiles around a reduction. With one: what the pass reports of its
    plan, and for `stream-k` the same comparison, its plan included; where it refuses, the reasons.

    sms: multiprocessors, with one block each; 132 are assumed if it is not said, and the text says
    so. cost: its unit is the unit of every time. ValueError: `sms` below one. VerifyError:
    `program` breaks a rule of the IR.
    """
    check_size("sms", ASSUMED_SMS if sms is None else sms, 1)
    device = (ASSUMED_SMS, "assumed") if sms is None else (sms, "as given")
    if p is None:
        verify(program)
        return _best(program, device, cost)
    verdict = p.can_be_applied(program)
    if isinstance(verdict, Refused):
        return verdict.explain()
    text = _block(str(p), p.report(verdict.plan))
    problem = problem_of(verdict.plan.nest) if isinstance(p, StreamKPass) else None
    if problem is None:
        return text
    comparison = Comparison(problem, *device, cost, verdict.plan)
    return f"{text}\n{_compared(program, comparison.rows(), comparison)}"


def _best(program: Program, device: tuple[int, str], cost: CostModel) -> str:
    nest = find_nest(program)
    if isinstance(nest, tuple):
        rows = tuple((r.code, f"{r.found}; {r.hint}") for r in nest)
        return _block(f"{_names(program)}: no grid of output tiles to decompose", rows)
    problem = problem_of(nest)
    if problem is None:
        text = "no constants of the program; bind them in `where` to compare decompositions"
        return _block(_names(program), (("sizes", text),))
    comparison = Comparison(problem, *device, cost)
    rows = (("stream-k", _verdict(program)), *comparison.rows())
    return _compared(program, rows, comparison)


def _compared(program: Program, rows: Rows, comparison: Comparison) -> str:
    head = f"{_names(program)} in every decomposition"
    return "\n".join((_block(head, rows), *(f"    {line}" for line in comparison.table())))


def _verdict(program: Program) -> str:
    """What the pass says of `program`, with its options at their defaults."""
    verdict = StreamKPass().can_be_applied(program)
    if isinstance(verdict, Refused):
        return f"refuses: {', '.join(sorted(verdict.codes))}; `loopir-opt -p stream-k` says why"
    return "applies"


def _names(program: Program) -> str:
    return ", ".join(f"@{kernel.name}" for kernel in program.kernels)


def _block(head: str, rows: Rows) -> str:
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join((head, *(f"  {label:<{width}}  {text}" for label, text in rows)))
