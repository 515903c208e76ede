"""Which element types have a device atomic add, by compile target."""

from loopir.types import DType

_EVERYWHERE = frozenset({DType.F32, DType.F64, DType.F16, DType.I32, DType.I64})
_WITH_BF16 = _EVERYWHERE | {DType.BF16}

#: target -> element types with a native atomic add in global memory (PTX ISA, `atom`: bf16 from
#: sm_90 on; gfx942 has packed bf16 and fp16 only, so plain fp16 is left out there)
ATOMIC_ADD = {
    "cuda:80": _EVERYWHERE,
    "cuda:86": _EVERYWHERE,
    "cuda:89": _EVERYWHERE,
    "cuda:90": _WITH_BF16,
    "cuda:100": _WITH_BF16,
    "cuda:120": _WITH_BF16,
    "hip:gfx942": _EVERYWHERE - {DType.F16},
    "hip:gfx950": _EVERYWHERE - {DType.F16},
}


def has_atomic_add(dtype: DType, target: str) -> bool:
    """Whether `target`, a key of ATOMIC_ADD, adds `dtype` atomically in global memory."""
    return dtype in ATOMIC_ADD[target]
