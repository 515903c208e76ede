"""Small kernels for tests of the interpreter."""

import numpy as np

from loopir.interp import rounded, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.types import DType
from loopir.verifier import verify


def one_block(params: str, body: str, where: str = "") -> Program:
    """A verified kernel of one block; `body` is its statements, one a line."""
    return kernel(params, f"grid (t) in [1] {{\n{body}\n}}", where)


def kernel(params: str, body: str, where: str = "") -> Program:
    """A verified kernel; `where` includes any further clause."""
    clause = f"\n    where {where}" if where else ""
    program = parse(f"kernel @k({params}){clause} {{\n{body}\n}}\n")
    verify(program)
    return program


def mapped(expr: str, source: str, target: str, values: np.ndarray) -> np.ndarray:
    """`ewise y = expr` where tile x holds `values`; x is `source`, y is `target`."""
    (n,) = values.shape
    body = f"""
        alloc x: register {source}[{n}]
        alloc y: register {target}[{n}]
        load x, X[0 +: {n}]
        ewise y = {expr}
        store Y[0 +: {n}], y"""
    program = one_block(f"X: {source}[{n}], out Y: {target}[{n}]", body)
    out = rounded(np.zeros(n), DType(target))
    run(program, {"X": rounded(values, DType(source)), "Y": out})
    return out


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have one type, one shape and the same bits, signs of zero included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
