"""A cache of its own for each test."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the entries; it is not there yet."""
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("LOOPIR_CACHE", "on")
    monkeypatch.delenv("LOOPIR_CACHE_LIMIT", raising=False)
    return tmp_path / "cache" / "kernels"
