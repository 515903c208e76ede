"""The untiled nest of a tensor contraction that an einsum string names."""

import re
from collections.abc import Iterable, Mapping, Sequence

from loopir.build.arguments import check_name, check_sizes, dtypes, sum_dtype
from loopir.build.epilogue import Output, Place, writeback
from loopir.build.nest import Accumulated, Nest, Operand, param
from loopir.nodes import Program
from loopir.types import DType, ReduceOp

Sizes = Mapping[str, int | None] | Sequence[Sequence[int | None]]

_OPERANDS = {"A": "lhs", "B": "rhs"}


def contraction_nest(
    spec: str,
    sizes: Sizes,
    dtype: DType | str = DType.BF16,
    out_dtype: DType | str | None = None,
    name: str = "contraction",
) -> Program:
    """C = `numpy.einsum(spec, A, B)`, or of A alone: `"bij,bjk->bik"`.

    `spec`: labels are letters; one that an operand repeats is its diagonal; one that is not in the
    output is summed. `sizes`: of each label, or the shape of each operand; None leaves a size open.
    An output without labels is C[1]. Any float or integer type, accumulated in f32 or i32 at least.
    ValueError names a bad argument.
    """
    check_name(name)
    dtype, acc, out_dtype = dtypes(dtype, out_dtype, sum_dtype)
    inputs, output = _labels(spec)
    known = _sizes(inputs, sizes)
    buffers = dict(zip(_OPERANDS, inputs, strict=False))
    operands = tuple(
        Operand(_OPERANDS[buffer], dtype, f"{buffer}[{_list(map(_iv, labels))}]")
        for buffer, labels in buffers.items()
    )
    band = _band(inputs, output)
    at = _list(map(_iv, output)) or "one"
    out = Output("C", out_dtype, _list(map(_size, output)) or "1", Place(f"[{at}]"))
    back = writeback("acc", acc, out)
    summed = [label for label in dict.fromkeys("".join(inputs)) if label not in output]
    return Nest(
        name,
        (
            *(param(b, dtype, _list(map(_size, labels))) for b, labels in buffers.items()),
            *back.params,
        ),
        {_size(label): known[label] for label in known},
        {_iv(label): _size(label) for label in band} or {"one": "1"},
        {_iv(label): _size(label) for label in summed} or {"one": "1"},
        operands,
        (Accumulated("acc", ReduceOp.ADD, acc, " * ".join(o.as_(acc) for o in operands)),),
        back.lines,
    ).program()


def _iv(label: str) -> str:
    """A label's loop variable; A, B and C are buffers."""
    return label if label.islower() else f"{label}_"


def _size(label: str) -> str:
    return f"N_{label}"


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _labels(spec: str) -> tuple[list[str], str]:
    """The labels of each operand, and of the output."""
    match = re.fullmatch(
        r"([A-Za-z]+(?:,[A-Za-z]+)*)->([A-Za-z]*)", spec.replace(" ", ""), re.ASCII
    )
    if match is None:
        raise ValueError(f"spec: letters, as in 'ij,jk->ik', not {spec!r}")
    inputs, output = match[1].split(","), match[2]
    if len(inputs) > len(_OPERANDS):
        raise ValueError(f"spec: one operand or two, not {len(inputs)}, in {spec!r}")
    for label in output:
        if label not in match[1]:
            raise ValueError(f"spec: output label {label} is in no operand of {spec!r}")
        if output.count(label) > 1:
            raise ValueError(f"spec: output label {label} is repeated in {spec!r}")
    return inputs, output


def _sizes(inputs: Sequence[str], sizes: Sizes) -> dict[str, int | None]:
    """The size of each label, in the order of their first use."""
    labels = dict.fromkeys("".join(inputs))
    found = dict(sizes) if isinstance(sizes, Mapping) else _measured(inputs, sizes)
    for label in labels:
        if label not in found:
            raise ValueError(f"sizes: label {label} has none")
    for label in found:
        if label not in labels:
            raise ValueError(f"sizes: {label} is no label of an operand")
        check_sizes({"sizes": found[label]})
    return {label: found[label] for label in labels}


def _measured(
    inputs: Sequence[str], shapes: Sequence[Sequence[int | None]]
) -> dict[str, int | None]:
    """Sizes by label, from the shape of each operand; open only where every shape leaves it so."""
    if len(shapes) != len(inputs):
        raise ValueError(f"sizes: {len(inputs)} shape(s), one for each operand, not {len(shapes)}")
    found: dict[str, int | None] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        if not isinstance(shape, Sequence) or len(labels) != len(shape):
            raise ValueError(f"sizes: operand {labels} has {len(labels)} dimensions, not {shape!r}")
        for label, size in zip(labels, shape, strict=True):
            known = found.setdefault(label, size)
            if None not in (known, size) and known != size:
                raise ValueError(f"sizes: label {label} is {known}, and {size} in operand {labels}")
            found[label] = size if known is None else known
    return found


def _band(inputs: Sequence[str], output: str) -> str:
    """The output's labels in an order that tiles well: batches, which every operand has; labels of
    the operand that lacks the last of the others; those of the other operand, a tile's columns."""
    owners = {label: [label in labels for labels in inputs] for label in output}
    own = [label for label in output if not all(owners[label])]
    return "".join(sorted(output, key=lambda x: x in own and 1 + (owners[x] == owners[own[-1]])))
