"""V40: what a caller can build in Python and no text says is refused, and nothing crashes on it."""

from dataclasses import replace

import numpy as np
import pytest
import sympy

from loopir.errors import VerifyError
from loopir.nodes import (
    Access,
    AllOf,
    Apply,
    AxisReduce,
    Binding,
    Cmp,
    Ewise,
    Fill,
    For,
    If,
    Let,
    Literal,
    Load,
    Mask,
    Part,
    Program,
    TileAxis,
    TileOrder,
    TileRef,
)
from loopir.parser import parse
from loopir.symbols import sym, to_expr
from loopir.types import OrderKind, ReduceOp
from loopir.verifier import verify, violations

BASE = parse("""\
kernel @k(A: f32[32], out C: f32[32]) {
  grid (g) in [1] {
    alloc a: register f32[32]
    load a, A[0 +: 32]
    store C[0 +: 32], a
  }
}
""")
A = TileRef("a")
BELOW = Cmp("<", sym("g"), to_expr(3))
ONE = Fill("a", Literal(1))


def with_statement(stmt) -> Program:
    kernel = BASE.kernels[0]
    grid = kernel.body[0]
    body = (*grid.body[:2], stmt, grid.body[2])
    return Program((replace(kernel, body=(replace(grid, body=body),)),))


def loading(axis: TileAxis) -> Load:
    return Load("a", Access("A", (sym(axis.name),), (axis,)))


def nested(depth: int):
    return ONE if depth == 0 else If(BELOW, (nested(depth - 1),))


STATEMENTS = {
    "unknown function": Ewise("a", Apply("foo", (A,))),
    "three operands": Ewise("a", Apply("add", (A, A, A))),
    "one operand": Ewise("a", Apply("add", (A,))),
    "no operand": Ewise("a", Apply("add", ())),
    "two arguments": Ewise("a", Apply("exp", (A, A))),
    "difference along an axis": Ewise("a", Apply("add", (A, AxisReduce(ReduceOp.SUB, A, 0)))),
    "mask from an int": Ewise("a", Mask(A, 0, 0, sym("M"), Literal(0))),  # pyright: ignore
    "mask with a float axis": Ewise("a", Mask(A, 0.0, sym("M"), sym("M"), Literal(0))),  # pyright: ignore
    "mask with nan": Ewise("a", Mask(A, 0, sym("M"), sym("M"), Literal(float("nan")))),
    "part from an expression": Ewise("a", Part(A, 0, sym("M"), 2)),  # pyright: ignore
    "part of many": Ewise("a", Part(A, 0, 0, 2**64)),
    "nan": Fill("a", Literal(float("nan"))),
    "huge number": Fill("a", Literal(10**30)),
    "huge expression": Let("x", sympy.Integer(2**70)),
    "float expression": Let("x", sympy.Float(2.5)),
    "int expression": Let("x", 3),
    "str expression": Let("x", "g"),
    "int bounds": For("i", 0, 4, 1, (ONE,)),
    "int in a comparison": If(Cmp("<", sym("g"), 3), (ONE,)),
    "conjunction of none": If(AllOf(()), (ONE,)),
    "conjunction of one": If(AllOf((BELOW,)), (ONE,)),
    "numpy number": Fill("a", Literal(np.float32(0.5))),
    "numpy double": Fill("a", Literal(np.float64(0.5))),
    "a body that is a list": If(BELOW, [ONE]),
    "a name that is none": Let(None, to_expr(1)),
    "sixty nested ifs": nested(60),
    "huge power": Let("x", sym("g") ** 70000),
}


@pytest.mark.parametrize("stmt", STATEMENTS.values(), ids=STATEMENTS)
def test_statement_without_a_text_is_refused(stmt):
    program = with_statement(stmt)
    assert violations(program)
    with pytest.raises(VerifyError):
        verify(program)


def test_what_text_would_change_is_shown():
    found = violations(with_statement(If(AllOf((BELOW,)), (ONE,))))
    assert [v.rule for v in found] == ["V40"]
    assert "reads back as another program, at: if g < 3" in found[0].message


@pytest.mark.parametrize(
    "change",
    [
        {"where": (Binding("Q", sym("x y")),)},
        {"where": (Binding("Q", sym('x"\nimport os')),)},
        {"name": 'k"""'},
        {"params": list(BASE.kernels[0].params)},
    ],
)
def test_header_without_a_text_is_refused(change):
    assert violations(Program((replace(BASE.kernels[0], **change),)))


def test_order_that_the_text_drops_is_refused():
    kernel = BASE.kernels[0]
    grid = replace(kernel.body[0], order=TileOrder(OrderKind.ALONG_N, 7))
    assert violations(Program((replace(kernel, body=(grid,)),)))


@pytest.mark.parametrize("other", ["text", None, BASE.kernels[0], (BASE,)])
def test_what_is_no_program_is_named(other):
    with pytest.raises(VerifyError, match="a Program is needed, not"):
        verify(other)


def test_control_the_same_statements_said_rightly_are_accepted():
    for stmt in (
        Ewise("a", Apply("add", (A, A))),
        Let("x", to_expr(3)),
        If(AllOf((BELOW, BELOW)), (ONE,)),
        For("i", to_expr(0), to_expr(4), to_expr(1), (ONE,)),
        loading(TileAxis("_0", to_expr(0), to_expr(32))),
    ):
        assert violations(with_statement(stmt)) == ()
