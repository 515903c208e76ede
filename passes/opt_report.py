"""What `loopir-opt` tells about a run besides its result: one observer of the pipeline a flag."""

import difflib
import shlex
from typing import TextIO

from loopir import __version__
from loopir.deps import dependences, to_dot
from loopir.nodes import Program
from loopir.printer import to_text
from passes.base import Pass
from passes.explain import explain
from passes.options import Option, options_of, value_text
from passes.pipeline import Observer, PassPipeline, PassTrace
from passes.registry import PASSES

ALL, CHANGED = "all", "changed"


def print_after(wanted: str, out: TextIO) -> Observer:
    """Print the program after every pass, after those that changed it, or after those of a name."""

    def observe(trace: PassTrace) -> None:
        by_name = wanted == trace.applied.name
        if by_name or wanted == ALL or (wanted == CHANGED and trace.changed):
            print(f"# after {trace.applied}\n{to_text(trace.after)}", file=out, end="")

    return observe


def print_diff(out: TextIO) -> Observer:
    """Print a unified diff of the text around every pass that changed it."""

    def observe(trace: PassTrace) -> None:
        before, after = (to_text(p).splitlines() for p in (trace.before, trace.after))
        names = (f"before {trace.applied}", f"after {trace.applied}")
        for line in difflib.unified_diff(before, after, *names, lineterm=""):
            print(line, file=out)

    return observe


def print_time(out: TextIO) -> Observer:
    """Print how long every pass took, in milliseconds."""

    def observe(trace: PassTrace) -> None:
        print(f"{1e3 * trace.seconds:10.3f} ms  {trace.applied}", file=out)

    return observe


def collect_explanations(into: list[str], sms: int | None) -> Observer:
    """Gather what every pass reports of itself and the program it was given."""
    return lambda trace: into.append(explain(trace.before, trace.applied, sms=sms))


def head(pipeline: PassPipeline) -> str:
    """What made a text: the version, and the passes."""
    version = f"loopir {__version__}"
    return f"{version} -p {shlex.quote(str(pipeline))}" if pipeline.passes else version


def dump(result: str, head: str, explanations: list[str]) -> str:
    """The text of a result: `head` and the explanations as comments, then the result itself."""
    comments = [head, *(line for text in explanations for line in text.splitlines())]
    return "\n".join((*(f"# {line}".rstrip() for line in comments), result))


def dependence_graphs(program: Program) -> str:
    """The dependence graph of each kernel, as text for Graphviz."""
    return "\n".join(to_dot(dependences(kernel)) for kernel in program.kernels)


def list_passes() -> str:
    """Every pass: its name, what it does, and its options with default, type and meaning."""
    return "\n\n".join(_pass_entry(PASSES[name]) for name in sorted(PASSES))


def _pass_entry(cls: type[Pass]) -> str:
    items = [(_usage(o), f"{o.expected}: {o.doc}") for o in options_of(cls)]
    width = max((len(usage) for usage, _ in items), default=0)
    first_line = (cls.__doc__ or "").strip().partition("\n")[0]
    lines = (f"  {usage:<{width}}  {meaning}" for usage, meaning in items)
    return "\n".join((f"{cls.name}: {first_line}", *lines))


def _usage(o: Option) -> str:
    return o.key if o.required else f"{o.key}={value_text(o.default)}"
