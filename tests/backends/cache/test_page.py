"""docs/cache.md: its Python runs, what it names is there."""

import re
from pathlib import Path

from backends.triton_codegen.cache import command, options, store, toolchain
from tests.support.documents import fenced, page

PAGE = page("cache.md")


def test_the_python_runs_and_the_second_kernel_is_a_hit(folder: Path):
    (text,) = fenced(PAGE, "python")
    exec(text, {})
    assert len(list(folder.iterdir())) == 1


def test_figures_are_the_code_s():
    assert f"{options.DEFAULT_LIMIT:,} if not said" in PAGE
    assert store._ABANDONED_S == 3600
    assert "removed\n  after an hour" in PAGE


def test_all_actions_and_no_others_are_listed():
    assert re.findall(r"^    loopir-triton cache (\w+) ", PAGE, re.MULTILINE) == list(
        command._ACTIONS
    )


def test_the_folder_is_the_one_that_is_named(folder: Path):
    assert store.store_folder() == folder
    assert f"The entries lie in `{folder.name}`" in PAGE


def test_what_stops_the_cache_is_what_triton_reads(monkeypatch):
    for name in ("TRITON_ALWAYS_COMPILE", "TRITON_KERNEL_DUMP", "TRITON_KERNEL_OVERRIDE"):
        assert f"`{name}`" in PAGE
        assert not toolchain.is_observed()
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert toolchain.is_observed()
