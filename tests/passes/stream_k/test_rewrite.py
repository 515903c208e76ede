"""The rewritten text, its structure under each option, and that the input stays as it was."""

import subprocess
import sys

import pytest

from loopir.build import gemm
from loopir.nodes import Atomic, If, Reduce, Store, While
from loopir.parser import parse
from loopir.printer import to_text
from loopir.scope import constants, launch_symbols
from loopir.verifier import verify
from loopir.walk import walk_program
from passes.decomposition import Bounds
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.golden import check_golden
from tests.support.texts import GEMM, edited
from tests.support.wave_kernels import GEMM_ROWS

GOLDEN = {
    "gemm": "",
    "gemm_atomic": "stream-k{merge=atomic units=132}",
    "gemm_atomic_ceil": "stream-k{merge=atomic units=132 bounds=ceil}",
    "gemm_atomic_big_units": "stream-k{merge=atomic units=132 bounds=big-units}",
    "gemm_atomic_grouped": "tile-order{group=8},stream-k{merge=atomic}",
    "gemm_atomic_splits": "tile-order{along_m},stream-k{merge=atomic splits=4}",
    "gemm_split_k": "stream-k{merge=atomic decomposition=split-k splits=5 "
    "slot-order=split-slowest}",
    "gemm_hybrid": "stream-k{merge=atomic decomposition=hybrid units=132}",
    "gemm_hybrid_last": "stream-k{merge=atomic decomposition=hybrid units=132 direction=backward "
    "tail=one-tile first=data-parallel permuted=true}",
    "gemm_k_aligned": "stream-k{decomposition=k-aligned units=100 cost=3}",
    "gemm_k_aligned_one_wave": "stream-k{merge=atomic decomposition=k-aligned units=200}",
    "gemm_k_aligned_few": "stream-k{merge=atomic decomposition=k-aligned units=132 min-panels=8}",
    "gemm_workspace": "stream-k{units=132}",
    "gemm_workspace_hybrid": "stream-k{decomposition=hybrid units=132 first=data-parallel}",
    "gemm_workspace_fragments": "mma-expand,stream-k{units=400}",
    "gemm_fixup": "stream-k{merge=fixup units=132}",
    "gemm_fixup_splits": "stream-k{merge=fixup splits=4}",
    "gemm_atomic_workspace": "stream-k{merge=atomic-workspace launch-constants=true}",
    "gemm_data_parallel": "stream-k{decomposition=data-parallel}",
    "gemm_data_parallel_units": "stream-k{decomposition=data-parallel units=132}",
}


def rewritten(text: str = GEMM, **options):
    program = StreamKPass(**({"units": 5, "merge": Merge.ATOMIC} | options)).apply(parse(text))
    verify(program)
    return program


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_text(request, name: str):
    program = parse_pipeline(GOLDEN[name]).run(gemm(1536, 1536, 4096))
    check_golden(request, f"{name}.lir", to_text(program))


def test_text_is_the_same_in_two_processes_with_different_hash_seeds():
    code = (
        "from loopir.build import gemm; from loopir.printer import to_text\n"
        "from passes.pipeline import parse_pipeline\n"
        "p = parse_pipeline('tile-order{group=4},stream-k{bounds=big-units units=7}')\n"
        "print(to_text(p.run(gemm(300, 200, 100, 'f16'))))"
    )
    texts = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "12345")
    }
    assert len(texts) == 1


def test_input_is_left_as_it_was():
    program = parse(GEMM)
    StreamKPass(units=5).apply(program)
    assert program == parse(GEMM)


def test_units_are_clamped_to_the_iterations():
    assert constants(rewritten(units=10_000).kernels[0])["UNITS"] == 3 * 3 * 7


@pytest.mark.parametrize("edit", [("M = 96, N = 80,", "N = 0,"), ("M = 96, N = 80,", "M = 0,")])
@pytest.mark.parametrize("units", [5, None])
@pytest.mark.parametrize("min_panels", [1, 2])
def test_no_tiles_are_no_violation_where_another_size_is_open(edit, units, min_panels):
    rewritten(edited(GEMM, edit), units=units, min_panels=min_panels, launch_constants=True)


@pytest.mark.parametrize("order", ["along_n", "along_m", "grouped(2)"])
@pytest.mark.parametrize("extents", ["[0, 3]", "[3, 0]", "[0, 0]"])
def test_a_grid_of_no_tiles_reads_back(extents, order):
    grid = f"grid (ti, tj) in {extents} order {order}"
    empty = edited(GEMM, ("grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)]", grid),
                   ("M = 96, N = 80", "M = 0, N = 0"))  # fmt: skip
    program = rewritten(empty)
    assert parse(to_text(program)) == program


def test_ceil_bounds_leave_no_unit_empty():
    units = constants(rewritten(units=50, bounds=Bounds.CEIL).kernels[0])["UNITS"]
    assert units == 32  # 63 iterations, two a unit


def test_fragments_in_wave_loops_are_stored_by_each_wave_and_folded_by_each(request):
    program = parse_pipeline("mma-expand,stream-k{splits=5}").run(parse(GEMM_ROWS))
    check_golden(request, "waves_workspace.lir", to_text(program))


def test_units_left_open_are_a_launch_symbol_of_at_most_total():
    kernel = rewritten(units=None).kernels[0]
    assert launch_symbols(kernel) == ("UNITS",)
    assert "requires zeroed(C), at_most(UNITS, TOTAL)" in to_text(rewritten(units=None))


def test_splits_make_tiles_times_splits_units():
    assert constants(rewritten(units=None, splits=7).kernels[0])["UNITS"] == 9 * 7


def test_open_sizes_bind_units_to_the_least_of_both():
    text = to_text(rewritten(edited(GEMM, (" M = 96,", "")), units=64, launch_constants=True))
    assert "UNITS = min(64, TOTAL)" in text


def test_no_iterations_make_no_units():
    assert constants(rewritten(edited(GEMM, ("M = 96", "M = 0"))).kernels[0])["UNITS"] == 0


def test_names_in_use_are_avoided():
    text = to_text(rewritten(edited(GEMM, ("fill acc, 0\n", "fill acc, 0\n    let tile = ti\n"))))
    assert "let tile_1 = it // P" in text


def test_panel_count_named_by_a_let_is_put_in_where_the_walk_needs_it():
    text = to_text(
        rewritten(
            edited(
                GEMM, ("0 .. P", "0 .. n"), ("fill acc, 0\n", "fill acc, 0\n    let n = P + 1\n")
            )
        )
    )
    assert "let tile = it // (P + 1)" in text


def test_names_of_workspaces_and_requirements_are_avoided():
    names = ("workspace group_rows: f32[TOTAL]\nkernel @gemm", "TILES")
    text = edited(
        GEMM,
        ("kernel @gemm", names[0]),
        ("BN)] {", "BN)] order grouped(2) {"),
        ("BK)) {", f"BK))\n    requires at_most(Q, {names[1]}) {{"),
        ("fill acc, 0\n", "fill acc, 0\n    let z = Q\n"),
    )
    after = to_text(rewritten(text))
    for made in ("TILES_1 = ", "TOTAL_1 = ", "let group_rows_1 = "):
        assert made in after


def codes(text: str, **options) -> set[str]:
    return set(StreamKPass(**options, merge=Merge.ATOMIC).can_be_applied(parse(text)).codes)


def test_counts_whose_product_leaves_63_bits_are_refused():
    huge = edited(GEMM, ("K = 100", f"K = {2**59}"))
    assert codes(huge, units=132) == {"SK06"}
    rewritten(edited(GEMM, ("K = 100", f"K = {2**50}")), units=132)


def test_panel_count_that_the_launcher_picks_is_refused():
    text = edited(
        GEMM,
        ("P = max(1, ceildiv(K, BK)) {", "P = max(1, G)\n    requires at_most(G, 3) {"),
    )
    assert codes(text, launch_constants=True) == {"SK05"}


def test_every_accumulator_is_merged_by_itself():
    twice = edited(
        GEMM,
        ("out C: f32[M, N])", "out C: f32[M, N], out D: f32[M, N])"),
        (
            "    fill acc, 0\n",
            "    alloc top: register f32[BM, BN]\n    fill acc, 0\n    fill top, 0\n",
        ),
        ("(acc: add)", "(acc: add, top: add)"),
        ("        dot acc, a, b\n", "        dot acc, a, b\n        dot top, a, b\n"),
        (
            "acc masked\n",
            "acc masked\n    store D[ti * BM +: BM, tj * BN +: BN], top masked\n",
        ),
    )
    program = rewritten(twice)
    merges = [s for _, s in walk_program(program) if isinstance(s, If)]
    assert [(m.then[0].target.buffer, m.orelse[0].target.buffer) for m in merges] == [
        ("C", "C"),
        ("D", "D"),
    ]  # fmt: skip
    assert "requires zeroed(C), zeroed(D)" in to_text(program)


def test_reduce_and_its_label_survive():
    kinds = [type(s) for _, s in walk_program(rewritten())]
    assert kinds.count(Reduce) == kinds.count(While) == kinds.count(Atomic) == 1
    assert kinds.count(Store) == 1


def test_third_grid_axis_and_nested_bands_are_decoded():
    batched = edited(
        GEMM,
        ("A: f16[M, K]", "A: f16[S, M, K]"),
        ("out C: f32[M, N]", "out C: f32[S, M, N]"),
        ("where M", "where S = 2, M"),
        ("  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {\n",
         "  grid (s) in [S] {\n  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {\n"),
        ("A[ti", "A[s, ti"),
        ("C[ti", "C[s, ti"),
        ("acc masked\n", "acc masked\n  }\n"),
    )  # fmt: skip
    text = to_text(rewritten(batched))
    assert "TILES = S * ceildiv(M, BM) * ceildiv(N, BN)" in text
    assert "let s = tile // (ceildiv(M, BM) * ceildiv(N, BN))" in text


def test_output_that_is_required_zeroed_already_is_not_required_twice():
    text = edited(GEMM, ("BK)) {", "BK))\n    requires zeroed(C) {"))
    assert to_text(rewritten(text)).count("zeroed(C)") == 1


def test_ragged_grid_is_refused_where_sizes_may_be_open_too():
    nested = "  grid (ti) in [ceildiv(M, BM)] {\n  grid (tj) in [ti + 1] {\n"
    text = edited(
        GEMM,
        ("  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {\n", nested),
        ("acc masked\n", "acc masked\n  }\n"),
        (" M = 96,", ""),
    )
    assert "SK06" in codes(text, launch_constants=True)
