"""Untiled nests that combine the elements of one tensor along axes."""

from collections.abc import Mapping, Sequence

from loopir.build.arguments import check_name, check_sizes, choice, dtypes, sum_dtype
from loopir.build.epilogue import Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp


def reduction_nest(
    op: ReduceOp | str,
    shape: Sequence[int | None],
    axes: int | Sequence[int],
    dtype: DType | str = DType.F32,
    out_dtype: DType | str | None = None,
    name: str = "reduction",
) -> Program:
    """Y = the elements of X[shape] combined along `axes` by add, mul, max, min, and, or.

    Y has the other axes, in order, or is Y[1] if there is none. Floats combine in f32 at least,
    integers in i32 at least under add and mul, else in their own type; `and` and `or` are bitwise,
    of integers only. `axes` may be negative. Sizes >= 0, or None to leave them open; combining
    nothing gives the operator's identity. ValueError names a bad argument.
    """
    op = choice(ReduceOp, op, "op")
    if not op.is_associative:
        raise ValueError(f"op: {op.value} depends on the order of elements")
    return _nest({"acc": op}, ("Y",), shape, axes, (dtype, out_dtype), name)


def sum_and_max_nest(
    shape: Sequence[int | None],
    axes: int | Sequence[int],
    dtype: DType | str = DType.F32,
    out_dtype: DType | str | None = None,
    name: str = "sum_and_max",
) -> Program:
    """SUM and MAX: the sum and the largest of the elements of X[shape] along `axes`, in one pass.

    Both outputs have one type, as `reduction_nest` says of add. ValueError names a bad argument.
    """
    ops = {"total": ReduceOp.ADD, "top": ReduceOp.MAX}
    return _nest(ops, ("SUM", "MAX"), shape, axes, (dtype, out_dtype), name)


def _nest(
    ops: Mapping[str, ReduceOp],
    outputs: tuple[str, ...],
    shape: Sequence[int | None],
    axes: int | Sequence[int],
    types: tuple[DType | str, DType | str | None],
    name: str,
) -> Program:
    """`ops` by accumulator, each of which goes to one of `outputs`."""
    check_name(name)
    for size in shape:
        check_sizes({"shape": size})
    every = range(len(shape))
    gone = _axes(axes, len(shape))
    kept = [i for i in every if i not in gone]
    dtype, acc, out_dtype = dtypes(*types, lambda d: _accumulator(d, *ops.values()))
    x = Operand("x", dtype, f"X[{_list('i', every)}]")
    out_shape, at = _list("N", kept) or "1", _list("i", kept) or "one"
    outs = (
        Output(o, out_dtype, out_shape, Place(f"[{at}]"), suffix=f"{i or ''}")
        for i, o in enumerate(outputs)
    )
    backs = [writeback(tile, acc, out) for tile, out in zip(ops, outs, strict=True)]
    return Nest(
        name,
        (param("X", dtype, _list("N", every)), *(p for back in backs for p in back.params)),
        {f"N{i}": size for i, size in enumerate(shape)},
        {f"i{n}": f"N{n}" for n in kept} or {"one": "1"},
        {f"i{n}": f"N{n}" for n in gone},
        (x,),
        tuple(Accumulated(tile, op, acc, x.as_(acc)) for tile, op in ops.items()),
        tuple(line for back in backs for line in back.lines),
    ).program()


def _list(letter: str, numbers: Sequence[int]) -> str:
    return ", ".join(f"{letter}{n}" for n in numbers)


def _axes(axes: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes that disappear, in order, counted from the front."""
    given = (axes,) if isinstance(axes, int) else tuple(axes)
    if any(type(a) is not int or not -rank <= a < rank for a in given):
        raise ValueError(f"axes: ints in {-rank} .. {rank - 1}, not {axes!r}")
    found = sorted({a % rank for a in given})
    if not given or len(found) != len(given):
        raise ValueError(f"axes: one or more, each once, not {axes!r}")
    return tuple(found)


def _accumulator(dtype: DType, *ops: ReduceOp) -> DType:
    bitwise = {ReduceOp.AND, ReduceOp.OR} & set(ops)
    if bitwise and not dtype.is_int:
        raise ValueError(f"dtype: and, or are of integers, not {dtype.value}")
    grows = {ReduceOp.ADD, ReduceOp.MUL} & set(ops)
    return dtype if dtype.is_int and not grows else sum_dtype(dtype)
