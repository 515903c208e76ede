"""The launcher in C checks tensors and workspace, with a code and a text for each mistake."""

from typing import Any

import pytest

from tests.support.c_launcher import Launcher, Tensor, codes, launcher_of, needs_gcc
from tests.support.manifests import (
    computed,
    condition,
    kernel,
    parameter,
    part,
    program,
    variant,
    workspace,
)

pytestmark = needs_gcc
CODES = codes()
A, C = 4096, 65536


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """C[M, N] of A[M, K], with 256 bytes of counters and 512 of tiles."""
    m, k, n = ["extent", "A", 0], ["extent", "A", 1], ["extent", "C", 1]
    parameters = [parameter("A", m, k, dtype="f16"), parameter("C", m, n, out=True)]
    room = workspace(256, 512, part("s", "counters", 0, 4), part("t", "tiles", 256, 40))
    whole = kernel(["ceildiv", m, 16], variant("k"), zeroed=["C", "t"])
    return launcher_of(
        tmp_path_factory,
        program(parameters=parameters, disjoint=[["C", "A"]], workspace=room, kernels=[whole]),
    )


ROOM = "workspace 1048576 768 0 1"


def launched(product: Launcher, a: Any, c: Any, *commands: str) -> Any:
    tensors = [t.command for t in (a, c) if isinstance(t, Tensor)]
    return product.launch("p", *tensors, *(commands or (ROOM,)))


def half(*sizes: int, data: int = A, strides: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(data, sizes, "f16", strides)


def full(*sizes: int, data: int = C, strides: tuple[int, ...] | None = None) -> Tensor:
    return Tensor(data, sizes, "f32", strides)


WRONG = {
    "one tensor": (half(8, 4), None, "WRONG_COUNT", "@p: expected 2 tensors, got 1"),
    "dtype": (full(8, 4), full(8, 6), "WRONG_DTYPE", "A: expected f16, got f32"),
    "rank": (half(8), full(8, 6), "WRONG_RANK", "A: expected 2 dimensions, got 1"),
    "null": (half(8, 4, data=0), full(8, 6), "NULL_POINTER", "A: a null pointer"),
    "size": (half(8, 4), full(9, 6), "WRONG_SIZE", "C: expected 8 along dimension 0, got 9"),
    "negative size": (half(-8, 4), full(8, 6), "WRONG_SIZE", "A: dimension 0 has a negative"),
    "odd address": (half(8, 4, data=A + 1), full(8, 6), "MISALIGNED", "A: expected an address"),
    "stride": (
        half(8, 4, strides=(1, 8)),
        full(8, 6),
        "WRONG_STRIDE",
        "A: expected stride 1 in dimension 1, got 8",
    ),
    "negative stride": (
        half(8, 4, strides=(-4, 1)),
        full(8, 6),
        "WRONG_STRIDE",
        "A: dimension 0 has a negative stride",
    ),
    "overlapping rows": (
        half(8, 4),
        full(8, 6, strides=(5, 1)),
        "WRONG_STRIDE",
        "C: expected elements that do not overlap",
    ),
    "expanded output": (
        half(8, 4),
        full(8, 6, strides=(0, 1)),
        "WRONG_STRIDE",
        "C: expected elements that do not overlap",
    ),
    "shared memory": (
        half(8, 4),
        full(8, 6, data=A + 60),
        "WRONG_STRIDE",
        "C: expected memory of its own, got bytes of A",
    ),
    "beyond all memory": (
        half(8, 4, strides=(2**60, 1)),
        full(8, 6),
        "OVERFLOW",
        "A: does not fit in 63 bits",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_tensor_is_named_and_nothing_is_enqueued(product: Launcher, case: str):
    a, c, code, text = WRONG[case]
    outcome = launched(product, a, c)
    assert (outcome.code("launch"), outcome.enqueued) == (CODES[code], [])
    assert outcome.said[-1].detail.startswith(text)


RIGHT = {
    "plain": (half(8, 4), full(8, 6)),
    "padded rows": (half(8, 4, strides=(9, 1)), full(8, 6, strides=(7, 1))),
    "expanded input": (half(8, 4, strides=(0, 1)), full(8, 6)),
    "stride of one row": (half(1, 4, strides=(0, 1)), full(1, 6, strides=(0, 1))),
    "stride of one column": (half(8, 1, strides=(4, 17)), full(8, 1)),
    "behind the input": (half(8, 4), full(8, 6, data=A + 64)),
    "in front of it": (half(8, 4, data=C + 192), full(8, 6)),
    "f16 at two bytes": (half(8, 4, data=A + 2), full(8, 6)),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_tensor_one_step_from_wrong_is_taken(product: Launcher, case: str):
    outcome = launched(product, *RIGHT[case])
    assert outcome.code("launch") == 0, outcome.said
    assert len(outcome.launches) == 1


def test_an_empty_tensor_may_be_null_and_its_strides_are_not_looked_at(product: Launcher):
    empty = half(0, 4, data=0, strides=(-1, 9)), full(0, 6, data=0, strides=(0, 0))
    outcome = launched(product, *empty)
    assert (outcome.code("launch"), outcome.enqueued) == (0, [])
    no_columns = launched(product, half(8, 0, data=0), full(8, 6))
    assert len(no_columns.launches) == 1


# --- workspace

BAD_ROOMS = {
    "none": ("stream 0", "NULL_POINTER", "workspace: a null pointer"),
    "null": ("workspace 0 768 0 0", "NULL_POINTER", "workspace: a null pointer"),
    "small": ("workspace 1048576 767 0 0", "WORKSPACE_TOO_SMALL", "workspace: expected 256 bytes"),
    "few counters": (
        "workspace 1048576 4096 128 0",
        "WORKSPACE_TOO_SMALL",
        "workspace: expected a",
    ),
    "odd counters": (
        "workspace 1048576 4096 300 0",
        "WORKSPACE_TOO_SMALL",
        "workspace: expected a",
    ),
    "many counters": ("workspace 1048576 768 512 0", "WORKSPACE_TOO_SMALL", "workspace: expected"),
    "misaligned": ("workspace 1048584 768 0 0", "MISALIGNED", "workspace: expected an address"),
    "shared": (f"workspace {A - 704} 768 0 0", "WRONG_STRIDE", "workspace: expected memory of its"),
}


@pytest.mark.parametrize("case", BAD_ROOMS)
def test_a_wrong_workspace_is_named_and_nothing_is_enqueued(product: Launcher, case: str):
    command, code, text = BAD_ROOMS[case]
    outcome = launched(product, half(8, 4), full(8, 6), command)
    assert (outcome.code("launch"), outcome.enqueued) == (CODES[code], [])
    assert outcome.said[-1].detail.startswith(text)


@pytest.mark.parametrize(
    "command", ["workspace 1048592 768 0 0", f"workspace {A - 768} 768 0 0", ROOM]
)
def test_a_workspace_one_step_from_wrong_is_taken(product: Launcher, command: str):
    assert launched(product, half(8, 4), full(8, 6), command).code("launch") == 0


@pytest.mark.parametrize(
    "room", ["workspace 8192 18446744073709551615 0 1", "workspace 8192 4096 0 1"]
)
def test_a_workspace_that_ends_beyond_all_memory_shares_it(product: Launcher, room: str):
    outcome = launched(product, half(8, 4), full(8, 6), room)
    is_whole = room.split()[2] != "4096"
    assert outcome.code("launch") == (CODES["WRONG_STRIDE"] if is_whole else 0)


def test_a_launch_that_needs_no_byte_of_a_workspace_looks_at_none(
    tmp_path_factory: pytest.TempPathFactory,
):
    """Nor at the one of the launch before."""
    size = ["mul", "N", 4]
    rows = parameter("C", ["extent", "C", 0], out=True)
    whole = program(
        parameters=[rows],
        values=[computed("N", ["floordiv", ["extent", "C", 0], 2])],
        workspace=workspace(0, ["mul", 256, ["ceildiv", size, 256]], part("t", "tiles", 0, size)),
        kernels=[kernel(1, variant("k"), zeroed=["t"])],
    )
    found = launcher_of(tmp_path_factory, whole)
    large, small = (f"tensor {C} 4 1 {n} 1" for n in (20, 1))
    room = "workspace 1048576 768 0 1"
    outcome = found.launch("p", large, room, "launch", "clear", small, room)
    assert outcome.code("launch") == 0
    zeroed = [(c["start"], c["width"]) for c in outcome.enqueued if c["call"] == "memset"]
    assert zeroed == [(1048576, 40)]


def test_bytes_are_told_before_a_launch(product: Launcher):
    setup = (f"open {product.bundle}", "find p", half(8, 4).command, full(8, 6).command)
    assert product.run(*setup, "bytes").lines[-1] == "= 256 512"
    idle = (*setup[:2], half(0, 4).command, full(0, 6).command)
    assert product.run(*idle, "bytes").lines[-1] == "= 0 0"


ZEROED = {
    "counters of the launch": ("workspace 1048576 768 0 0", [(1048576, 256)], 1048576 + 512),
    "of a larger region": ("workspace 1048576 4096 1024 0", [(1048576, 256)], 1048576 + 1280),
    "promised to be zero": ("workspace 1048576 4096 1024 1", [], 1048576 + 1280),
}


@pytest.mark.parametrize("case", ZEROED)
def test_counters_are_zeroed_unless_the_caller_says_that_they_are_zero(
    product: Launcher, case: str
):
    command, counters, tiles = ZEROED[case]
    outcome = launched(product, half(8, 4), full(8, 6), command)
    found = [(c["start"], c["width"]) for c in outcome.enqueued if c["call"] == "memset"]
    assert found == [*counters, (C, 8 * 6 * 4), (tiles, 40)]
    assert outcome.enqueued[-1]["call"] == "launch"


# --- zeroing: elements, and no byte between them


@pytest.mark.parametrize(
    ("sizes", "strides", "calls"),
    [
        ((2, 3, 4), (12, 4, 1), 1),
        ((2, 3, 4), (20, 4, 1), 1),
        ((2, 3, 4), (20, 5, 1), 2),
        ((2, 3, 4), (1, 2, 6), 1),
        ((2, 3, 4), (1, 5, 15), 1),
        ((3, 2, 4), (100, 10, 2), 6),
        ((1, 1, 1), (0, 0, 0), 1),
        ((5, 1, 4), (7, 99, 1), 1),
        ((2, 1, 4), (2**29 - 1, 1, 1), 1),
        ((2, 1, 4), (2**29, 1, 1), 2),  # a pitch has 31 bits
        ((2, 2, 4), (2**29, 5, 1), 2),
    ],
)
def test_each_element_is_zeroed_and_no_gap(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    calls: int,
):
    shape = [["extent", "C", d] for d in range(3)]
    whole = parameter("C", *shape, out=True, contiguous=None)
    zeroing = program(parameters=[whole], kernels=[kernel(0, variant("k"), zeroed=["C"])])
    outcome = launcher_of(tmp_path_factory, zeroing).launch(
        "p", Tensor(C, sizes, strides=strides).command
    )
    found = [b for c in outcome.enqueued for b in zeroed_bytes(c)]
    wanted = [
        C + 4 * (i * strides[0] + j * strides[1] + k * strides[2]) + b
        for i in range(sizes[0])
        for j in range(sizes[1])
        for k in range(sizes[2])
        for b in range(4)
    ]
    assert sorted(found) == sorted(wanted)
    assert len(outcome.enqueued) == calls


def zeroed_bytes(call: dict[str, Any]) -> list[int]:
    assert call["value"] == 0
    rows = range(
        call["start"], call["start"] + call["height"] * (call["pitch"] or 1), call["pitch"] or 1
    )
    return [row + b for row in rows for b in range(call["width"])]


# --- variants


def test_the_first_variant_whose_conditions_hold_is_launched(
    tmp_path_factory: pytest.TempPathFactory,
):
    row = ["mul", ["stride", "A", 0], 2]
    suits = [condition(["address", "A"], multiple_of=16), condition(row, 1, 2**20, 16)]
    variants = variant("aligned", conditions=suits), variant("plain")
    parameters = [parameter("A", ["extent", "A", 0], ["extent", "A", 1], dtype="f16")]
    both = program(parameters=parameters, kernels=[kernel(1, *variants)])
    found = launcher_of(tmp_path_factory, both)
    for tensor, symbol in {
        half(8, 8): "aligned",
        half(8, 8, data=A + 8): "plain",
        half(8, 8, strides=(12, 1)): "plain",
        half(8, 8, strides=(16, 1)): "aligned",
        half(8, 8, strides=(0, 1)): "plain",
        half(8, 8, strides=(2**19, 1)): "aligned",
        half(8, 8, strides=(2**19 + 8, 1)): "plain",
    }.items():
        (call,) = found.launch("p", tensor.command).launches
        assert call["symbol"] == symbol, tensor


def test_tensors_that_suit_no_variant_are_refused(tmp_path_factory: pytest.TempPathFactory):
    suits = [condition(["address", "A"], multiple_of=16)]
    parameters = [parameter("A", ["extent", "A", 0], dtype="f16")]
    one = program(parameters=parameters, kernels=[kernel(1, variant("k", conditions=suits))])
    found = launcher_of(tmp_path_factory, one)
    outcome = found.launch("p", half(8, data=A + 8).command)
    assert (outcome.code("launch"), outcome.enqueued) == (CODES["MISALIGNED"], [])
    assert outcome.said[-1].detail == "@k: these addresses, strides and sizes suit no variant"
    assert found.launch("p", half(8).command).code("launch") == 0
