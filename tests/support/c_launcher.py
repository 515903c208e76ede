"""The launcher in C, built by gcc with sanitizers, run against a driver that notes its calls."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from backends.triton_codegen.bundle.c.files import c_files
from tests.support.bundles import entry_parameters
from tests.support.manifests import manifest, write_files

SOURCES = Path(__file__).parent / "c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
DTYPES = ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "bool")

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


class Said(NamedTuple):
    """What a call returned, the meaning of its code, and the last error's text."""

    call: str
    code: int
    meaning: str
    detail: str


@dataclass(frozen=True)
class Tensor:
    """An argument; `strides` in elements, dense rows if None."""

    data: int
    sizes: tuple[int, ...]
    dtype: str = "f32"
    strides: tuple[int, ...] | None = None

    @property
    def command(self) -> str:
        strides = _dense(self.sizes) if self.strides is None else self.strides
        numbers = (self.data, DTYPES.index(self.dtype), len(self.sizes), *self.sizes, *strides)
        return f"tensor {' '.join(map(str, numbers))}"


def _dense(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= max(size, 1)
    return tuple(strides)


@dataclass(frozen=True)
class Outcome:
    """What the program printed, and what the driver was asked, call by call."""

    said: tuple[Said, ...]
    lines: tuple[str, ...]
    calls: tuple[dict[str, Any], ...]

    @property
    def launches(self) -> list[dict[str, Any]]:
        return [c for c in self.calls if c["call"] == "launch"]

    @property
    def enqueued(self) -> list[dict[str, Any]]:
        return [c for c in self.calls if c["call"] in ("launch", "memset")]

    def code(self, call: str) -> int:
        return next(s.code for s in reversed(self.said) if s.call == call)


def compile_c(output: Path, sources: Sequence[Path], *options: str, compiler: str = "gcc") -> Path:
    """gcc's output; AssertionError with its messages."""
    words = [compiler, *options, "-o", str(output), *map(str, sources)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


def mock_driver(folder: Path, *options: str) -> Path:
    """The folder that holds the mock as libcuda.so.1."""
    folder.mkdir(exist_ok=True)
    options = ("-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", *options)
    compile_c(folder / "libcuda.so.1", [SOURCES / "mock_cuda.c"], *options, "-lpthread")
    return folder


@cache
def _session(folder: Path) -> Path:
    """The mock, and the launcher's object file, made once."""
    mock_driver(folder / "driver")
    return folder


class Launcher:
    """A bundle's C sources, compiled with a program that obeys commands."""

    def __init__(self, shared: Path, folder: Path, manifest: Mapping[str, Any], bundle: Path):
        self.shared, self.folder, self.bundle = _session(shared), folder, bundle
        for name, text in c_files(manifest).items():
            (folder / name).write_text(text)
        self.program = self._linked("caller", self._launcher(), *STRICT, *SANITIZED)

    def _launcher(self) -> Path:
        """It is the same in all bundles: compiled once, since that takes long."""
        launcher = self.shared / "loopir_launch.o"
        if not launcher.exists():
            flags = (*STRICT, *SANITIZED, "-c", f"-I{self.folder}")
            compile_c(launcher, [self.folder / "loopir_launch.c"], *flags)
        return launcher

    def _linked(self, name: str, launcher: Path, *options: str) -> Path:
        sources = [launcher, self.folder / "loopir_bundle.c", SOURCES / "caller.c"]
        options = (f"-I{self.folder}", *options, "-ldl", "-lpthread")
        return compile_c(self.folder / name, sources, *options)

    def with_source(self, text: str) -> "Launcher":
        """The same with another loopir_launch.c, without sanitizers."""
        other = copy(self)
        (self.folder / "mutant.c").write_text(text)
        other.program = self._linked("mutant", self.folder / "mutant.c", "-std=c11")
        return other

    def run(self, *commands: str, context: int = 0, driver: Path | None = None, **mock: Any):
        """The outcome of commands in one process. `mock`: settings, as CAPABILITY="8.0"."""
        log = self.folder / "calls.jsonl"
        log.unlink(missing_ok=True)
        settings = {f"MOCK_{name}": str(value) for name, value in mock.items()}
        library = str(driver or self.shared / "driver")
        environment = {**os.environ, "LD_LIBRARY_PATH": library, "MOCK_LOG": str(log), **settings}
        done = subprocess.run(
            [self.program],
            input="\n".join([f"context {context}", *commands]),
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        calls = log.read_text().splitlines() if log.exists() else []
        lines = tuple(done.stdout.splitlines())
        said = tuple(_said(line) for line in lines if "|" in line)
        return Outcome(said, lines, tuple(map(json.loads, calls)))

    def launch(self, name: str, *commands: str, **mock: Any) -> Outcome:
        """Open, find, `commands`, launch, close."""
        return self.run(f"open {self.bundle}", f"find {name}", *commands, "launch", "close", **mock)


def launcher_of(
    factory: pytest.TempPathFactory,
    *programs: dict,
    files: dict[str, bytes] | None = None,
    **more: Any,
) -> Launcher:
    """The launcher of a bundle of these programs, made by hand."""
    folder = factory.mktemp("bundle")
    whole = manifest(*programs, files=files, **more)
    return Launcher(shared_folder(factory), folder, whole, write_files(folder / "b", files))


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Where launchers of one run of the tests keep what is the same for all."""
    folder = factory.getbasetemp() / "c_launcher"
    folder.mkdir(exist_ok=True)
    return folder


def _said(line: str) -> Said:
    words, detail = line.split(" | ") if " | " in line else (line.rstrip(" |"), "")
    call, code, meaning = words.split(" ", 2)
    return Said(call, int(code), meaning, detail)


def parameter_lines(folder: Path, manifest: Mapping[str, Any]) -> Iterator[str]:
    """For $MOCK_PARAMS: of each kernel the bytes of its parameters, as its PTX says."""
    builds = (b for p in manifest["programs"] for k in p["kernels"] for b in k["builds"])
    for v in (v for b in builds for v in b["variants"]):
        sizes = entry_parameters((folder / v["assembly"]).read_text(), v["symbol"])
        image = image_hash((folder / v["binary"]).read_bytes())
        yield " ".join([f"{image}:{v['symbol']}", *map(str, sizes)])


def image_hash(data: bytes) -> str:
    """How the mock calls a binary: FNV-1a of 64 bits."""
    found = 14695981039346656037
    for byte in data:
        found = (found ^ byte) * 1099511628211 % 2**64
    return f"{found:016x}"


def codes() -> dict[str, int]:
    """The numbers of the codes, by their names in the header."""
    text = (Path(c_files.__code__.co_filename).parent / "loopir_launch.h").read_text()
    body = text[text.index("LOOPIR_OK,") : text.index("LOOPIR_ERROR_COUNT")]
    return {name.strip().removeprefix("LOOPIR_"): i for i, name in enumerate(body.split(",")[:-1])}
