"""The road from an untiled nest to a kernel: `lower` gives the canonical program of the builder,
keeps every bit, and the example and the page about it show what the passes print."""

import itertools
import re
from pathlib import Path

import pytest

from loopir.build import (
    Epilogue,
    batched_gemm_nest,
    contraction_nest,
    conv_nest,
    dual_gemm_nest,
    gemm,
    gemm_nest,
    gemv_nest,
    reduction_nest,
    sum_and_max_nest,
)
from loopir.errors import NotApplicable
from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import Precision
from passes import opt
from passes.lowering import lower
from passes.pipeline import PassPipeline, parse_pipeline
from passes.tile import TilePass
from tests.support.documents import fenced, page
from tests.support.reference import outputs_of_both
from tests.support.texts import GEMM, edited

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "matmul_nest.lir"

# --- the canonical program

FLOATS = ("f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64")
LAYOUTS = tuple(itertools.product(("row", "col"), repeat=2))
SIZES = ((96, 80, 100), (5, 6, 7), (None, None, None), (64, None, 0), (1, 1, 1), (None, 7, 4096))
TILES = ((128, 128, 64), (16, 32, 32), (64, 16, 32), (256, 128, 128))


def tiled(nest: Program, tile: tuple[int, int, int], precision: str = "ieee") -> Program:
    m, n, k = tile
    return lower(nest, m=m, n=n, k=k, precision=precision)


@pytest.mark.parametrize("layouts", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("out", [None, "bf16", "f32", "f64"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_nest_becomes_the_canonical_gemm(dtype: str, out: str | None, layouts: tuple[str, str]):
    number = FLOATS.index(dtype) + LAYOUTS.index(layouts)
    sizes, tile = SIZES[number % len(SIZES)], TILES[number % len(TILES)]
    nest = gemm_nest(*sizes, dtype, out, *layouts)
    assert tiled(nest, tile) == gemm(*sizes, dtype, out, tile, *layouts)


@pytest.mark.sampled
@pytest.mark.parametrize("out", [None, "i8", "f32"])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_nest_of_integers_becomes_the_canonical_gemm(sizes, out: str | None):
    for tile, layouts in itertools.product(TILES, LAYOUTS):
        nest = gemm_nest(*sizes, "i8", out, *layouts)
        assert tiled(nest, tile) == gemm(*sizes, "i8", out, tile, *layouts)


@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_nest_of_any_size_becomes_the_canonical_gemm(sizes, tile):
    assert tiled(gemm_nest(*sizes), tile) == gemm(*sizes, tile=tile)


@pytest.mark.parametrize("precision", [p.value for p in Precision])
def test_the_precision_of_f32_products_is_kept(precision: str):
    nest = gemm_nest(40, 50, 70, "f32")
    made = gemm(40, 50, 70, "f32", tile=(32, 32, 32), precision=precision)
    assert tiled(nest, (32, 32, 32), precision) == made


def test_another_tile_is_another_program():
    assert tiled(gemm_nest(40, 50, 70), (32, 32, 32)) != gemm(40, 50, 70, tile=(32, 32, 64))


# --- options


def test_a_pass_or_its_sizes_say_the_same():
    nest = gemm_nest(40, 50, 70)
    assert lower(nest) == lower(nest, TilePass()) == gemm(40, 50, 70)
    made = lower(nest, TilePass(m=32, n=16, k=32))
    assert lower(nest, m=32, n=16, k=32) == made
    assert parse_pipeline("tile{m=32 n=16 k=32},offload,local-storage").run(nest) == made


def test_a_pass_and_sizes_at_once_are_refused():
    with pytest.raises(TypeError, match="give a TilePass, or m, n, k and precision, not both"):
        lower(gemm_nest(40, 50, 70), TilePass(), m=32)


def test_a_wrong_option_is_named():
    with pytest.raises(ValueError, match="precision"):
        lower(gemm_nest(40, 50, 70), precision="exact")
    with pytest.raises(TypeError, match="'m' wants an integer"):
        lower(gemm_nest(40, 50, 70), m=1.5)  # pyright: ignore[reportArgumentType]


def test_a_program_that_cannot_be_tiled_is_refused_with_a_code():
    with pytest.raises(NotApplicable, match=r"tile.*\n\nTI01: "):
        lower(parse(GEMM))


# --- the same numbers


def outputs(program: Program, seed: int = 3) -> dict[str, bytes]:
    arrays = random_inputs(program, seed)
    run(program, arrays, seed=seed)
    return {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["f8e4m3", "f16", "f32", "f64", "i8"])
@pytest.mark.parametrize("sizes", [(5, 6, 7), (17, 3, 33), (4, 5, 0), (0, 3, 2), (1, 1, 1)])
def test_every_step_of_the_road_keeps_every_bit(dtype: str, sizes):
    nest = gemm_nest(*sizes, dtype)
    expected = outputs(nest)
    for pipeline in (
        "offload",
        "offload,local-storage",
        "tile{m=16 n=16 k=32}",
        "tile{m=16 n=16 k=32},offload",
        "tile{m=16 n=16 k=32},offload,local-storage",
        "tile{m=16 n=16 k=32},offload,local-storage,stream-k{merge=atomic units=3}",
        "tile{m=2 n=3 k=4},offload,local-storage",
        "tile{m=2 n=3 k=4},offload,local-storage,stream-k{merge=atomic units=5}",
    ):
        assert outputs(parse_pipeline(pipeline).run(nest)) == expected, pipeline


WORKLOADS = {
    "epilogue": gemm_nest(
        5, 6, 7, "f16", epilogue=Epilogue(alpha=2, beta=3, bias="f32", activation="relu")
    ),
    "gemv": gemv_nest(5, 7, "f32"),
    "gemv transposed": gemv_nest(5, 7, "f32", transposed=True),
    "batched": batched_gemm_nest(3, 5, 6, 7, "f16"),
    "batched A": batched_gemm_nest(3, 5, 6, 7, "f16", b_batched=False),
    "batched B": batched_gemm_nest(3, 5, 6, 7, "f16", a_batched=False),
    "conv": conv_nest(2, 4, (5, 4), 3, (3, 2), stride=(1, 2), padding=1, dtype="f32"),
    "conv of groups": conv_nest(1, 4, (5, 4), 6, (2, 2), dilation=2, groups=2, dtype="f32"),
    "conv of lines": conv_nest(2, 3, (9,), 4, (3,), layout="nwc", dtype="f16"),
    "contraction": contraction_nest("abc,cd->bda", {"a": 2, "b": 3, "c": 4, "d": 5}),
    "dual": dual_gemm_nest(5, 6, 7, "f16", activation="relu"),
    "max": reduction_nest("max", (5, 7), 1),
    "and": reduction_nest("and", (5, 7), 0, "i32"),
    "mul": reduction_nest("mul", (5, 3, 2), (1, 2), "i32"),
    "sum and max": sum_and_max_nest((5, 7), 1),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_keeps_every_bit(name: str):
    nest = WORKLOADS[name]
    expected = outputs(nest)
    untiled = parse_pipeline("offload,local-storage").run(nest)
    assert outputs(untiled) == expected
    assert "shared" not in to_text(untiled)
    canonical = lower(nest, m=16, k=16)
    assert outputs(canonical) == expected
    assert "local" not in to_text(canonical)
    assert "coop_load" in to_text(canonical)


def test_other_operands_are_other_bits():
    assert outputs(gemm_nest(5, 6, 7), seed=3) != outputs(gemm_nest(5, 6, 7), seed=4)


@pytest.mark.parametrize("dtype", ["bf16", "f32", "i8"])
def test_an_untiled_and_a_tiled_nest_emit_to_the_bits_of_the_interpreter(dtype: str):
    nest = gemm_nest(5, 6, 7, dtype)
    for pipeline in ("offload,local-storage", "tile{m=16 n=16 k=32},offload,local-storage"):
        program = parse_pipeline(pipeline).run(nest)
        for found, expected in outputs_of_both(program, integer_valued=True):
            assert found.equal(expected)


# --- the example

ROAD = "tile{m=128 n=128 k=64},offload,local-storage,stream-k{merge=atomic units=132}"


def test_the_example_is_what_the_builder_gives():
    assert parse(EXAMPLE.read_text()) == gemm_nest(1536, 1536, 4096, b_layout="col")


def test_the_tool_shows_the_whole_road(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert opt.main(["examples/matmul_nest.lir", "-p", ROAD, "--print-after", "all"]) == 0
    shown = capsys.readouterr()
    assert parse(shown.out) == parse_pipeline(ROAD).run(parse(EXAMPLE.read_text()))
    heads = ("parallel ti in 0 .. ceildiv(M, BM) {", "grid (ti, tj) in [", "coop_load a, A[ti")
    places = [shown.err.index(head) for head in heads]
    assert places == sorted(places)
    assert "grid1d (unit) in [UNITS] persistent {" in shown.out


# --- the page

PAGE = page("lowering.md")
STEPS = re.findall(r"^(?:After|Then) `([^`]+)`:$", PAGE, re.MULTILINE)


def test_the_page_shows_what_the_passes_print():
    texts = fenced(PAGE, "lir")
    program = parse(texts[0])
    assert to_text(program) == texts[0]
    assert len(texts) == 1 + len(STEPS) == 5
    for step, text in zip(STEPS, texts[1:], strict=True):
        program = parse_pipeline(step).run(program)
        assert to_text(program) == text, step


def test_the_command_of_the_page_runs(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    (pipeline,) = re.findall(r'^loopir-opt examples/matmul_nest.lir -p "([^"]+)"', PAGE, re.M)
    assert opt.main(["examples/matmul_nest.lir", "-p", pipeline]) == 0
    assert [p.split("{")[0] for p in pipeline.split(",")] == [s.split("{")[0] for s in STEPS]
    assert "stream-k" in capsys.readouterr().out


def test_the_passes_run_in_the_order_of_the_page():
    listed = re.findall(r"^\d\. `([a-z-]+)`: ", PAGE, re.MULTILINE)
    (text,) = re.findall(r'^loopir-opt examples/gemm.lir -p "([^"]+)"', PAGE, re.MULTILINE)
    program = parse((ROOT / "examples/gemm.lir").read_text())
    *first, last = parse_pipeline(text).passes
    assert [p.name for p in (*first, last)] == [name for name in listed if name != "mma-expand"]
    assert " descriptor\n" in to_text(PassPipeline((*first, last)).run(program))
    with pytest.raises(NotApplicable, match="run descriptors last"):
        PassPipeline((last, *first)).run(program)


def test_the_python_of_the_page_runs():
    (code,) = fenced(PAGE, "python")
    names: dict = {}
    exec(compile(code, "lowering.md", "exec"), names)
    assert names["program"] == gemm(1536, 1536, 4096, tile=(128, 128, 64))


def test_the_page_is_about_the_example():
    """The page's first program is the example with other sizes."""
    first = fenced(PAGE, "lir")[0]
    _, text = EXAMPLE.read_text().split("\n", 1)
    assert edited(text, ("1536, N = 1536, K = 4096", "96, N = 80, K = 100")) == first
