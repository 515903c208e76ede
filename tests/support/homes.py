"""Users without a place for their files."""

import pwd
from typing import NoReturn

import pytest


def unfindable_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is not in the password file, and whose environment says nothing."""

    def unknown(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "LOOPIR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
