"""Element types of the IR in Triton and in torch, and what each can do on a device."""

from loopir.types import DType, ReduceOp

TRITON_NAME = {
    DType.F8E4M3: "float8e4nv",
    DType.F8E5M2: "float8e5",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.F32: "float32",
    DType.F64: "float64",
    DType.I8: "int8",
    DType.I16: "int16",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.BOOL: "int1",
}

#: how a compiled signature spells a pointer to it
SIGNATURE_NAME = {
    DType.F8E4M3: "fp8e4nv",
    DType.F8E5M2: "fp8e5",
    DType.F16: "fp16",
    DType.BF16: "bf16",
    DType.F32: "fp32",
    DType.F64: "fp64",
    DType.I8: "i8",
    DType.I16: "i16",
    DType.I32: "i32",
    DType.I64: "i64",
    DType.BOOL: "i1",
}

TORCH_NAME = {
    DType.F8E4M3: "float8_e4m3fn",
    DType.F8E5M2: "float8_e5m2",
    DType.F16: "float16",
    DType.BF16: "bfloat16",
    DType.F32: "float32",
    DType.F64: "float64",
    DType.I8: "int8",
    DType.I16: "int16",
    DType.I32: "int32",
    DType.I64: "int64",
    DType.BOOL: "bool",
}

_INTS = (DType.I32, DType.I64)
_FLOATS = (DType.F32, DType.F64)

#: types that Triton has the read-modify-write for; bf16 needs sm_90, and the interpreter has none
ATOMIC_DTYPES = {
    ReduceOp.ADD: (DType.F16, DType.BF16, *_FLOATS, *_INTS),
    ReduceOp.MAX: (*_FLOATS, *_INTS),
    ReduceOp.MIN: (*_FLOATS, *_INTS),
    ReduceOp.AND: _INTS,
    ReduceOp.OR: _INTS,
}


def triton_dtype(dtype: DType) -> str:
    """`tl.float32` and so on."""
    return f"tl.{TRITON_NAME[dtype]}"


def full_text(shape: str, value: int | float, dtype: DType) -> str:
    """A tile of `shape` (its text) filled with `cast(dtype, value)`, rounded once."""
    value = converted(value, dtype)
    if dtype.computes or value == 0:
        return f"tl.full({shape}, {number_text(value, dtype)}, {triton_dtype(dtype)})"
    # what Triton fills with is a float32; a value of the type is one exactly
    filled = f"tl.full({shape}, {number_text(value, DType.F32)}, tl.float32)"
    return f"tl.cast({filled}, {triton_dtype(dtype)})"


def converted(value: int | float, dtype: DType) -> int | float | bool:
    """`cast(dtype, value)` of a number: rounded once, from all its digits."""
    from loopir.interp.formats import number, rounded  # numpy, which emitting else does not need

    wide = DType.F64 if isinstance(value, float) else DType.I64
    return rounded(number(value, wide), dtype).item()


def number_text(value: int | float, dtype: DType) -> str:
    """A number as Triton source, of the kind (float, integer, boolean) that `dtype` is."""
    if not dtype.is_float:
        return str(bool(value) if dtype is DType.BOOL else int(value))
    value = float(value)
    if value - value != 0:
        return f'float("{value}")'
    return repr(value)
