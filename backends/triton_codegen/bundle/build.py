"""Makes a bundle: compiles, describes, writes."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from backends.triton_codegen.bundle import description
from backends.triton_codegen.bundle.c.files import c_files
from backends.triton_codegen.bundle.compiling import Job, compile_jobs
from backends.triton_codegen.bundle.joined import loader_text
from backends.triton_codegen.bundle.layout import json_text
from backends.triton_codegen.bundle.loading import model
from backends.triton_codegen.bundle.loading.folder import MANIFEST, SEAL, seal_text
from backends.triton_codegen.bundle.loading.model import Build, File, Manifest, Variant
from backends.triton_codegen.bundle.loading.references import check_references
from backends.triton_codegen.bundle.output import check_place, write_folder
from backends.triton_codegen.bundle.schema import manifest_schema
from backends.triton_codegen.bundle.sizes import values_of
from backends.triton_codegen.bundle.trees import expression
from backends.triton_codegen.bundle.variants import Compiled
from backends.triton_codegen.emit import emit
from backends.triton_codegen.headers import Header, joined
from backends.triton_codegen.module import Module
from backends.triton_codegen.settings import Settings
from backends.triton_codegen.targets import Mode, Target, parse_target
from loopir import __version__
from loopir.errors import BundleError
from loopir.nodes import Program
from loopir.printer import to_text
from loopir.workspaces import parts_of
from passes.pipeline import PassPipeline

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_SUFFIXES = {"cuda": ("cubin", "ptx"), "hip": ("hsaco", "amdgcn")}


@dataclass(frozen=True)
class Entry:
    """A program to be in a bundle. `pipeline`: passes to run first; `settings`: None: those of the
    bundle; `name`: "": that of its first kernel."""

    program: Program
    pipeline: PassPipeline = field(default_factory=PassPipeline)
    settings: Settings | None = None
    name: str = ""


def bundle(
    programs: Program | Entry | Iterable[Program | Entry],
    targets: str | Iterable[str | Target],
    folder: str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    processes: int = 1,
) -> Manifest:
    """Compile programs for targets ("cuda:90", "hip:gfx942", ...), and write them to `folder` with
    all that a host needs to launch them; no GPU is needed. The same input gives the same bytes.

    processes: that compile; with more than one, the main module must be one that can be imported
    again. BundleError: the folder holds something else, or two programs have one name.
    CodegenError: a target that cannot do a kernel. VerifyError, NotApplicable: as of the pipeline.
    OSError: the folder cannot be written.
    """
    place = Path(folder)
    check_place(place)
    made = _Bundling(_entries(programs, settings), bundle_targets(targets))
    manifest, files = made.files(processes)
    write_folder(place, files)
    return manifest


def _entries(programs: object, settings: Settings | None) -> list["_Unit"]:
    alone = isinstance(programs, Program | Entry)
    given: list[Program | Entry] = [programs] if alone else list(programs)  # type: ignore
    units = [_Unit.of(e if isinstance(e, Entry) else Entry(e), settings) for e in given]
    if not units:
        raise BundleError("a bundle has a program at least; none is given")
    names = [unit.name.lower() for unit in units]
    for name in names:
        if names.count(name) > 1:
            raise BundleError(f"{name}: two programs have that name; give one another")
    return units


def bundle_targets(targets: str | Iterable[str | Target]) -> list[Target]:
    """Targets by name, as text between commas or one by one. CodegenError: one is not known.
    BundleError: one compiles nothing ahead of time, or is given twice."""
    names = targets.split(",") if isinstance(targets, str) else list(targets)
    found = [parse_target(t) if isinstance(t, str) else t for t in names]
    for target in found:
        if target.mode is not Mode.AHEAD:
            raise BundleError(f"{target.text}: compiles nothing ahead of time, as cuda:90 does")
        if found.count(target) > 1:
            raise BundleError(f"{target.text}: given twice")
    return found


@dataclass(frozen=True)
class _Unit:
    """A program with its names, before and after its passes, as text and as a module."""

    name: str
    before: str
    after: str
    pipeline: str
    module: Module

    @classmethod
    def of(cls, entry: Entry, settings: Settings | None) -> "_Unit":
        name = entry.name or entry.program.kernels[0].name
        if not re.fullmatch(_IDENTIFIER, name):
            raise BundleError(f"{name!r}: a program's name is an identifier of ASCII letters")
        after, pipeline = entry.pipeline.run(entry.program), str(entry.pipeline)
        module = emit(after, entry.settings or settings or Settings(), pipeline)
        return cls(name, to_text(entry.program), to_text(after), pipeline, module)


class _Bundling:
    """The files of a bundle, as they are made; the manifest lists them."""

    def __init__(self, units: list[_Unit], targets: list[Target]):
        self.units, self.targets = units, targets
        self._files: dict[str, tuple[bytes, str]] = {}

    def files(self, processes: int) -> tuple[Manifest, Mapping[str, bytes]]:
        """The manifest, and every file by its path."""
        jobs = [
            Job(u.after, u.pipeline, u.module.settings, t.text)
            for u in self.units
            for t in self.targets
        ]
        found = compile_jobs(jobs, processes)
        step = len(self.targets)
        each = [found[i : i + step] for i in range(0, len(found), step)]
        programs = tuple(map(self._program, self.units, each))
        self._add_loaders(self._manifest(programs))
        manifest = self._manifest(programs)
        check_references(manifest)
        text = json_text(asdict(manifest)).encode("ascii")
        files = {path: data for path, (data, _) in self._files.items()}
        return manifest, {**files, MANIFEST: text, SEAL: seal_text(text)}

    def _add(self, path: str, data: bytes | str, role: str) -> str:
        whole = data.encode("utf-8") if isinstance(data, str) else data
        if self._files.setdefault(path, (whole, role)) != (whole, role):
            raise BundleError(f"{path}: two files of the bundle would have that name")
        return path

    def _manifest(self, programs: tuple[model.Program, ...]) -> Manifest:
        """The manifest of the files that are there."""
        return Manifest(
            model.FORMAT,
            model.SCHEMA,
            _versions(),
            tuple(map(_target, self.targets)),
            programs,
            tuple(_file(path, *self._files[path]) for path in sorted(self._files)),
        )

    def _add_loaders(self, manifest: Manifest) -> None:
        self._add("loader.py", loader_text(__version__), "loader")
        self._add("manifest.schema.json", json_text(manifest_schema()), "schema")
        for name, text in c_files(json.loads(json_text(asdict(manifest)))).items():
            self._add(name, text, "c")

    # --- programs

    def _program(self, unit: _Unit, builds: Sequence[list[list[Compiled]]]) -> model.Program:
        program = unit.module.program
        header, parts = joined(program), parts_of(program)
        values, launch_values = values_of(header, parts, unit.module.kernels)
        place = f"programs/{unit.name}"
        return model.Program(
            unit.name,
            unit.pipeline,
            hashlib.sha256(unit.before.encode()).hexdigest(),
            description.settings(unit.module),
            self._add(f"{place}/before.lir", unit.before, "ir"),
            self._add(f"{place}/after.lir", unit.after, "ir"),
            self._add(f"{place}/{unit.name}.py", unit.module.source, "source"),
            description.determinism(program),
            tuple(map(description.parameter, header.params)),
            description.disjoint(header),
            values,
            launch_values,
            description.workspace(parts),
            tuple(self._kernels(unit, header, builds, place)),
        )

    def _kernels(
        self, unit: _Unit, header: Header, builds: Sequence[list[list[Compiled]]], place: str
    ) -> Iterator[model.Kernel]:
        overlaps = unit.module.settings.launch_pdl
        for i, info in enumerate(unit.module.kernels):
            made = tuple(
                Build(t.text, tuple(self._variant(v, t, place) for v in builds[j][i]))
                for j, t in enumerate(self.targets)
            )
            blocks = expression(info.blocks)
            yield model.Kernel(info.symbol, blocks, header.zeroed[i], overlaps and i > 0, made)

    def _variant(self, found: Compiled, target: Target, place: str) -> Variant:
        stem = f"{place}/{target.text.replace(':', '-')}/{found.symbol}.{found.name}"
        binary, assembly = (f"{stem}.{suffix}" for suffix in _SUFFIXES[target.backend])
        return Variant(
            found.name,  # pyright: ignore[reportArgumentType]
            found.symbol,
            self._add(binary, found.binary, "binary"),
            self._add(assembly, found.assembly, "assembly"),
            found.threads,
            found.shared_bytes,
            found.registers,
            found.spill_bytes,
            found.constants,
            found.conditions,
            found.descriptors,
            found.arguments,
        )


def _file(path: str, data: bytes, role: str) -> File:
    return File(path, len(data), hashlib.sha256(data).hexdigest(), role)  # pyright: ignore


def _target(target: Target) -> model.Target:
    if target.backend == "hip":
        return model.Target(target.text, "hip", str(target.arch), (), True, target.warp_size)
    arch = int(target.arch)
    exact = arch >= 90
    architecture = f"sm_{arch}{'a' if exact else ''}"
    capability = divmod(arch, 10)
    return model.Target(target.text, "cuda", architecture, capability, exact, target.warp_size)


def _versions() -> model.Versions:
    return model.Versions(__version__, _version("triton"), _version("torch"))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
