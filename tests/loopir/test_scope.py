"""What names of a kernel stand for."""

from dataclasses import replace

from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import allocs, buffers, constants, launch_symbols, resized
from loopir.symbols import sym
from loopir.types import Direction, Space
from loopir.walk import defined_names, substitute_node
from tests.support.nests import MASKED_ROWS
from tests.support.stream_k_texts import LAST_ARRIVER, STREAM_K
from tests.support.texts import GEMM, edited


def kernel_of(text: str):
    return parse(text).kernels[0]


def test_constants_are_computed_from_earlier_ones():
    assert constants(kernel_of(GEMM)) == {
        "M": 96, "N": 80, "K": 100, "BM": 32, "BN": 32, "BK": 16, "P": 7,
    }  # fmt: skip


def test_what_depends_on_a_launch_symbol_is_no_constant():
    kernel = kernel_of(edited(GEMM, ("K = 100, ", "")))
    assert set(constants(kernel)) == {"M", "N", "BM", "BN", "BK"}
    assert launch_symbols(kernel) == ("K",)


def test_a_division_by_zero_is_no_constant():
    kernel = kernel_of(edited(GEMM, ("where M", "where Z = 0, Q = 5 // Z, M")))
    assert "Q" not in constants(kernel)
    assert constants(kernel)["Z"] == 0


def test_constants_keep_to_63_bits():
    text = edited(GEMM, ("where M", "where A = 4294967296, B = A * 2147483648, D = B - 1, M"))
    sizes = constants(kernel_of(text))
    assert "A" in sizes
    assert "B" not in sizes
    assert "D" not in sizes


def test_a_canonical_kernel_has_no_launch_symbols():
    assert launch_symbols(kernel_of(GEMM)) == ()
    assert launch_symbols(kernel_of(LAST_ARRIVER)) == ()


def test_unbound_symbols_of_every_place_are_launch_symbols_in_order_of_their_names():
    text = edited(
        GEMM,
        ("M = 96, ", ""),
        ("N = 80,", "N = ZETA,"),
        ("for kp in 0 .. P", "for kp in FIRST .. P"),
        ("A[ti * BM +: BM", "A[ti * BM + SHIFT +: BM"),
    )
    assert launch_symbols(kernel_of(text)) == ("FIRST", "M", "SHIFT", "ZETA")


def test_what_a_mask_reads_is_a_launch_symbol_or_bound_and_never_fresh():
    kernel = kernel_of(edited(MASKED_ROWS, ("kp * BK, K, 0", "kp * BK + SHIFT, K, 0")))
    assert launch_symbols(kernel) == ("SHIFT",)
    assert "SHIFT" in defined_names(kernel)
    renamed = substitute_node(kernel.body, {"SHIFT": sym("ti")})
    assert launch_symbols(replace(kernel, body=renamed)) == ()


def test_the_bound_of_a_launch_symbol_is_used_by_its_requirement():
    unbound = (",\n        UNITS = 132", ""), ("zeroed(C)", "zeroed(C), at_most(UNITS, LIMIT)")
    assert launch_symbols(kernel_of(edited(STREAM_K, *unbound))) == ("LIMIT", "UNITS")


def test_what_statements_make_is_no_launch_symbol():
    made = {"tile", "s", "ti", "unit", "kp", "last", "i", "w", "m", "n", "_0"}
    assert made.isdisjoint(launch_symbols(kernel_of(LAST_ARRIVER)))


def test_buffers_are_parameters_and_workspaces():
    program = parse(LAST_ARRIVER)
    found = buffers(program, program.kernels[0])
    assert list(found) == ["slots", "count", "A", "B", "order", "C", "D"]
    assert found["C"].direction is Direction.OUT


def test_allocs_are_found_in_nested_bodies():
    found = allocs(kernel_of(LAST_ARRIVER))
    assert list(found) == ["acc", "a", "b", "sum", "part", "half"]
    assert found["acc"].space is Space.FRAGMENT


def test_resized_rebinds_numbers_and_nothing_else():
    program = parse(GEMM)
    text = to_text(resized(program, {"M": 7, "P": 3, "Q": 1}))
    assert text == edited(GEMM, ("M = 96", "M = 7"))
