"""A result taken from the cache, or made: when, and what is said."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from triton import knobs

from backends.triton_codegen.cache import cached as module
from backends.triton_codegen.cache.cached import cached
from backends.triton_codegen.cache.entry import Built, key_of
from backends.triton_codegen.cache.store import Store
from loopir.errors import CodegenError
from tests.support.cache_entries import built, identity
from tests.support.homes import unfindable_home


class Compiler:
    """Counts what it is asked for."""

    def __init__(self, result: Built | None = None):
        self.asked, self.result = 0, result or built(1)

    def __call__(self, number: int = 1) -> Built:
        def build() -> Built:
            self.asked += 1
            return self.result

        return cached(lambda: identity(number), build)


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


@pytest.fixture
def is_silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_the_same_is_compiled_once(compiler: Compiler, is_silent: None):
    assert [compiler(), compiler(), compiler()] == [built(1)] * 3
    assert compiler.asked == 1


def test_another_is_compiled(compiler: Compiler):
    compiler(1)
    compiler(2)
    assert compiler.asked == 2


def test_use_is_what_keeps_an_entry(compiler: Compiler, folder: Path):
    compiler(1)
    entry = folder / key_of(identity(1))
    os.utime(entry, (1000, 1000))
    compiler(1)
    assert entry.stat().st_mtime > 1000


def test_off_means_that_nothing_is_read_or_written(
    compiler: Compiler, folder: Path, monkeypatch: pytest.MonkeyPatch, is_silent: None
):
    monkeypatch.setenv("LOOPIR_CACHE", "off")
    monkeypatch.setenv("LOOPIR_CACHE_LIMIT", "nonsense")
    compiler()
    compiler()
    assert compiler.asked == 2
    assert not folder.parent.exists()


@pytest.mark.parametrize("text", ["", "on"])
def test_on_is_the_default(text: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPIR_CACHE", text)
    compiler()
    compiler()
    assert compiler.asked == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LOOPIR_CACHE", "0"),
        ("LOOPIR_CACHE", "OFF"),
        ("LOOPIR_CACHE_LIMIT", "1G"),
        ("LOOPIR_CACHE_LIMIT", "-1"),
        ("LOOPIR_CACHE_LIMIT", "1_000"),
        ("LOOPIR_CACHE_LIMIT", "٣"),
        ("LOOPIR_CACHE_LIMIT", "9" * 5000),
    ],
)
def test_an_environment_that_says_nothing_known_is_refused(
    name: str, text: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(name, text)
    with pytest.raises(CodegenError, match=rf"{name}: .*, not "):
        compiler()


def test_a_limit_of_zero_keeps_nothing(
    compiler: Compiler, folder: Path, monkeypatch: pytest.MonkeyPatch, is_silent: None
):
    monkeypatch.setenv("LOOPIR_CACHE_LIMIT", "0")
    compiler()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("knob", ["always_compile", "dump_ir", "override"])
def test_who_watches_triton_compile_sees_it_compile(
    knob: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
):
    compiler()
    with knobs.compilation.scope():
        setattr(knobs.compilation, knob, True)
        compiler()
    assert compiler.asked == 2
    compiler()
    assert compiler.asked == 2


def test_what_a_compiler_refuses_is_not_kept(folder: Path):
    def refuses() -> Built:
        raise CodegenError("too much shared memory")

    for _ in range(2):
        with pytest.raises(CodegenError, match="too much shared memory"):
            cached(lambda: identity(1), refuses)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "value", [(1, 2), {1: 2}, object(), {"a": (1,)}], ids=["tuple", "key", "object", "nested"]
)
def test_metadata_that_json_would_change_is_not_kept(value: object, folder: Path, is_silent: None):
    metadata = {"shared": 1, "name": "k", "value": value}
    compiler = Compiler(replace(built(1), metadata=metadata))
    assert [compiler().metadata, compiler().metadata] == [metadata] * 2
    assert compiler.asked == 2
    assert list(folder.iterdir()) == []


# --- a cache that is no good


def test_a_damaged_entry_is_compiled_again_with_a_warning(compiler: Compiler, folder: Path):
    compiler()
    (folder / key_of(identity(1)) / "kernel.cubin").write_bytes(b"evil")
    with pytest.warns(UserWarning, match=r"is compiled again, kernel\.cubin: not what was written"):
        assert compiler() == built(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiler() == built(1)
    assert compiler.asked == 2


def test_a_folder_that_others_may_write_is_not_used(compiler: Compiler, folder: Path):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="not used, .*others may write it"):
        assert compiler() == built(1)
    assert list(folder.iterdir()) == []


def test_entries_of_another_user_are_not_used(
    compiler: Compiler, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    compiler()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.warns(UserWarning, match="not used, .*it belongs to user"):
        compiler()
    assert compiler.asked == 2


def test_a_place_that_cannot_be_written_is_warned_of(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOOPIR_CACHE_DIR", "/proc/none")
    with pytest.warns(UserWarning, match="not used, .*/proc/none"):
        assert compiler() == built(1)


def test_without_a_home_all_is_as_if_there_were_no_cache(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, is_silent: None
):
    unfindable_home(monkeypatch)
    assert compiler() == built(1)


@pytest.mark.parametrize(("method", "message"), [("load", "is not read"), ("save", "is not kept")])
def test_an_error_of_the_disk_is_a_warning(
    method: str, message: str, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
):
    def fails(*arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Store, method, fails)
    with pytest.warns(UserWarning, match=rf"{message}, .*Input/output error"):
        assert compiler() == built(1)


def test_damage_that_cannot_be_removed_is_a_warning(
    compiler: Compiler, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*arguments: object) -> None:
        raise OSError(1, "Operation not permitted")

    compiler()
    (folder / key_of(identity(1)) / "entry.json").unlink()
    monkeypatch.setattr(Store, "remove", fails)
    with pytest.warns(UserWarning, match="is compiled again|is not removed") as told:
        assert compiler() == built(1)
    assert len(told) == 2


def test_no_folder_is_left_open(compiler: Compiler, folder: Path):
    compiler()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(10):
        compiler(number)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_identity_is_not_asked_for_without_a_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPIR_CACHE", "off")
    assert cached(lambda: 1 / 0, lambda: built(1)) == built(1)  # type: ignore[arg-type, return-value]
    assert module.is_on() is False
