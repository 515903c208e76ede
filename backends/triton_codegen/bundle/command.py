"""`loopir-triton bundle`: programs compiled into a folder that hosts without this toolkit launch
from.

Exit codes: 0 done; 1 a refusal, or text that is no valid program; 2 usage, a file that cannot be
read or written included; 3 a bug of ours, with a reproducer.
"""

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import starmap

from backends.triton_codegen.bundle.build import Entry, bundle, bundle_targets
from backends.triton_codegen.bundle.loading.model import Build, Kernel, Manifest, Variant
from backends.triton_codegen.setting_options import add_setting_options, settings_of
from loopir.errors import LoopIRError, PipelineError
from loopir.parser import parse_many
from passes.cli import DONE, REFUSED, complain, decoded, read_input, report_bug
from passes.pipeline import parse_pipeline

_TOOL = "loopir-triton bundle"
_MOST_PROCESSES = 8
_ROW = "{:<12} {:<28} {:<12} {:>9} {:>8} {:>9} {:>9}"
_HEAD = ("target", "kernel", "variant", "registers", "spills B", "shared B", "binary B")


def main(argv: list[str]) -> int:
    """Run the command; the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    _check_usage(parser, args)
    data = read_input(parser, args.file)
    try:
        entries = [Entry(program, args.passes) for program in parse_many(decoded(data))]
        made = bundle(entries, args.targets, args.output, args.settings, processes=args.jobs)
    except LoopIRError as error:
        complain(f"{args.file}: {error}")
        return REFUSED
    except OSError:
        raise
    except Exception as error:
        return report_bug(_TOOL, shlex.join(argv), data, error)
    print(report(made))
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_TOOL,
        allow_abbrev=False,
        description="Compile programs into a folder with all that a host needs to launch them "
        "without this toolkit: binaries, a manifest, loaders in Python and in C. Needs no GPU.",
    )
    add = parser.add_argument
    text = "programs in text form, a line '# -----' between any two, or - for standard input"
    add("file", metavar="FILE", help=text)
    add("-p", "--pipeline", default="", help="passes to run first: stream-k{units=132}")
    text = "cuda:90,cuda:80,hip:gfx942 and so on, between commas (%(default)s)"
    add("--target", default="cuda:90", help=text)
    text = "the folder to write, or a bundle to replace"
    add("-o", "--output", metavar="DIR", required=True, help=text)
    add_setting_options(parser)
    cores = min(os.cpu_count() or 1, _MOST_PROCESSES)
    add("--jobs", type=int, default=cores, help="processes that compile (%(default)s)")
    return parser


def _check_usage(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    try:
        args.settings = settings_of(args)
        args.passes = parse_pipeline(args.pipeline)
        args.targets = bundle_targets(args.target)
    except PipelineError as error:
        parser.error(f"--pipeline: {error}")
    except (ValueError, LoopIRError) as error:
        parser.error(str(error))
    if not args.output:
        parser.error("-o: a name is missing")
    if args.jobs < 1:
        parser.error(f"--jobs: 1 or more, not {args.jobs}")


def report(manifest: Manifest) -> str:
    """A table with a row for each binary, and the bundle's size."""
    sizes = {file.path: file.bytes for file in manifest.files}
    rows = [_ROW.format(*_HEAD), *starmap(partial(_row, sizes), _built(manifest))]
    count = len(manifest.programs)
    programs = f"{count} program" + "s" * (count != 1)
    whole = f"{programs}, {len(sizes)} files, {sum(sizes.values()):,} bytes"
    return "\n".join([*rows, whole])


def _built(manifest: Manifest) -> Iterator[tuple[Kernel, Build, Variant]]:
    kernels = (kernel for program in manifest.programs for kernel in program.kernels)
    builds = ((kernel, build) for kernel in kernels for build in kernel.builds)
    return ((kernel, build, v) for kernel, build in builds for v in build.variants)


def _row(sizes: Mapping[str, int], kernel: Kernel, build: Build, variant: Variant) -> str:
    costs = variant.registers, variant.spill_bytes, variant.shared_bytes, sizes[variant.binary]
    return _ROW.format(build.target, f"@{kernel.name}", variant.name, *costs)
