"""What a pass is: options as fields of a frozen dataclass, a verdict with reasons, a rewrite that
trusts its plan."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from loopir.errors import InternalError, NotApplicable, VerifyError
from loopir.nodes import Program
from loopir.printer import excerpt, to_text
from loopir.verifier import verify
from loopir.walk import Path
from passes.options import check_options, pass_text

#: (label, text), as `--explain` prints them
Rows: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Refusal:
    """One failed criterion: stable `code`, the `rule` it stands for, where (`path`, and the text
    `focus` on that line), what was `found` and a `hint` that says what to do."""

    code: str
    rule: str
    path: Path
    found: str
    hint: str
    focus: str = ""


@dataclass(frozen=True)
class Applicable:
    """A truthy verdict; `plan` is what `rewrite` needs, so that nothing is matched twice."""

    plan: Any

    def __bool__(self) -> bool:
        return True

    def explain(self) -> str:
        return "applicable"


@dataclass(frozen=True)
class Refused:
    """A falsy verdict with every failed criterion."""

    pass_text: str
    program: Program
    reasons: tuple[Refusal, ...]

    def __bool__(self) -> bool:
        return False

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(r.code for r in self.reasons)

    def explain(self) -> str:
        """Every reason: code, rule, the place in the IR text with a caret, what was found, what to
        do."""
        head = f"{self.pass_text}: not applicable, {len(self.reasons)} reason(s)"
        return "\n\n".join((head, *(self._explain(r) for r in self.reasons)))

    def _explain(self, reason: Refusal) -> str:
        place = excerpt(self.program, reason.path, reason.focus)
        why = f"  found: {reason.found}\n  hint:  {reason.hint}"
        return f"{reason.code}: {reason.rule}\n{place}\n{why}"


Verdict: TypeAlias = Applicable | Refused


@dataclass(frozen=True)
class Pass:
    """Base of every pass. A subclass sets `name` and writes `match` and `rewrite`; its fields are
    its options. The verifier stands before `match` and behind `rewrite`, so both may trust it."""

    name: ClassVar[str]

    def __post_init__(self):
        """Check the options' types; the text of an enum stands for it (`merge="atomic"`)."""
        check_options(self)

    def match(self, program: Program) -> Any | tuple[Refusal, ...]:
        """A plan, of any type but tuple, or a non-empty tuple with every criterion that failed."""
        raise NotImplementedError

    def rewrite(self, program: Program, plan: Any) -> Program:
        raise NotImplementedError

    def report(self, plan: Any) -> Rows:
        """What `plan` amounts to, as rows for `loopir-opt --explain`."""
        return ()

    def can_be_applied(self, program: Program) -> Verdict:
        """Check all criteria. VerifyError: `program` breaks a rule of the IR."""
        verify(program)
        found = self.match(program)
        if not isinstance(found, tuple):
            return Applicable(found)
        if not found or not all(isinstance(reason, Refusal) for reason in found):
            raise InternalError(f"pass {self}: match gives a plan or refusals, not {found!r}")
        return Refused(str(self), program, found)

    def apply(self, program: Program) -> Program:
        """The rewritten program, verified. NotApplicable: the pass refuses, with the text of
        `can_be_applied(program).explain()`. VerifyError: `program` breaks a rule of the IR.
        InternalError: the result does, which is a bug of the pass; the text is a reproducer."""
        verdict = self.can_be_applied(program)
        if isinstance(verdict, Refused):
            raise NotApplicable(verdict.explain())
        result = self.rewrite(program, verdict.plan)
        try:
            verify(result)
        except VerifyError as error:
            raise InternalError(
                f"pass {self} made a program that breaks a rule of the IR.\n{error}\n\n"
                f"The program it was given:\n{to_text(program)}"
            ) from error
        return result

    def __str__(self) -> str:
        return pass_text(self)
