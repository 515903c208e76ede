"""Winners of timed contests, pinned in a readable file of JSON in the user's cache, one a device.

    {"loopir_pins": 1, "device": "NVIDIA H200", "triton": "3.6.0", "winners": {PROBLEM: CONFIG}}

A file is input: what is no winner of this format is refused with a warning, and a configuration
that is none of the planner's candidates is not used.
"""

import json
import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backends.planner import Config, Device, Problem, family
from backends.triton_codegen.cache.folder import NoHome, cache_folder, make_private
from backends.triton_codegen.ops.devices import read_small, slug

_FORMAT = 1
_MOST_WINNERS = 20_000
_MOST_TEXT = 500


@dataclass(frozen=True)
class Pins:
    """The winners on a device under a Triton, as text by text."""

    device: str
    triton: str
    winners: Mapping[str, str] = field(default_factory=dict)

    def config(self, problem: Problem, device: Device) -> Config | None:
        """The winner of `problem`; None if there is none that the planner would consider."""
        text = self.winners.get(str(problem))
        if text is None:
            return None
        try:
            config = Config.parse(text)
        except ValueError as error:
            _refused(pins_path(self.device), error)
            return None
        if config not in family(problem, device):
            _refused(pins_path(self.device), f"{text!r} is no candidate for {problem}")
            return None
        return config

    def text(self) -> str:
        body = {"loopir_pins": _FORMAT, "device": self.device, "triton": self.triton}
        return json.dumps({**body, "winners": dict(self.winners)}, indent=1) + "\n"

    def table(self) -> str:
        """A line a winner."""
        width = max(map(len, self.winners), default=0)
        return "\n".join(
            (
                f"{self.device}, Triton {self.triton}: {len(self.winners)} pinned",
                *(f"  {problem:{width}}  {config}" for problem, config in self.winners.items()),
            )
        )


def pins_path(device: str) -> Path:
    return _folder() / f"{slug(device)}.json"


def _folder() -> Path:
    return cache_folder() / "pins"


def pin_files() -> list[Path]:
    """The files of all devices. NoHome."""
    return sorted(path for path in _folder().glob("*.json") if path.exists())


def load_pins(path: Path) -> Pins:
    """What a file pins, "" on "" if there is none. ValueError: it is refused."""
    text = read_small(path)
    try:
        return Pins("", "") if text is None else _parsed(json.loads(text))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_pins(device: str, triton: str) -> Pins:
    """The pins of a device; none where the file is absent, of another Triton, or refused, which is
    warned of."""
    none = Pins(device, triton)
    try:
        found = load_pins(pins_path(device))
    except ValueError as error:
        _refused(pins_path(device), error)
        return none
    except NoHome:
        return none
    return found if (found.device, found.triton) == (device, triton) else none


def pin(device: str, triton: str, problem: Problem, config: Config) -> Path:
    """Add a winner to the file, whose path is returned: a new file replaces the old one at once,
    readable by its owner. OSError: it cannot be written."""
    pins = read_pins(device, triton)
    winners = {**pins.winners, str(problem): str(config)}
    while len(winners) > _MOST_WINNERS:
        del winners[next(iter(winners))]
    path = pins_path(device)
    write_whole(path, Pins(device, triton, winners).text())
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old text or the new one, never a part."""
    make_private(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _parsed(data: Any) -> Pins:
    if not isinstance(data, dict) or data.get("loopir_pins") != _FORMAT:
        raise ValueError(f"it does not say loopir_pins: {_FORMAT}")
    if set(data) != {"loopir_pins", "device", "triton", "winners"}:
        raise ValueError(f"it has the fields {sorted(data)}")
    winners = data["winners"]
    if not isinstance(winners, dict) or len(winners) > _MOST_WINNERS:
        raise ValueError(f"winners is no object of {_MOST_WINNERS:,} at most")
    for text in (data["device"], data["triton"], *winners, *winners.values()):
        if not isinstance(text, str) or len(text) > _MOST_TEXT or not text.isprintable():
            raise ValueError(f"{str(text)[:40]!r} is no line of {_MOST_TEXT} characters at most")
    return Pins(data["device"], data["triton"], winners)


def _refused(path: Path, reason: object) -> None:
    warnings.warn(f"{path}: refused, {reason}", stacklevel=3)
