"""What the environment says of the cache of kernels."""

import os

from loopir.errors import CodegenError

DEFAULT_LIMIT = 1 << 30


def is_on() -> bool:
    """Unless LOOPIR_CACHE is `off`. CodegenError: it is something else than `on`, `off` or
    empty."""
    text = os.environ.get("LOOPIR_CACHE", "")
    if text not in ("", "on", "off"):
        raise CodegenError(f"LOOPIR_CACHE: on or off, not {text!r}")
    return text != "off"


def limit_bytes() -> int:
    """LOOPIR_CACHE_LIMIT, 1 GiB if it is not said. CodegenError: it is no number of bytes."""
    text = os.environ.get("LOOPIR_CACHE_LIMIT", "")
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise CodegenError(
            f"LOOPIR_CACHE_LIMIT: a number of bytes, as {DEFAULT_LIMIT}, not {text!r}"
        )
    return int(text)
