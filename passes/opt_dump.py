"""`loopir-opt --dump-dir`: the program after every pass, each in a file of its own."""

from dataclasses import dataclass, field
from pathlib import Path

from loopir.nodes import Program
from loopir.printer import to_text
from passes.base import Pass
from passes.opt_report import dump, head
from passes.pipeline import PassPipeline, PassTrace


@dataclass
class Dumps:
    """Files `00-input.lir`, `01-PASS.lir`, ..., the last `NN-result.lir`, in `folder`, which there
    is; `prefix` tells one program from another. OSError: a file cannot be written."""

    folder: Path
    prefix: str = ""
    applied: list[Pass] = field(default_factory=list)
    count: int = 0

    def observe(self, trace: PassTrace) -> None:
        """An observer of the pipeline."""
        self.applied.append(trace.applied)
        self.write(trace.applied.name, trace.after)

    def write(self, name: str, program: Program) -> None:
        """A file that was there is replaced; where it was a link, the link is, not its target."""
        path = self.folder / f"{self.prefix}{self.count:02}-{name}.lir"
        path.unlink(missing_ok=True)
        pipeline = PassPipeline(tuple(self.applied))
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(dump(to_text(program), head(pipeline), []))
        self.count += 1
