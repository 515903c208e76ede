"""Whether operators on CPU tensors run torch's own arithmetic, or the generated kernels through
Triton's interpreter."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asked: ContextVar[bool] = ContextVar("interpreted", default=False)


@contextmanager
def interpreted() -> Iterator[None]:
    """Within it, in this thread, operators on CPU tensors run the kernels that a GPU would,
    interpreted: the same plans, and hundreds of times slower. One at a time in a process."""
    token = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(token)


def is_asked() -> bool:
    return _asked.get()
