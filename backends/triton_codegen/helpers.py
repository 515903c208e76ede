"""Functions that an emitted file defines for itself, each only where it is called."""

_FLOOR_DIV = """\
@triton.jit
def floor_div(a, b):
    # to minus infinity for b > 0, whether `//` truncates (Triton) or floors (constants)
    q = a // b
    return tl.where(q * b > a, q - 1, q)
"""

_FLOOR_MOD = """\
@triton.jit
def floor_mod(a, b):
    # in [0, b) for b > 0, whether `%` truncates (Triton) or floors (constants)
    r = a % b
    return tl.where(r < 0, r + b, r)
"""

_OWN = """\
@triton.jit
def own(x):
    # a value of its own: Triton does not carry `y` around a loop that says `y = x` while y is x
    return x
"""

_OPAQUE = """\
@triton.jit
def opaque(n):
    # n, of which the assembler knows nothing: a loop to a known end it may unroll 64 times
    return n + tl.program_id(1)
"""

_SETTLED = """\
@triton.jit
def settled(x, bits: tl.constexpr):
    # the same value: Triton stops at a loop of sums over a loaded tile whose result has two uses
    return x.to(bits, bitcast=True).to(x.dtype, bitcast=True)
"""

_TANH = """\
@triton.jit
def tanh(x):
    # Cephes: a rational function near zero, where 1 - exp(-2x) would cancel
    z = x * x
    p = (-9.64399179425052238628e-1 * z - 9.92877231001918586564e1) * z - 1.61468768441708447952e3
    q = ((z + 1.12811678491632931402e2) * z + 2.23548839060100448583e3) * z
    small = x + x * z * (p / (q + 4.84406305325125486048e3))
    t = tl.exp(-2.0 * tl.abs(x))
    large = (1.0 - t) / (1.0 + t)
    return tl.where(tl.abs(x) < 0.625, small, tl.where(x < 0.0, -large, large))
"""

_NAN_AMAX = """\
@triton.jit
def nan_amax(x, axis: tl.constexpr):
    # `tl.max` drops NaN; here one NaN makes the result NaN, as in `max` of two tiles
    top = tl.max(tl.where(x != x, float("-inf"), x), axis)
    bad = tl.max((x != x).to(tl.int32), axis)
    return tl.where(bad > 0, float("nan"), top)
"""

_NAN_AMIN = """\
@triton.jit
def nan_amin(x, axis: tl.constexpr):
    # `tl.min` drops NaN; here one NaN makes the result NaN, as in `min` of two tiles
    low = tl.min(tl.where(x != x, float("inf"), x), axis)
    bad = tl.max((x != x).to(tl.int32), axis)
    return tl.where(bad > 0, float("nan"), low)
"""

_MULTIPLIED = """\
@triton.jit
def multiplied(a, b):
    return a * b
"""

_BOTH = """\
@triton.jit
def both(a, b):
    return a & b
"""

_EITHER = """\
@triton.jit
def either(a, b):
    return a | b
"""

_TO_INT = """\
@triton.jit
def to_int(x, dtype: tl.constexpr, low: tl.constexpr, high: tl.constexpr):
    # truncates and saturates, NaN gives 0; -low is the first value above, exact in any float type
    inside = tl.where((x > low) & (x < -(1.0 * low)), x, 0.0)
    y = tl.cast(inside, dtype)
    y = tl.where(x >= -(1.0 * low), tl.full((), high, dtype), y)
    return tl.where(x <= low, tl.full((), low, dtype), y)
"""

_TO_SLOT = """\
@triton.jit
def to_slot(x):
    # in fragment order: the four values that a thread of an MMA has of 16 x 16 lie side by side
    x = tl.reshape(x, (x.shape[0] // 16, 2, 8, x.shape[1] // 16, 2, 4, 2))
    x = tl.permute(x, (3, 1, 0, 2, 5, 4, 6))
    return tl.reshape(x, (x.numel,))
"""

_FROM_SLOT = """\
@triton.jit
def from_slot(x, rows: tl.constexpr, columns: tl.constexpr):
    # the inverse of to_slot
    x = tl.reshape(x, (columns // 16, 2, rows // 16, 8, 4, 2, 2))
    x = tl.permute(x, (2, 1, 3, 0, 5, 4, 6))
    return tl.reshape(x, (rows, columns))
"""

_AFTER_PREVIOUS = """\
@triton.jit
def after_previous():
    # of a programmatic dependent launch: the kernel before has ended, and what it stored is seen
    tl.extra.cuda.gdc_wait()
"""

_START_NEXT = """\
@triton.jit
def start_next():
    # the blocks of the next kernel may take their places; they wait before they read
    tl.extra.cuda.gdc_launch_dependents()
"""

#: what kernels that overlap call
OVERLAPPING = frozenset({"after_previous", "start_next"})

HELPERS = {
    "floor_div": _FLOOR_DIV,
    "floor_mod": _FLOOR_MOD,
    "own": _OWN,
    "opaque": _OPAQUE,
    "settled": _SETTLED,
    "to_slot": _TO_SLOT,
    "from_slot": _FROM_SLOT,
    "after_previous": _AFTER_PREVIOUS,
    "start_next": _START_NEXT,
    "tanh": _TANH,
    "nan_amax": _NAN_AMAX,
    "nan_amin": _NAN_AMIN,
    "multiplied": _MULTIPLIED,
    "both": _BOTH,
    "either": _EITHER,
    "to_int": _TO_INT,
}


def helper_text(called: set[str]) -> str:
    """The definitions of the helpers called, in a fixed order, each followed by two blank lines."""
    return "".join(f"{HELPERS[name]}\n\n" for name in HELPERS if name in called)
