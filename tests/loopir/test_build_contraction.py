"""The nest of a contraction: against numpy's einsum."""

import numpy as np
import pytest

from loopir.build import contraction_nest
from loopir.walk import parallel_band
from tests.support import oracles

SPECS = [
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,kj->ik",
    "bij,bjk->bik",
    "ij,bjk->bik",
    "bij,jk->bik",
    "bijc,bcd->bidj",
    "abij,cjbd->acid",
    "i,i->",
    "ij,ij->",
    "i,j->ij",
    "ij,jkl->ikl",
    "ij->i",
    "ij->j",
    "ij->",
    "ij->ji",
    "ii->i",
    "ii->",
    "iij->j",
    "iji,jk->ik",
    "ij,jj->i",
    "ij,kl->ik",
    "ij,k->ik",
    "IJ,Jk->Ik",
    "AB,BC->AC",
    "za,zb->ab",
    "iI,Ii->I",
    " b i j , j k -> b i k ",
]

SIZE = {"b": 2, "c": 2, "d": 3, "j": 4, "I": 3, "J": 2, "B": 4}


def _sizes(spec: str) -> dict[str, int]:
    return {x: SIZE.get(x, 3) for x in spec.split("->")[0] if x.isalpha()}


def _einsum(spec: str, x: oracles.Arrays) -> np.ndarray:
    operands = [x[name] for name in "AB"[: spec.count(",") + 1]]
    return np.atleast_1d(np.einsum(spec, *operands))


@pytest.mark.parametrize("spec", SPECS)
def test_contraction_is_numpys(spec: str):
    program = contraction_nest(spec, _sizes(spec))
    oracles.check(program, lambda x: _einsum(spec, x))


@pytest.mark.parametrize(
    "dtype", ["f8e4m3", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64"]
)
def test_contraction_of_every_dtype(dtype: str):
    program = contraction_nest("bij,bjk->bik", {"b": 2, "i": 2, "j": 3, "k": 2}, dtype)
    oracles.check(program, lambda x: _einsum("bij,bjk->bik", x))


@pytest.mark.parametrize("out", ["f16", "bf16", "f64"])
def test_another_output_type_is_one_rounding_of_the_sum(out: str):
    program = contraction_nest("ij,jk->ik", {"i": 2, "j": 60, "k": 2}, "f16", out)
    oracles.check(program, lambda x: _einsum("ij,jk->ik", x))


def test_shapes_and_labels_give_one_program():
    by_label = contraction_nest("bij,jk->bik", {"b": 2, "i": 3, "j": 4, "k": 5})
    assert contraction_nest("bij,jk->bik", [(2, 3, 4), (4, 5)]) == by_label
    assert contraction_nest("bij,jk->bik", [(2, 3, None), (4, 5)]) == by_label
    assert contraction_nest("bij,jk->bik", [(2, 3, 4), (None, 5)]) == by_label


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_unit_sizes(size: int):
    for label in "bijk":
        program = contraction_nest("bij,jk->bik", dict.fromkeys("bijk", 2) | {label: size})
        oracles.check(program, lambda x: _einsum("bij,jk->bik", x))


def test_open_sizes_are_measured_at_launch():
    program = contraction_nest("bij,bjk->bik", dict.fromkeys("bijk"))
    sizes = {"N_b": 2, "N_i": 3, "N_j": 4, "N_k": 2}
    oracles.check(program, lambda x: _einsum("bij,bjk->bik", x), sizes=sizes)


@pytest.mark.parametrize(
    ("spec", "band"),
    [
        ("bij,bjk->bik", "bik"),
        ("bij,jk->bik", "bik"),
        ("ij,bjk->bik", "ibk"),
        ("ij,jk->ki", "ki"),
        ("bij,bjk->ikb", "bik"),
        ("bij,bjkl->kilb", "bikl"),
        ("ij->ji", "ji"),
    ],
)
def test_batches_come_first_and_the_group_of_the_last_output_label_last(spec: str, band: str):
    root = contraction_nest(spec, _sizes(spec)).kernels[0].body[0]
    assert "".join(loop.iv for _, loop in parallel_band(root, ())) == band


@pytest.mark.parametrize(
    ("spec", "sizes", "message"),
    [
        ("ij,jk", {}, "spec: letters"),
        ("ij->ik", {"i": 2, "j": 2}, "spec: output label k is in no operand"),
        ("ij->ii", {"i": 2, "j": 2}, "spec: output label i is repeated"),
        ("ij,jk,kl->il", {}, "spec: one operand or two, not 3"),
        ("i...->i", {}, "spec: letters"),
        ("ij,->i", {}, "spec: letters"),
        ("->", {}, "spec: letters"),
        ("i1->i", {}, "spec: letters"),
        ("é->é", {"é": 2}, "spec: letters"),
        ("ij,jk->ik", {"i": 2, "j": 2}, "sizes: label k has none"),
        ("ij->i", {"i": 2, "j": 2, "k": 2}, "sizes: k is no label"),
        ("ij->i", {"i": 2, "j": -1}, "sizes: a size is"),
        ("ij->i", {"i": 2, "j": 2.0}, "sizes: a size is"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "sizes: label j is 3, and 4 in operand jk"),
        ("ii->i", [(2, 3)], "sizes: label i is 2, and 3 in operand ii"),
        ("ij,jk->ik", [(2, 3)], "sizes: 2 shape"),
        ("ij->i", [(2, 3, 4)], "sizes: operand ij has 2 dimensions"),
        ("i->", [3], "sizes: operand i has 1 dimensions"),
    ],
)
def test_bad_spec_or_sizes_are_named(spec: str, sizes, message: str):
    with pytest.raises(ValueError, match=f"^{message}"):
        contraction_nest(spec, sizes)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"dtype": "bool"}, "dtype"), ({"out_dtype": 1}, "out_dtype"), ({"name": "a b"}, "name")],
)
def test_bad_argument_is_named(arguments: dict, named: str):
    with pytest.raises(ValueError, match=f"^{named}: "):
        contraction_nest("i->", {"i": 2}, **arguments)
