"""A stretch of statements gets names of its own: every place where a name can stand, and nothing
else."""

import re

import pytest

from loopir.nodes import Body, Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.rename import renamed
from loopir.tile_order import decode
from loopir.verifier import verify
from loopir.walk import defined_names, names_made, walk
from tests.support.texts import GEMM

EVERYWHERE = """\
workspace count: i32[4]

kernel @k(A: f32[M, K], table: i32[8], out C: f32[M, 8])
    where M = 64, K = 40, P = ceildiv(K, 8) {
  grid (t) in [8] {
    let u = table[t]
    let v = u * 2 + t
    alloc acc: register f32[8]
    alloc x: shared f32[8, 8]
    alloc y: register f32[8, 8]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        load x, A[m + v % 2, k] over (m = t * 8 +: 8 < M + u, k = kp * 8 +: 8) masked
        barrier
        ewise x = mask(max(x, 0), 1, kp * 8, K - u, 7)
        ewise acc = acc + sum(x, 1)
      }
    }
    let c = 0
    while c < u and not c == 3 {
      set c = c + 1
    }
    ewise y = expand(acc, 1) + cast(f32, x)
    arrive last, count[u % 4], v + 1
    if last or u == 1 {
      for s in u .. v + 1 step 2 {
        ewise y = -y
      }
    } else {
      fill y, 0
    }
    wave w in 0 .. 2 {
      ewise y = y
    }
    store C[t * 8 +: 8, 0 +: 8], y
  }
}
"""
#: what its statements make
LOCAL = ("u", "v", "acc", "x", "y", "kp", "c", "last", "s", "w")


def body(program: Program) -> Body:
    (root,) = program.kernels[0].body
    return root.body  # pyright: ignore[reportAttributeAccessIssue]


def respelled(text: str, names: tuple[str, ...]) -> str:
    return re.sub(rf"\b({'|'.join(names)})\b", r"\1_1", text)


def test_a_name_is_replaced_wherever_it_can_stand():
    program = parse(EVERYWHERE)
    verify(program)
    assert {n for _, s in walk(body(program)) for n in names_made(s)} == set(LOCAL)
    found = renamed(body(program), defined_names(program.kernels[0]))
    assert found == body(parse(respelled(EVERYWHERE, LOCAL)))


@pytest.mark.parametrize("name", LOCAL)
def test_a_name_that_is_not_taken_stays(name: str):
    taken = set(LOCAL) - {name}
    others = tuple(n for n in LOCAL if n != name)
    found = renamed(body(parse(EVERYWHERE)), taken)
    assert found == body(parse(respelled(EVERYWHERE, others)))


def test_without_taken_names_nothing_changes():
    assert renamed(body(parse(EVERYWHERE)), ()) == body(parse(EVERYWHERE))


@pytest.mark.parametrize("name", ["add", "sub", "neg", "div", "f", "A_", "m"])
def test_a_tile_named_like_a_function_leaves_the_function(name: str):
    text = f"""\
kernel @k(A: f32[8], out C: f32[8]) {{
  grid (t) in [1] {{
    alloc {name}: register f32[8]
    load {name}, A[0 +: 8]
    ewise {name} = -({name} + 1) / ({name} - 2)
    store C[0 +: 8], {name}
  }}
}}
"""
    program = parse(text)
    verify(program)
    found = renamed(body(program), {name})
    assert found == body(parse(respelled(text, (name,))))


def test_a_buffer_of_the_same_name_elsewhere_is_no_local():
    """Parameters are no statement's: one that is called as a local would be is left alone."""
    text = GEMM.replace("A[", "a_1[").replace("A:", "a_1:")
    found = renamed(body(parse(text)), defined_names(parse(text).kernels[0]))
    program = GEMM.replace("A[", "a_1[").replace("A:", "a_1:")
    for old, new in (("a", "a_2"), ("b", "b_1"), ("acc", "acc_1"), ("kp", "kp_1")):
        program = re.sub(rf"\b{old}\b", new, program)
    assert found == body(parse(program))


def test_new_names_differ_from_each_other_and_from_those_in_use():
    text = """\
kernel @k(out C: f32[8]) {
  grid (t) in [1] {
    alloc a: register f32[8]
    alloc a_1: register f32[8]
    alloc a_1_1: register f32[8]
    fill a, 1
    fill a_1, 2
    ewise a_1_1 = a + a_1
    store C[0 +: 8], a_1_1
  }
}
"""
    program = parse(text)
    taken = {"a", "a_1", "a_1_1", "a_2", "t", "C"}
    found = renamed(body(program), taken)
    made = [n for _, s in walk(found) for n in names_made(s)]
    assert len({*made}) == 3
    assert not taken & set(made)
    (root,) = program.kernels[0].body
    both = (*body(program), *found)
    (kernel,) = program.kernels
    twice = Program((type(kernel)(kernel.name, kernel.params, (type(root)(root.axes, both),)),))  # pyright: ignore
    verify(twice)
    assert parse(to_text(twice)) == twice


def test_the_lets_of_a_grouped_order_are_renamed_too():
    program = parse(GEMM.replace("BN)] {", "BN)] order grouped(2) {"))
    (root,) = program.kernels[0].body
    lets = decode(root.axes, root.order, root.axes[0].extent)  # pyright: ignore
    found = renamed(lets, {let.name for let in lets})
    assert [let.name for let in found] == [f"{let.name}_1" for let in lets]  # pyright: ignore
    again = renamed(found, ())
    assert again == found
