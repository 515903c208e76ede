"""How times of what goes on at the same time add up."""

from collections.abc import Iterable


def norm(parts: Iterable[float], power: int) -> float:
    """The `power`-th root of the sum of powers: the largest, and more where others come near."""
    parts = tuple(parts)
    most = max(parts)  # powers of the shares cannot overflow
    return most * sum((part / most) ** power for part in parts) ** (1 / power) if most else 0.0
