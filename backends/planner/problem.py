"""What a product is: sizes, element types, layouts, what follows the sum. All that a choice of
configuration may depend on, beside the device."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from loopir.build import Activation, Epilogue, Layout
from loopir.build.arguments import accumulator_dtype, choice
from loopir.tile_types import number_mistake
from loopir.types import DType

_SIZES = re.compile(r"(\d+)x(\d+)x(\d+)")
_TYPES = re.compile(r"(\w+)->(\w+)")
_LAYOUTS = re.compile(r"(row|col)\*(row|col)")
_NUMBERS = {"alpha", "beta"}
_MOST_SIZE = 1 << 40
#: what `name=value` may say in the text of a problem
FIELDS = ("batch", *(f.name for f in fields(Epilogue)))


@dataclass(frozen=True)
class Problem:
    """C[batch, M, N] = epilogue(A[batch, M, K] @ B[batch, K, N]), without the batch if it is 1.

    m, n, k, batch: sizes from 0 to 2^40. `dtype`: of A and B; `out_dtype`: of C, that of A if not
    said. Layouts: `col` for B, the default, is the usual layout of weights, stored as [N, K]. `str`
    gives `1536x1536x4096 bf16->bf16 row*col`, with `batch=2`, `bias=bf16`, `activation=relu` and
    the other fields of an epilogue behind it; `Problem.parse` reads it. ValueError names a bad
    field.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: DType = DType.BF16
    out_dtype: DType | None = None
    a_layout: Layout = Layout.ROW_MAJOR
    b_layout: Layout = Layout.COL_MAJOR
    epilogue: Epilogue = Epilogue()  # noqa: RUF009

    def __post_init__(self) -> None:
        for name in ("m", "n", "k", "batch"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise ValueError(f"{name}: a size is an int >= 0, not {value!r}")
            if value > _MOST_SIZE:
                raise ValueError(f"{name}: a size is at most {_MOST_SIZE:,}")
        for name, kind in (("dtype", DType), ("a_layout", Layout), ("b_layout", Layout)):
            object.__setattr__(self, name, choice(kind, getattr(self, name), name))
        out = self.dtype if self.out_dtype is None else choice(DType, self.out_dtype, "out_dtype")
        object.__setattr__(self, "out_dtype", out)
        for name in sorted(_NUMBERS):
            _check_number(name, getattr(self.epilogue, name), accumulator_dtype(self.dtype))

    @property
    def result(self) -> DType:
        """The element type of C."""
        return self.out_dtype or self.dtype

    @property
    def accumulator(self) -> DType:
        """The type of the sum."""
        return accumulator_dtype(self.dtype)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def least_bytes(self) -> int:
        """Bytes of the operands and of the result, each once."""
        operands = (self.m + self.n) * self.k * self.dtype.bytes
        return self.batch * (operands + self.m * self.n * self.result.bytes)

    @property
    def rows(self) -> tuple[int, int]:
        """Elements of A and of B that lie one behind the other."""
        a = self.k if self.a_layout is Layout.ROW_MAJOR else self.m
        return a, self.n if self.b_layout is Layout.ROW_MAJOR else self.k

    def __str__(self) -> str:
        return " ".join(
            (
                f"{self.m}x{self.n}x{self.k}",
                f"{self.dtype.value}->{self.result.value}",
                f"{self.a_layout.value}*{self.b_layout.value}",
                *self._extras(),
            )
        )

    def _extras(self) -> Iterator[str]:
        if self.batch != 1:
            yield f"batch={self.batch}"
        for name, value in _said(self.epilogue).items():
            yield f"{name}={value}"

    @classmethod
    def parse(cls, text: str) -> "Problem":
        """The problem whose `str` is `text`; types and layouts may be left out, and `bf16` is
        `bf16->bf16`. ValueError: it is none."""
        words = text.split()
        sizes = _SIZES.fullmatch(words[0]) if words else None
        if sizes is None:
            raise ValueError(f"problem: {text!r} does not begin with MxNxK")
        values: dict[str, Any] = dict(zip("mnk", map(int, sizes.groups()), strict=True))
        for word in words[1:]:
            values |= _word(word)
        return cls._made(values)

    @classmethod
    def _made(cls, values: Mapping[str, Any]) -> "Problem":
        names = {f.name for f in fields(Epilogue)}
        epilogue = Epilogue(**{k: v for k, v in values.items() if k in names})
        own = {k: v for k, v in values.items() if k not in names}
        return cls(**own, epilogue=epilogue)


def _check_number(name: str, value: Any, dtype: DType) -> None:
    if type(value) not in (int, float) or value != value or abs(value) == inf:
        raise ValueError(f"{name}: a finite number, not {value!r}")
    if mistake := number_mistake(value, dtype):
        raise ValueError(f"{name}: {mistake}, the accumulator's dtype")


def _said(epilogue: Epilogue) -> dict[str, Any]:
    """The fields that differ from their default, as text or numbers."""
    given = {f.name: getattr(epilogue, f.name) for f in fields(Epilogue)}
    said = {name: v for name, v in given.items() if v != getattr(Epilogue(), name)}
    return {n: v.value if isinstance(v, DType | Activation) else v for n, v in said.items()}


def _word(word: str) -> dict[str, Any]:
    if word in {d.value for d in DType}:
        return {"dtype": word}
    if found := _TYPES.fullmatch(word):
        return {"dtype": found[1], "out_dtype": found[2]}
    if found := _LAYOUTS.fullmatch(word):
        return {"a_layout": found[1], "b_layout": found[2]}
    name, equals, value = word.partition("=")
    if not equals or name not in FIELDS:
        types = " ".join(d.value for d in DType)
        raise ValueError(
            f"problem: {word!r} is no type ({types}, or two as bf16->f32), no layouts (as row*col) "
            f"and no {'=, '.join(FIELDS)}="
        )
    try:
        return {name: _value(name, value)}
    except ValueError:
        raise ValueError(f"problem: {name} is no number in {word!r}") from None


def _value(name: str, text: str) -> int | float | str:
    if name == "batch":
        return int(text)
    if name not in _NUMBERS:
        return text
    return int(text) if text.lstrip("-").isdigit() else float(text)
