"""The outputs of a program in several versions, each compared with each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from backends.triton_codegen.trial_rules import is_exact, rounding
from loopir.nodes import Program
from passes.opt_compare import ROUNDING, Agreement, compared, digest
from passes.opt_run import output_params

Outputs = Mapping[str, np.ndarray]

PROGRAM, BEFORE, AFTER, REFERENCE = "program", "before", "after", "reference"
_ORDER = (REFERENCE, PROGRAM, BEFORE, AFTER)  # the first of a pair is what the other should be


@dataclass(frozen=True)
class Comparison:
    """An output of a version against another's; `agrees`: as far as it must."""

    title: str
    agreement: Agreement
    agrees: bool


@dataclass
class Report:
    """What was run so far of `program`; `is_integer`: its inputs are small integers."""

    program: Program
    is_integer: bool
    outputs: dict[str, Outputs] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def add(self, title: str, outputs: Outputs, seconds: float) -> None:
        sums = ", ".join(f"{name} {digest(array)}" for name, array in outputs.items())
        self.lines.append(f"{title}: {1e3 * seconds:.1f} ms; {sums}")
        self.outputs[title] = outputs

    def skip(self, amount: str) -> None:
        """Say that the reference interpreter would have too much to do."""
        self.lines.append(f"{REFERENCE}: skipped, too large ({amount})")

    def verdict(self) -> tuple[str, bool]:
        """A line a version, a line a comparison, and what follows; whether all agree as they
        must."""
        comparisons = list(self._comparisons())
        lines = [*self.lines, *(f"{c.title}: {c.agreement.text}" for c in comparisons)]
        differing = [c.title for c in comparisons if not c.agrees]
        if differing:
            lines.append(f"THE OUTPUTS DIFFER by more than they may: {'; '.join(differing)}")
        elif comparisons:
            lines.append("the outputs agree")
        return "\n".join(lines), not differing

    def _comparisons(self) -> Iterator[Comparison]:
        versions = sorted(self.outputs, key=_ORDER.index)
        for wanted, found in combinations(versions, 2):
            for name in output_params(self.program):
                yield self._comparison(name, found, wanted)

    def _comparison(self, name: str, found: str, wanted: str) -> Comparison:
        by_reference = wanted == REFERENCE
        agreement = compared(
            self.outputs[found][name],
            self.outputs[wanted][name],
            output_params(self.program)[name].dtype,
            rounding(self.program) if by_reference else ROUNDING,
        )
        must_equal = self.is_integer and (not by_reference or is_exact(self.program))
        agrees = agreement.is_equal or (agreement.is_close and not must_equal)
        return Comparison(f"{name}, {found} against {wanted}", agreement, agrees)
