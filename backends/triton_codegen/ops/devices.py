"""The constants of the GPU that a tensor lies on."""

import os
import re
import stat
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch

from backends.planner import Device, read_device, shipped
from backends.planner.choose import default_device

_MOST_BYTES = 1 << 22


def cache_folder() -> Path:
    """Where calibrations and pinned winners lie: LOOPIR_CACHE_DIR, or `loopir` in the user's own
    cache."""
    if given := os.environ.get("LOOPIR_CACHE_DIR"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "loopir"


def calibrated_path(name: str) -> Path:
    """Where the constants of a device lie that `calibrate` measured."""
    return cache_folder() / "devices" / f"{slug(name)}.json"


def slug(name: str) -> str:
    """A file's name for a device's."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "device"


@lru_cache(maxsize=64)
def device_of(index: int) -> Device:
    """The constants of CUDA device `index`; -1, the CPU, counts as the default device. Those that
    `calibrate` measured, else those that are shipped, else the default's with what the driver
    says."""
    if index < 0:
        return default_device()
    properties = torch.cuda.get_device_properties(index)
    return _calibrated(properties.name) or shipped().get(properties.name) or _guessed(properties)


def _calibrated(name: str) -> Device | None:
    path = calibrated_path(name)
    try:
        text = read_small(path)
        return None if text is None else read_device(text)
    except (ValueError, RecursionError) as error:
        warnings.warn(f"{path}: ignored, {error}", stacklevel=2)
        return None


def _guessed(properties) -> Device:
    base = default_device()
    scale = properties.multi_processor_count / base.sms
    return replace(
        base,
        name=properties.name,
        sms=properties.multi_processor_count,
        shared_bytes=properties.shared_memory_per_block_optin,
        l2_bytes=properties.L2_cache_size or base.l2_bytes,
        sustained_tflops={k: v * scale for k, v in base.sustained_tflops.items()},
        slowness={},
    )


def read_small(path: Path) -> str | None:
    """The text of a regular file of a few MB at most; None if there is none. ValueError: it is
    something else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(str(error)) from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is no regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
    return data.decode("utf-8")
