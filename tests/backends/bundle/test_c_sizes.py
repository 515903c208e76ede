"""The launcher in C computes sizes as the manifest says, and names what it cannot compute."""

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from backends.triton_codegen.bundle.c.files import c_files
from backends.triton_codegen.bundle.c.postfix import Places
from loopir.errors import CodegenError
from tests.support.c_launcher import Launcher, Tensor, codes, launcher_of, needs_gcc
from tests.support.manifests import (
    argument,
    computed,
    given,
    kernel,
    manifest,
    parameter,
    picked,
    program,
    variant,
)

pytestmark = needs_gcc
CODES = codes()
MOST = 2**63 - 1


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    """A program whose kernel is passed its sizes: a given one, one that is picked, and the rest."""
    values = [
        given("T"),
        picked("UNITS", "units", "T"),
        computed("Q", ["floordiv", 100, "T"]),
        computed("BIG", ["mul", "T", 2**40]),
    ]
    names = ["T", "UNITS", "Q", "BIG"]
    whole = kernel("UNITS", variant("k", [argument(n) for n in names]))
    return launcher_of(tmp_path_factory, program(values=values, kernels=[whole]))


def passed(outcome: Any) -> list[int]:
    """The 64-bit arguments of the only launch."""
    (call,) = outcome.launches
    return [*struct.unpack(f"<{len(call['params'].split())}q", bytes.fromhex(call["params"]))]


@pytest.fixture
def params(tmp_path: Path) -> str:
    (tmp_path / "params").write_text("k 8 8 8 8\nk1 8\n")
    return str(tmp_path / "params")


LIMITS = {
    "the bound": ((), 7),
    "units": (("size units 3",), 3),
    "units above": (("size units 9",), 7),
}


@pytest.mark.parametrize("case", LIMITS)
def test_a_picked_size_is_the_least_of_its_limits(sized: Launcher, params: str, case: str):
    commands, units = LIMITS[case]
    outcome = sized.launch("p", "size T 7", *commands, SMS=132, PARAMS=params)
    assert passed(outcome) == [7, units, 14, 7 * 2**40]
    assert outcome.launches[0]["grid"] == [units, 1, 1]


@pytest.mark.parametrize(("commands", "units"), [((), 5), (("size blocks_per_sm 3",), 15)])
def test_a_picked_size_follows_the_device(
    sized: Launcher, params: str, commands: tuple[str, ...], units: int
):
    outcome = sized.launch("p", "size T 700", *commands, SMS=5, PARAMS=params)
    assert passed(outcome)[1] == units


WRONG = {
    "no size": ((), "WRONG_SIZE", "T: no size of that name is given"),
    "unknown": (("size T 1", "size S 1"), "WRONG_SIZE", "S: @p takes no such size"),
    "negative": (("size T -1",), "WRONG_SIZE", "T: expected at least 0, got -1"),
    "zero divisor": (("size T 0",), "WRONG_SIZE", "Q: cannot be computed, a divisor is not"),
    "no units": (("size T 1", "size units 0"), "WRONG_SIZE", "units: expected at least 1, got 0"),
    "no blocks": (("size T 1", "size blocks_per_sm 0"), "WRONG_SIZE", "blocks_per_sm: expected"),
    "too large": ((f"size T {2**23}",), "OVERFLOW", "BIG: does not fit in 63 bits"),
    "too many": (
        (f"size T {2**62}", f"size blocks_per_sm {MOST}"),
        "OVERFLOW",
        "units: does not fit in 63 bits",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_size_is_named_and_nothing_is_enqueued(sized: Launcher, case: str):
    commands, code, text = WRONG[case]
    outcome = sized.launch("p", *commands)
    assert (outcome.code("launch"), outcome.enqueued) == (CODES[code], [])
    assert outcome.said[-1].detail.startswith(text)


def test_a_size_one_step_from_wrong_is_taken(sized: Launcher):
    assert len(sized.launch("p", "size T 1").launches) == 1
    assert len(sized.launch("p", f"size T {2**23 - 1}").launches) == 1


def test_a_grid_has_fewer_than_2_to_the_31_blocks(tmp_path_factory: pytest.TempPathFactory):
    whole = program(values=[given("T")], kernels=[kernel("T", variant("k"))])
    sized = launcher_of(tmp_path_factory, whole)
    outcome = sized.launch("p", f"size T {2**31}")
    assert outcome.code("launch") == CODES["GRID_TOO_LARGE"]
    assert sized.launch("p", f"size T {2**31 - 1}").launches[0]["grid"][0] == 2**31 - 1


def test_no_block_is_no_launch_and_no_late_size(tmp_path_factory: pytest.TempPathFactory):
    late = [computed("SHARE", ["floordiv", 100, "T"])]
    values = {"values": [given("T")], "launch_values": late}
    whole = program(**values, kernels=[kernel("T", variant("k1", [argument("SHARE")]))])
    sized = launcher_of(tmp_path_factory, whole)
    outcome = sized.launch("p", "size T 0")
    assert (outcome.code("launch"), outcome.launches) == (0, [])
    assert len(sized.launch("p", "size T 3").launches) == 1


# --- expressions, against Python

OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": lambda a, b: a % b,
}


def value_of(tree: Any, env: dict[Any, int]) -> int:
    """ArithmeticError where the launcher has no value."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return env[tree]
    if tree[0] in ("extent", "stride"):
        return env[tuple(tree)]
    first, *rest = (value_of(t, env) for t in tree[1:])
    for operand in rest:
        if tree[0] in ("floordiv", "ceildiv", "mod") and operand < 1:
            raise ArithmeticError
        first = OPERATIONS[tree[0]](first, operand)
        if not -(2**63) <= first < 2**63:
            raise ArithmeticError
    return first


LEAVES = ["T", ["extent", "A", 0], ["extent", "A", 1], ["stride", "A", 0]]
NUMBERS = [0, 1, -1, 2, 3, -7, 128, 2**31, -(2**31), 2**62, MOST, -(2**63)]


def random_tree(rng: random.Random, depth: int) -> Any:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*LEAVES, rng.choice(NUMBERS), rng.randrange(1, 9)])
    name = rng.choice([*OPERATIONS])
    operands = 2 if name in ("sub", "floordiv", "ceildiv", "mod") else rng.choice([2, 2, 3])
    return [name, *(random_tree(rng, depth - 1) for _ in range(operands))]


def test_expressions_have_the_values_of_python(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
):
    """300 programs of one expression; the tensor's sizes and T are leaves of it."""
    rng = random.Random(7)
    trees = [random_tree(rng, rng.randrange(1, 5)) for _ in range(300)]
    programs = [
        program(
            f"p{i}",
            parameters=[parameter("A", ["extent", "A", 0], ["extent", "A", 1])],
            values=[given("T"), computed("X", tree)],
            kernels=[kernel(1, variant("k1", [argument("X")]))],
        )
        for i, tree in enumerate(trees)
    ]
    many = launcher_of(tmp_path_factory, *programs)
    (tmp_path / "params").write_text("k1 8\n")
    setup = (Tensor(4096, (5, 6), strides=(11, 1)).command, "size T 13")
    each = [line for i in range(len(trees)) for line in (f"find p{i}", "launch")]
    outcome = many.run(f"open {many.bundle}", *setup, *each, PARAMS=tmp_path / "params")
    env = {"T": 13, ("extent", "A", 0): 5, ("extent", "A", 1): 6, ("stride", "A", 0): 11}
    launched = iter(outcome.launches)
    found = [
        struct.unpack("<q", bytes.fromhex(next(launched)["params"]))[0] if s.code == 0 else None
        for s in outcome.said
        if s.call == "launch"
    ]
    wanted = [wanted_of(tree, env) for tree in trees]
    assert found == wanted
    assert 40 < wanted.count(None) < 200, "both outcomes are tried"


def wanted_of(tree: Any, env: dict[Any, int]) -> int | None:
    try:
        return value_of(tree, env)
    except ArithmeticError:
        return None


# --- what the tables have no room for


def test_an_expression_too_deep_for_the_stack_is_refused():
    def nested(levels: int) -> Any:
        return ["add", 1, nested(levels - 1)] if levels else 1

    places = Places({}, {})
    assert len(places.operations(nested(31))) == 63
    with pytest.raises(CodegenError, match="nested deeper than 32"):
        places.operations(nested(32))


@pytest.mark.parametrize(
    ("what", "most", "of"),
    [
        ("parameters", 16, lambda n: {"parameters": [parameter(f"A{i}", 1) for i in range(n)]}),
        ("dimensions", 8, lambda n: {"parameters": [parameter("A", *[1] * n)]}),
        ("values", 128, lambda n: {"values": [computed(f"V{i}", 1) for i in range(n)]}),
        ("kernels", 8, lambda n: {"kernels": [kernel(1, variant("k"))] * n}),
        (
            "arguments",
            128,
            lambda n: {"kernels": [kernel(1, variant("k", [argument(0)] * n))]},
        ),
    ],
)
def test_more_than_the_launcher_has_room_for_is_refused(what: str, most: int, of: Any):
    assert c_files(manifest(program(**of(most))))
    with pytest.raises(
        CodegenError, match=f"@p: {most + 1} {what}; the launcher in C takes {most}"
    ):
        c_files(manifest(program(**of(most + 1))))
