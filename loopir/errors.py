"""Error classes of the toolkit: one per kind of failure, so that a tool can map each to an exit
code."""

_SHOWN = 120  # columns of a source line on either side of the caret


class LoopIRError(Exception):
    """Base of every error that a user's input can cause."""


class ParseError(LoopIRError):
    """Text that is not a program; carries the 1-based position and prints the line with a caret."""

    def __init__(self, message: str, line: int, column: int, source_line: str = ""):
        self.message, self.line, self.column, self.source_line = message, line, column, source_line
        super().__init__(str(self))

    def __str__(self) -> str:
        head = f"line {self.line}, column {self.column}: {self.message}"
        if not self.source_line:
            return head
        first = max(0, self.column - _SHOWN)  # of a long line the part around the caret
        shown = self.source_line[first : self.column + _SHOWN]
        return f"{head}\n  {shown}\n  {' ' * (self.column - 1 - first)}^"


class VerifyError(LoopIRError):
    """A program that breaks a rule of the IR; the text shows the place inside the IR."""


class NotApplicable(LoopIRError):
    """`apply` on a program that the pass refuses; the text is the verdict's `explain()`."""


class PipelineError(LoopIRError):
    """A pipeline string with an unknown pass, an unknown option or a malformed value."""


class CodegenError(LoopIRError):
    """A well-formed program that the backend cannot express, or a target that it does not know."""


class LaunchError(LoopIRError, ValueError):
    """Arguments of a launch that do not fit the program: which argument, what was expected."""


class BundleError(LoopIRError):
    """A bundle on disk that is damaged, hostile or of another schema."""


class InternalError(Exception):
    """A bug of ours, never a user's mistake: tools exit with 3 and print a reproducer."""
