"""flatten: marks loops over tiles for the backend, and changes nothing else."""

import pytest

from backends.triton_codegen import emit
from loopir.build import gemm
from loopir.interp import random_inputs, run
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import violations
from passes.flatten import FlattenPass
from passes.pipeline import parse_pipeline
from tests.support.interp import same_bits

WHOLE_TILES = "stream-k{decomposition=data-parallel units=3}"


def program(pipeline: str):
    return parse_pipeline(pipeline).run(gemm(40, 50, 96, "f16", "f16", tile=(16, 16, 16)))


def test_a_loop_over_tiles_is_marked_and_nothing_else_changes():
    plain = program(WHOLE_TILES)
    flat = FlattenPass().apply(plain)
    assert to_text(flat).count(" flattened {") == 1
    assert to_text(flat).replace(" flattened {", " {") == to_text(plain)
    assert parse(to_text(flat)) == flat
    arrays = random_inputs(plain, 1)
    results = [run(p, {n: a.copy() for n, a in arrays.items()}).arrays["C"] for p in (plain, flat)]
    assert same_bits(*results)


def test_the_backend_makes_one_loop_of_it():
    plain = program(WHOLE_TILES)
    assert emit(FlattenPass().apply(plain)).source.count("flatten=True") == 1
    assert "flatten=True" not in emit(plain).source


@pytest.mark.parametrize(
    ("pipeline", "codes"),
    [
        ("tile-order", {"FL01"}),
        ("stream-k{units=3}", {"FL01"}),
        ("stream-k{decomposition=k-aligned units=5}", {"FL01"}),
        (f"{WHOLE_TILES},flatten", {"FL02"}),
    ],
)
def test_what_has_no_such_loop_is_refused(pipeline: str, codes: set[str]):
    assert FlattenPass().can_be_applied(program(pipeline)).codes == codes


def test_the_word_belongs_to_sequential_loops():
    text = to_text(program(WHOLE_TILES))
    broken = text.replace("for tile in", "wave tile in").replace(" step UNITS {", " flattened {")
    with pytest.raises(Exception, match="flattened"):
        parse(broken)
    assert not violations(parse(text))
