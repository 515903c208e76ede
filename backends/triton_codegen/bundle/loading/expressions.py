"""Evaluates the expressions of a manifest for one launch."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from backends.triton_codegen.bundle.loading.arrays import Array
from backends.triton_codegen.bundle.loading.errors import LaunchError
from backends.triton_codegen.bundle.loading.model import Expression, Tree


@dataclass
class Sizes:
    """What expressions are made of: values by name, the tensors of a launch, and addresses."""

    arrays: Mapping[str, Array]
    values: dict[str, int] = field(default_factory=dict)
    addresses: Mapping[str, int] = field(default_factory=dict)

    def of(self, expression: Expression) -> int:
        """The value. LaunchError: more than 64 bits, or a divisor that is not positive."""
        try:
            return self._value(expression.tree)
        except ZeroDivisionError:
            raise LaunchError(f"{expression.text}: expected positive divisors") from None
        except OverflowError:
            raise LaunchError(f"{expression.text}: expected 64 bits at most") from None

    def _value(self, tree: Tree) -> int:
        match tree:
            case int():
                return tree
            case str():
                return self.values[tree]
            case ("address", buffer):
                return self.addresses[buffer]
            case ("extent", parameter, dim):
                return self.arrays[parameter].shape[dim]
            case ("stride", parameter, dim):
                return self.arrays[parameter].strides[dim]
        value = _OPERATIONS[tree[0]](*map(self._value, tree[1:]))
        if not -(2**63) <= value < 2**63:
            raise OverflowError
        return value


def _divided(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def checked(top: int, bottom: int) -> int:
        if bottom < 1:
            raise ZeroDivisionError
        return operation(top, bottom)

    return checked


_OPERATIONS: dict[str, Callable[..., int]] = {
    "add": lambda *terms: sum(terms),
    "mul": lambda *factors: math.prod(factors),
    "min": min,
    "max": max,
    "sub": operator.sub,
    "floordiv": _divided(operator.floordiv),
    "ceildiv": _divided(lambda top, bottom: -(-top // bottom)),
    "mod": _divided(operator.mod),
}
