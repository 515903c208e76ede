"""Turns the source of a module into Python functions, without a file on disk."""

import hashlib
import linecache
from functools import lru_cache
from types import ModuleType


@lru_cache(maxsize=256)
def load(source: str) -> ModuleType:
    """The emitted file as a module of its own; equal sources give the same module, so kernels
    compile once."""
    name = f"loopir_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    filename = f"<{name}>"
    # Triton reads the source of its kernels back: through linecache, since there is no file.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType(name)
    exec(compile(source, filename, "exec"), vars(module))
    return module
