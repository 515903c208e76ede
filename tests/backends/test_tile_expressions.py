"""Masks, reductions along an axis and tiles of every rank: the emitted kernel against the reference
interpreter, bit for bit on small integers."""

import pytest
import torch

from backends.triton_codegen import AotKernel, compile, emit, helpers, tiles
from backends.triton_codegen.masks import Masks
from loopir.errors import CodegenError
from loopir.parser import parse
from tests.support.nests import GEMM_NEST, MASKED_ROWS
from tests.support.reference import outputs_of_both
from tests.support.texts import edited
from tests.support.tile_kernels import KERNELS, MASKS, SIZES

#: an untiled nest as a grid of one element a block
ELEMENTS = edited(
    GEMM_NEST,
    ("  parallel i in 0 .. M {\n    parallel j in 0 .. N {\n", "  grid (i, j) in [M, N] {\n"),
    ("store C[i, j], acc\n    }\n", "store C[i, j], acc\n"),
)
TEXTS = {**KERNELS, "MASKED_ROWS": MASKED_ROWS, "ELEMENTS": ELEMENTS}


def differing(text: str, target: str = "interpret") -> int:
    """How many outputs differ."""
    pairs = outputs_of_both(parse(text), target, sizes=SIZES, integer_valued=True)
    assert pairs
    return sum(not torch.equal(found, expected) for found, expected in pairs)


@pytest.mark.parametrize("name", TEXTS)
def test_emitted_kernel_computes_what_the_interpreter_does(name: str):
    assert differing(TEXTS[name]) == 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", TEXTS)
def test_compiled_kernel_computes_what_the_interpreter_does(name: str):
    assert differing(TEXTS[name], "jit") == 0


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
@pytest.mark.parametrize("name", TEXTS)
def test_kernel_compiles_ahead_without_spills(name: str, target: str):
    found = compile(parse(TEXTS[name]), target, num_warps=4)
    assert isinstance(found, AotKernel)
    assert found.spill_bytes == 0


def test_kernel_without_its_helper_does_not_compile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(helpers.HELPERS, "both", "")
    with pytest.raises(CodegenError, match="both"):
        compile(parse(TEXTS["AXES"]), "cuda:90")


# --- controls: a wrong text is seen


@pytest.mark.parametrize(
    ("helper", "right", "wrong"),
    [("multiplied", "a * b", "a + b"), ("both", "a & b", "a | b"), ("either", "a | b", "a & b")],
)
def test_a_wrong_combination_along_an_axis_is_noticed(monkeypatch, helper, right, wrong):
    monkeypatch.setitem(helpers.HELPERS, helper, edited(helpers.HELPERS[helper], (right, wrong)))
    assert differing(TEXTS["AXES"]) > 0


@pytest.mark.parametrize("name", ["MASKS", "SCALARS", "CUBE", "MASKED_ROWS"])
def test_a_mask_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(Masks, "kept", lambda *_: "")
    assert differing(TEXTS[name]) > 0


def test_the_other_half_is_noticed(monkeypatch: pytest.MonkeyPatch):
    half = tiles._half
    monkeypatch.setattr(tiles, "_half", lambda *args: half(*args[:-1], 1 - args[-1]))
    assert differing(TEXTS["PARTS"]) > 0


def test_a_mask_in_32_bits_is_noticed(monkeypatch: pytest.MonkeyPatch):
    kept = Masks.kept
    monkeypatch.setattr(Masks, "kept", lambda *args: kept(*args).replace("int64", "int32"))
    with pytest.raises(CodegenError, match="4294967291 is out of range for type int32"):
        differing(MASKS)


# --- the text


def body(text: str) -> str:
    whole = emit(parse(text)).source
    return whole[whole.rindex("@triton.jit") : whole.index("def _fail")]


def test_a_mask_that_holds_everywhere_is_left_out():
    assert "tl.where(" in body(MASKED_ROWS)
    assert "tl.where(" not in body(edited(MASKED_ROWS, ("K = 22", "K = 24")))
    assert "tl.where(" not in body(edited(MASKED_ROWS, ("kp * BK, K, 0", "0, BK, 0")))
    assert "tl.where(" in body(edited(MASKED_ROWS, ("kp * BK, K, 0", "0, BK - 1, 0")))


def test_a_mask_counts_in_64_bits_along_its_axis():
    kept = "(BK * kp + tl.arange(0, 8))[None, :] < K"
    assert kept in body(MASKED_ROWS).replace("kp * BK", "BK * kp")
    constant = body(edited(MASKED_ROWS, (", 1, kp * BK, K,", ", 0, 0, M // 4,")))
    assert "tl.where(tl.cast(tl.arange(0, 4), tl.int64)[:, None] < M // 4, " in constant


def test_a_copy_of_one_element_is_a_value_of_its_own():
    assert "x = own(last)" in body(TEXTS["SCALARS"])
    assert "last = tl.full((), 0.5, tl.float32)" in body(TEXTS["SCALARS"])


def test_helpers_stand_in_the_file_only_where_they_are_called():
    assert {"def multiplied(", "def both(", "def either("} <= {
        line[: line.index("(") + 1] for line in emit(parse(TEXTS["AXES"])).source.splitlines()
        if line.startswith("def ")
    }  # fmt: skip
    assert "def both(" not in emit(parse(TEXTS["CUBE"])).source


def test_space_of_a_tile_changes_nothing():
    assert body(ELEMENTS.replace("local", "register")) == body(ELEMENTS)
    assert body(ELEMENTS.replace("a: local", "a: shared")) == body(ELEMENTS)


def test_parallel_loop_is_refused_with_its_line_and_the_way_out():
    with pytest.raises(CodegenError) as error:
        emit(parse(GEMM_NEST))
    lines = str(error.value).splitlines()
    assert "run `offload` first" in lines[0]
    at = next(i for i, line in enumerate(lines) if "parallel i in 0 .. M" in line)
    assert lines[at + 1].index("^") == lines[at].index("parallel")
    emit(parse(ELEMENTS))
