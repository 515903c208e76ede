"""The constants of the GPU that a tensor lies on."""

import re
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import torch

from backends.planner import Device, read_device, shipped
from backends.planner.choose import default_device
from backends.triton_codegen.cache.folder import NoHome, cache_folder, read_regular

_MOST_BYTES = 1 << 22


def calibrated_path(name: str) -> Path:
    """Where the constants of a device lie that `calibrate` measured. NoHome."""
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
    try:
        path = calibrated_path(name)
    except NoHome:
        return None
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
        return read_regular(path, _MOST_BYTES).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
