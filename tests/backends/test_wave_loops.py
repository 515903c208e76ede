"""Wave loops: collapsed to whole-tile operations that compute the same, or refused with the line
and the reason."""

import pytest
import torch

from backends.triton_codegen import compile, emit
from backends.triton_codegen.waves import collapse_waves
from loopir.errors import CodegenError
from loopir.interp import random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.types import ForKind
from loopir.verifier import verify
from loopir.walk import walk_program
from passes.pipeline import parse_pipeline
from tests.support import kernels, wave_kernels
from tests.support.interp import same_bits
from tests.support.numerics import check_close
from tests.support.reference import allowed_difference, outputs_of_both
from tests.support.texts import GEMM, edited
from tests.support.wave_kernels import GEMM_ROWS, GEMM_ROWS_WHOLE

Edit = tuple[str, str]


def check_same_results(before: Program, after: Program) -> None:
    """Every buffer has the same bits after both, on data of several seeds."""
    for seed in range(3):
        arrays = random_inputs(before, seed)
        again = {name: array.copy() for name, array in arrays.items()}
        run(before, arrays, seed=seed)
        run(after, again, seed=seed)
        assert all(same_bits(arrays[name], again[name]) for name in arrays)


def has_waves(program: Program) -> bool:
    return any(getattr(s, "kind", None) is ForKind.WAVE for _, s in walk_program(program))


# --- collapsing


@pytest.mark.parametrize("name", wave_kernels.NAMES)
def test_collapsed_program_is_well_formed_and_interprets_to_the_same_bits(name: str):
    before = parse(wave_kernels.text(name))
    verify(before)
    after = collapse_waves(before)
    verify(after)
    assert has_waves(before)
    assert not has_waves(after)
    check_same_results(before, after)


def test_parts_of_waves_become_the_whole_tile_and_shared_tiles_stay():
    assert to_text(collapse_waves(parse(GEMM_ROWS))) == GEMM_ROWS_WHOLE


def test_nested_wave_loops_widen_rows_and_columns():
    text = to_text(collapse_waves(parse(wave_kernels.GEMM_BLOCKS)))
    assert "alloc acc: register f32[2 * W, 2 * W]" in text
    assert "alloc a: shared bf16[2 * W, BK]" in text
    assert "alloc b: shared bf16[BK, 2 * W]" in text
    assert "C[ti * BM +: 2 * W, tj * BN +: 2 * W]" in text
    assert "over (m = ti * BM +: 2 * W < M, n = tj * BN +: 2 * W < N)" in text


def test_lets_of_the_wave_go_and_others_stay():
    text = to_text(collapse_waves(parse(wave_kernels.GEMM_BLOCKS)))
    assert "let row0 = ti * BM - W" in text
    assert "let row =" not in text
    assert "let col =" not in text


def test_store_that_every_wave_repeats_stays_as_it_is():
    text = to_text(collapse_waves(parse(wave_kernels.EPILOGUE)))
    assert "store C[ti * BM +: BM, tj * BN +: BN], acc masked" in text


def test_what_a_wave_wrote_is_behind_a_barrier_where_it_is_read():
    lines = [s.strip() for s in to_text(collapse_waves(parse(wave_kernels.IN_PLACE))).split("\n")]
    accesses = [i for i, line in enumerate(lines) if "Z[u" in line]
    assert len(accesses) == 4
    assert all(lines[i - 1] == "barrier" for i in accesses)
    assert lines.count("barrier") == 4


def test_one_wave_is_its_body_with_its_number():
    text = to_text(collapse_waves(parse(wave_kernels.ONE_WAVE)))
    assert "let row = 2 * t" in text
    assert "X[m, n] over (m = row +: 2, n = 0 +: N < N) masked else -1" in text


def test_fragments_stay_fragments():
    program = parse_pipeline("mma-expand").run(parse(GEMM_ROWS))
    expected = edited(GEMM_ROWS_WHOLE, ("acc: register", "acc: fragment"))
    assert to_text(collapse_waves(program)) == expected


@pytest.mark.parametrize("name", kernels.NAMES)
def test_program_without_wave_loops_is_left_alone(name: str):
    program = parse(kernels.text(name))
    assert collapse_waves(program) is program


def test_input_is_left_as_it_was_and_collapsing_again_changes_nothing():
    program = parse(GEMM_ROWS)
    after = collapse_waves(program)
    assert program == parse(GEMM_ROWS)
    assert collapse_waves(after) is after


# --- emitting


@pytest.mark.parametrize("name", [n for n in wave_kernels.NAMES if n != "EPILOGUE"])
def test_emitted_kernel_agrees_with_the_interpreter_bit_for_bit(name: str):
    for found, expected in outputs_of_both(parse(wave_kernels.text(name)), integer_valued=True):
        check_close(found, expected, 0)


@pytest.mark.parametrize("name", wave_kernels.NAMES)
def test_emitted_kernel_agrees_with_the_interpreter_on_real_data(name: str):
    for found, expected in outputs_of_both(parse(wave_kernels.text(name))):
        # 16 times: IN_PLACE squares its intermediate results, EPILOGUE sums rows of the product
        check_close(found, expected, 16 * allowed_difference(found, expected))


@pytest.mark.parametrize("pipeline", ["tile-order{group=2}", "mma-expand"])
def test_kernel_behind_passes_agrees_with_the_interpreter(pipeline: str):
    program = parse_pipeline(pipeline).run(parse(GEMM_ROWS))
    for found, expected in outputs_of_both(program, integer_valued=True):
        check_close(found, expected, 0)


def test_emitted_file_quotes_the_program_as_written_and_each_line_as_emitted():
    source = emit(parse(GEMM_ROWS)).source
    assert "wave w in 0 .. BM // WM {" in source.split('"""')[1]
    assert "# load a, A[ti * BM +: 4 * WM, kp * BK +: BK] masked" in source
    assert "tl.arange(0, 4 * WM)" in source


@pytest.mark.parametrize("name", ["GEMM_ROWS", "GEMM_BLOCKS"])
def test_collapsed_product_compiles_to_matrix_instructions(name: str):
    assert "mma.sync" in compile(parse(wave_kernels.text(name)), "cuda:80").assembly


def test_emitted_product_is_the_product():
    """Control of the above: neither the interpreter nor the collapsed form is asked."""
    a, b = torch.ones(100, 70, dtype=torch.float16), torch.eye(70, 72, dtype=torch.float16)
    c = torch.full((100, 72), torch.nan)
    compile(parse(GEMM_ROWS), "interpret")(a, b, c)
    assert c.equal(a.float() @ b.float())


def test_whole_tile_that_is_no_power_of_two_is_refused_by_the_emitter():
    three = edited(GEMM_ROWS, ("0 .. BM // WM", "0 .. 3"))
    collapse_waves(parse(three))
    with pytest.raises(CodegenError, match="tile size 3 \\* WM = 48 is no power of two"):
        emit(parse(three))


# --- refusals

#: a kernel of one wave loop around row-wise work, to be broken
ROWS = """\
kernel @rows(X: f32[M, N], inout Z: f32[M, N], out Y: f32[M, N], out S: f32[N])
    where M = 64, N = 32, BM = 32, WM = 8 {
  grid (t) in [ceildiv(M, BM)] {
    alloc v: register f32[WM, N]
    alloc k: register f32[N, N]
    fill v, 1
    fill k, 1
    wave w in 0 .. 4 {
      alloc x: register f32[WM, N]
      alloc y: register f32[WM, N]
      alloc c: register f32[N]
      fill y, 0
      load x, X[t * BM + w * WM +: WM, 0 +: N]
      ewise y = x + 1
      store Y[t * BM + w * WM +: WM, 0 +: N], y
    }
  }
}
"""
LOAD = "      load x, X[t * BM + w * WM +: WM, 0 +: N]\n"
ADD = "      ewise y = x + 1\n"
STORE = "      store Y[t * BM + w * WM +: WM, 0 +: N], y\n"
START = "load x, X[t * BM + w * WM"
WAVE = "    wave w in 0 .. 4 {\n"


def before(place: str, line: str) -> Edit:
    return place, f"      {line}\n{place}"


#: name -> (edits of ROWS, the reason, the line shown)
REFUSED: dict[str, tuple[tuple[Edit, ...], str, str]] = {
    "overlap": (
        ((START, "load x, X[t * BM + w * 4"),),
        "its parts are 8 wide and start 4 apart along axis 0: they overlap",
        "load x, X[t * BM + 4 * w +: WM, 0 +: N]",
    ),
    "gaps": (
        ((START, "load x, X[t * BM + w * 9"), ("M = 64", "M = 99")),
        "its parts are 8 wide and start 9 apart along axis 0: they are not side by side in order",
        "load x, X[t * BM + 9 * w +: WM, 0 +: N]",
    ),
    "backwards": (
        ((START, "load x, X[t * BM + (3 - w) * WM"),),
        "its parts are 8 wide and start -8 apart along axis 0: they are not side by side in order",
        "load x, X[(3 - w) * WM + t * BM +: WM, 0 +: N]",
    ),
    "uneven": (
        ((START, "load x, X[t * BM + w // 2 * 2 * WM"),),
        "its parts do not start at one distance from each other along axis 0",
        "load x, X[2 * (w // 2) * WM + t * BM +: WM, 0 +: N]",
    ),
    "distance known at launch": (
        ((START, "load x, X[t * BM + w * Q"),),
        "its parts do not start at one distance from each other along axis 0",
        "load x, X[t * BM + w * Q +: WM, 0 +: N]",
    ),
    "two axes": (
        ((LOAD, "      load x, X[w * WM +: WM, w * N +: N] masked\n"),),
        "it moves axes 0 and 1 of a tile at once",
        "load x, X[w * WM +: WM, w * N +: N] masked",
    ),
    "index": (
        ((LOAD, "      load x, X[w * WM + m, n] over (m = t * BM +: WM, n = 0 +: N)\n"),),
        "it moves an index or a limit, and may move only where one axis starts",
        "load x, X[w * WM + m, n] over (m = t * BM +: WM, n = 0 +: N)",
    ),
    "limit": (
        ((LOAD, "      load x, X[m, n] over (m = w * WM +: WM, n = 0 +: N < w + 4) masked\n"),),
        "it moves an index or a limit, and may move only where one axis starts",
        "load x, X[m, n] over (m = w * WM +: WM, n = 0 +: N < w + 4) masked",
    ),
    "condition": (
        ((ADD, f"      if w > 0 {{\n{ADD}      }}\n"),),
        "it decides more than where the tiles of accesses start",
        "if w > 0 {",
    ),
    "bound": (
        ((ADD, f"      for i in 0 .. w {{\n{ADD}      }}\n"),),
        "it decides more than where the tiles of accesses start",
        "for i in 0 .. w {",
    ),
    "variable": (
        (before(ADD, "let i = w\n      while i < 2 {\n        set i = i + 1\n      }"),),
        "it decides more than where the tiles of accesses start",
        "let i = w",
    ),
    "lookup": (
        (("X: f32", "order: i32[4], X: f32"), before(LOAD, "let u = order[w]")),
        "it decides more than where the tiles of accesses start",
        "let u = order[w]",
    ),
    "sum along the split axis": (
        ((STORE, "      ewise c = sum(y, 0)\n      store S[0 +: N], c\n"),),
        "it combines along axis 0 of y, which the waves split",
        "ewise c = sum(y, 0)",
    ),
    "mask along the split axis": (
        ((ADD, "      ewise y = mask(x, 0, t, 5, 0)\n"),),
        "it masks along axis 0 of x, which the waves split",
        "ewise y = mask(x, 0, t, 5, 0)",
    ),
    "mask along the split axis inside": (
        ((ADD, "      ewise y = cast(f32, max(mask(mask(x + 1, 0, t, 5, 0), 1, 0, 7, 1), 0))\n"),),
        "it masks along axis 0 of x, which the waves split",
        "ewise y = cast(f32, max(mask(mask(x + 1, 0, t, 5, 0), 1, 0, 7, 1), 0))",
    ),
    "part of the split axis": (
        (before(ADD, "alloc h: register f32[WM // 2, N]\n      ewise h = part(x, 0, 1, 2)"),),
        "every wave has its own part of h, along axis 0, which does not fit",
        "ewise h = part(x, 0, 1, 2)",
    ),
    "part of a shared tile for parts": (
        ((ADD, "      ewise y = x + part(k, 0, 0, 4)\n"),),
        "k is allocated outside the loop, and no wave can have a part of it",
        "ewise y = x + part(k, 0, 0, 4)",
    ),
    "mask that the wave moves": (
        ((ADD, "      ewise y = mask(x, 1, w, 5, 0)\n"),),
        "it decides more than where the tiles of accesses start",
        "ewise y = mask(x, 1, w, 5, 0)",
    ),
    "one element a wave": (
        (before(ADD, "alloc e: register f32[]\n      load e, X[w, 0]"),),
        "it moves an index or a limit, and may move only where one axis starts",
        "load e, X[w, 0]",
    ),
    "one element from wave to wave": (
        (before(WAVE, "alloc e: register f32[]\n      fill e, 0"),
         before(ADD, "ewise e = e + 1")),
        "e passes from each wave to the next",
        "ewise e = e + 1",
    ),
    "dot along the split axis": (
        (
            ("f32[N, N]", "f32[WM, N]"),
            ("X[t * BM + w * WM +: WM, 0 +: N]", "X[0 +: WM, w * WM +: WM]"),
            ("alloc x: register f32[WM, N]", "alloc x: register f32[WM, WM]"),
            (ADD, "      dot y, x, k\n"),
            (STORE, "      store Y[0 +: WM, 0 +: N], y\n"),
        ),
        "the dot sums along the axis that the waves split",
        "dot y, x, k",
    ),
    "both operands of a dot": (
        (
            ("alloc c: register f32[N]", "alloc r: register f32[N, WM]\n"
             "      alloc d: register f32[WM, WM]"),
            (ADD, "      load r, X[0 +: N, w * WM +: WM]\n      fill d, 0\n      dot d, x, r\n"),
        ),
        "the waves split both operands of the dot",
        "dot d, x, r",
    ),
    "accumulator of all waves": (
        (before(STORE, "dot k, k, k"),),
        "k passes from each wave to the next",
        "dot k, k, k",
    ),
    "sum over the waves": (
        (before(STORE, "ewise v = v + 1"),),
        "v passes from each wave to the next",
        "ewise v = v + 1",
    ),
    "part into a tile of all waves": (
        (before(STORE, "ewise v = x"),),
        "v is allocated outside the loop, and no wave can have a part of it",
        "ewise v = x",
    ),
    "load into a tile of all waves": (
        (before(STORE, "load v, X[w * WM +: WM, 0 +: N]"),),
        "v is allocated outside the loop, and no wave can have a part of it",
        "load v, X[w * WM +: WM, 0 +: N]",
    ),
    "full tile beside parts": (
        ((ADD, "      ewise y = x + v\n"),),
        "v is allocated outside the loop, and no wave can have a part of it",
        "ewise y = x + v",
    ),
    "same load beside parts": (
        ((ADD, "      load y, X[0 +: WM, 0 +: N]\n      ewise y = y + x\n"),),
        "y is the same in every wave, and a part for each wave is needed",
        "ewise y = y + x",
    ),
    "part to one place": (
        ((STORE, "      store Y[t * BM +: WM, 0 +: N], y\n"),),
        "every wave has its own part of y, along axis 0, which does not fit",
        "store Y[t * BM +: WM, 0 +: N], y",
    ),
    "rows to columns": (
        (
            (ADD, "      alloc q: register f32[WM, WM]\n      load q, X[0 +: WM, w * WM +: WM]\n"),
            (STORE, "      store Y[w * WM +: WM, 0 +: WM], q\n"),
        ),
        "every wave has its own part of q, along axis 1, which does not fit",
        "store Y[w * WM +: WM, 0 +: WM], q",
    ),
    "waves meet in a diagonal": (
        ((STORE, "      store Y[m + n, n] over (m = w * WM +: WM, n = 0 +: N), y\n"),),
        "two waves may meet in one element of Y",
        "store Y[m + n, n] over (m = w * WM +: WM, n = 0 +: N), y",
    ),
    "waves meet over a loop": (
        ((STORE, f"      for i in 0 .. 2 {{\n{STORE.replace('t * BM', 'i * WM')}      }}\n"),),
        "two waves may meet in one element of Y",
        "store Y[i * WM + w * WM +: WM, 0 +: N], y",
    ),
    "every wave adds": (
        (before(STORE, "fill c, 1\n      atomic add S[0 +: N], c"),
         ("WM = 8 {", "WM = 8\n    requires zeroed(S) {")),
        "two waves may meet in one element of S",
        "atomic add S[0 +: N], c",
    ),
    "read of what all write": (
        ((LOAD, "      load x, Z[0 +: WM, 0 +: N]\n      store Z[0 +: WM, 0 +: N], x\n"),
         (STORE, "")),
        "two waves may meet in one element of Z",
        "store Z[0 +: WM, 0 +: N], x",
    ),
    "read of the next wave's rows": (
        ((LOAD, LOAD.replace("X[t * BM", "Z[8 + t * BM").replace("N]", "N] masked")),
         (STORE, STORE.replace("Y", "Z"))),
        "two waves may meet in one element of Z",
        "store Z[t * BM + w * WM +: WM, 0 +: N], y",
    ),
    "alias": (
        (("WM = 8 {", "WM = 8\n    alias(X, Y) {"),),
        "two waves may meet in one element of X",
        "store Y[t * BM + w * WM +: WM, 0 +: N], y",
    ),
    "no wave": ((("0 .. 4", "4 .. 4"),), "it runs no wave", "wave w in 4 .. 4 {"),
}  # fmt: skip

#: name -> edits of ROWS that look like a refused one, and are none
ACCEPTED: dict[str, tuple[Edit, ...]] = {
    "as it is": (),
    "part that starts late": ((START, "load x, X[8 * t + w * WM"),),
    "condition on the tile": ((ADD, f"      if t > 0 {{\n{ADD}      }}\n"),),
    "sum along the other axis": (
        (STORE, "      alloc r: register f32[WM]\n      ewise r = sum(y, 1)\n"
         "      store S[w * WM +: WM], r\n"),
        ("ceildiv(M, BM)", "1"),
    ),
    "mask along the other axis": ((ADD, "      ewise y = mask(x, 1, t, 5, 9)\n"),),
    "part of the other axis": (
        (ADD, "      ewise y = x + expand(sum(part(x, 1, 1, 4), 1), 1)\n"),
    ),
    "part of what is broadcast along the split axis": (
        (ADD, "      ewise y = x + expand(part(sum(k, 0), 0, 0, 1), 0)\n"),
    ),
    "mask of what is broadcast along the split axis": (
        (ADD, "      fill c, 3\n      ewise y = x + mask(expand(c, 0), 0, 4, 5 * t, 9)\n"),
    ),
    "one element for all parts": (
        (ADD, "      alloc e: register f32[]\n      load e, X[t, 2]\n      ewise y = x + e\n"),
    ),
    "parts filled from one element": (
        (ADD, "      alloc e: register f32[]\n      load e, X[t, 2]\n      ewise y = e\n"),
    ),
    "dot with a shared operand": ((ADD, "      dot y, x, k\n"),),
    "tile that each wave fills first": (before(STORE, "fill v, 2\n      ewise v = v + 1"),),
    "column broadcast into parts": (
        (ADD, "      load c, S0[0 +: N]\n      ewise y = x + expand(c, 0)\n"),
        ("X: f32", "S0: f32[N], X: f32"),
    ),
    "own rows read and written": (
        (LOAD, LOAD.replace("X", "Z")),
        (STORE, STORE.replace("Y", "Z")),
    ),
    "disjoint buffers": (("WM = 8 {", "WM = 8\n    alias(S, Z) {"),),
    "waves told from a loop": (
        (STORE, f"      for i in 0 .. 2 {{\n{STORE.replace('t * BM', 'i * BM')}      }}\n"),
        ("ceildiv(M, BM)", "1"),
    ),
    "every wave stores the same": (
        before(STORE, "fill c, 1\n      store S[0 +: N], c"),
        ("ceildiv(M, BM)", "1"),
    ),
}  # fmt: skip


def refused(name: str) -> str:
    program = parse(edited(ROWS, *REFUSED[name][0]))
    verify(program)
    with pytest.raises(CodegenError) as error:
        emit(program)
    return str(error.value)


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_says_why_and_points_at_the_line(name: str):
    _, reason, line = REFUSED[name]
    head, *place = refused(name).split("\n")
    assert head == (
        f"@rows: wave loop w is no whole-tile operation: {reason}; give each wave the next part of "
        "a tile, or write the whole-tile operation"
    )
    caret = next(i for i, text in enumerate(place) if text.split("|")[1].strip().startswith("^"))
    assert place[caret - 1].split("|")[1].strip() == line


@pytest.mark.parametrize("name", ACCEPTED)
def test_neighbour_of_a_refusal_computes_the_same(name: str):
    before = parse(edited(ROWS, *ACCEPTED[name]))
    verify(before)
    after = collapse_waves(before)
    verify(after)
    check_same_results(before, after)
    for found, expected in outputs_of_both(before, integer_valued=True):
        check_close(found, expected, 0)


def test_refusal_of_an_outer_loop_shows_that_loop_as_written():
    rows = "row +: W, kp * BK +: BK"
    text = edited(wave_kernels.GEMM_BLOCKS, (rows, "row + wm +: W, kp * BK +: BK"))
    with pytest.raises(CodegenError) as error:
        emit(parse(text))
    assert "wave loop wm is no whole-tile operation: its parts are 16 wide and start 17" in str(
        error.value
    )
    shown = [s.split("|")[1].strip() for s in str(error.value).split("\n")[1:]]
    assert "wave wm in 1 .. 3 {" in shown[shown.index("^^") - 1]


def test_refused_line_keeps_its_number_behind_other_wave_loops():
    loop = ROWS[ROWS.index(WAVE) : ROWS.rindex("  }\n")]
    second = loop.replace("w in", "u in").replace(" w ", " u ")
    for name in "xyc":
        second = second.replace(f" {name}", f" {name}{name}")
    text = edited(ROWS, (loop, loop + second.replace("xx + 1", "xx + v")))
    text = text.replace("YY", "Y").replace("XX", "X")
    line = next(n for n, s in enumerate(text.split("\n"), start=1) if "xx + v" in s)
    with pytest.raises(CodegenError) as error:
        emit(parse(text))
    assert f"  {line} |       ewise yy = xx + v" in str(error.value)


def test_gemm_whose_waves_repeat_the_product_is_refused():
    text = edited(GEMM, ("        dot acc, a, b\n", "wave w in 0 .. 4 {\ndot acc, a, b\n}\n"))
    with pytest.raises(CodegenError, match="acc passes from each wave to the next"):
        emit(parse(text))
