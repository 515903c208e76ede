"""Golden texts: files beside the test, rewritten by `pytest --update-golden`."""

from pathlib import Path

import pytest


def check_golden(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """Compare `text` with `golden/name` beside the test's file; with --update-golden write it."""
    path = Path(request.path).parent / "golden" / name
    if request.config.getoption("--update-golden"):
        path.write_text(text)
        return
    assert path.exists(), f"{path} is missing: run pytest --update-golden and read what it writes"
    assert text == path.read_text(), f"{name} differs; after review: pytest --update-golden"
