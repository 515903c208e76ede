"""Tensors, which nobody reads, for the product of `bundles.three_programs`."""

from backends.triton_codegen.bundle import Array

A, B, C, ELSEWHERE = 1 << 20, 2 << 20, 3 << 20, 5 << 20
M, N, K = 100, 72, 136


def product(m: int = M, n: int = N, k: int = K, **changes: Array) -> list[Array]:
    """A [M, K], B [K, N] dense, C [M, N]."""
    arrays = {
        "a": Array(A, "bf16", (m, k), (k, 1)),
        "b": Array(B, "bf16", (k, n), (n, 1)),
        "c": Array(C, "f32", (m, n), (n, 1)),
    }
    return [*(arrays | changes).values()]
