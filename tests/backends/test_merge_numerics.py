"""Emitted merges with an epilogue, in the interpreter: it runs once a tile, whatever the number of
contributors and the shape, and reads nothing that it should not."""

import re
from dataclasses import replace
from functools import cache

import pytest
import torch

from backends.triton_codegen import CompiledKernel, compile, emit
from backends.triton_codegen.load import load
from backends.triton_codegen.targets import INTERPRET
from loopir.build import Epilogue
from loopir.nodes import Program
from tests.support.launches import poisoned_workspace
from tests.support.merged_products import EXACT, MERGES, REAL, Run, product_of
from tests.support.texts import edited
from tests.support.workspaces import guarded_workspace

each_merge = pytest.mark.parametrize("merge", MERGES)
each_epilogue = pytest.mark.parametrize("epilogue", [REAL, EXACT], ids=["real", "exact"])

PANELS = 17
LONG = (20, 24, 16 * PANELS - 5)  # one tile, with a tail in every dimension
WIDE = (40, 24, 16 * PANELS - 5)  # two


@cache
def compiled(program: Program) -> CompiledKernel:
    kernel = compile(program, "interpret")
    assert isinstance(kernel, CompiledKernel)
    return kernel


@pytest.mark.sampled
@each_merge
@pytest.mark.parametrize("splits", range(1, PANELS + 1))
def test_a_tile_of_any_number_of_slices_is_within_the_bound(splits: int, merge: str):
    options = f"merge={merge} decomposition=split-k splits={splits}"
    kernel, run = compiled(product_of(LONG, options)), Run(LONG, splits)
    run.launch(kernel, **memory(kernel))
    run.check()


@pytest.mark.sampled
@each_merge
@pytest.mark.parametrize("units", [*range(1, PANELS + 1), 2 * PANELS])
def test_integers_with_any_number_of_units_are_right_to_the_bit(units: int, merge: str):
    kernel = compiled(product_of(WIDE, f"merge={merge} units={units}", EXACT))
    run = Run(WIDE, units, EXACT)
    run.launch(kernel, **memory(kernel))
    run.check()


def memory(kernel: CompiledKernel) -> dict[str, object]:
    """An option of the launch: partial tiles that are NaN."""
    workspace = poisoned_workspace(kernel, {})
    return {} if workspace is None else {"workspace": workspace}


# --- shapes

SHAPES = [
    *((1, 24, 100), (40, 1, 100), (1, 1, 100), (1, 1, 1), (40, 24, 1), (33, 31, 15)),
    *((40, 24, 16), (64, 64, 64), (0, 24, 100), (40, 0, 100), (0, 0, 0), (40, 24, 0), (1, 1, 0)),
]


@pytest.mark.sampled
@each_epilogue
@pytest.mark.parametrize(
    "options",
    [
        *(f"merge={merge} units=5" for merge in MERGES),
        *(f"merge={merge} decomposition=split-k splits=3" for merge in MERGES),
    ],
)
def test_one_kernel_of_open_sizes_serves_every_shape(options: str, epilogue: Epilogue):
    open_sizes = (None, None, None)
    kernel = compiled(product_of(open_sizes, f"{options} launch-constants=true", epilogue))
    for shape in SHAPES:
        run = Run(shape, 3, epilogue)
        workspace = poisoned_workspace(kernel, dict(zip("MNK", shape, strict=True)))
        run.launch(kernel, workspace=workspace)
        run.check()


@each_epilogue
@each_merge
@pytest.mark.parametrize("shape", [(40, 24, 0), (0, 24, 100), (40, 24, 15), (1, 1, 100)], ids=str)
def test_known_sizes_give_the_same(shape: tuple[int, int, int], merge: str, epilogue: Epilogue):
    kernel = compiled(product_of(shape, f"merge={merge} units=4", epilogue))
    run = Run(shape, 4, epilogue)
    run.launch(kernel, **memory(kernel))
    run.check()


def test_control_an_empty_sum_without_its_epilogue_is_seen():
    run = Run((40, 24, 0), 5)
    run.c.tensor.zero_()
    with pytest.raises(AssertionError, match="elements are wrong"):
        run.check()


# --- what is read and written


@each_merge
@pytest.mark.parametrize("schedule", ["units=5", "decomposition=split-k splits=5"])
def test_a_row_with_nan_and_one_with_infinity_stay_where_they_are(schedule: str, merge: str):
    kernel, run = compiled(product_of(WIDE, f"merge={merge} {schedule}")), Run(WIDE, 6)
    run.a[5, 7], run.a[34, 100] = torch.nan, torch.inf
    found = run.launch(kernel, **memory(kernel))
    assert found[5].isnan().all()
    assert not (found[34].isfinite() & found[34].ne(run.residual[34])).any()  # gelu(-inf) is 0
    others = [row for row in range(WIDE[0]) if row not in (5, 34)]
    assert found[others].isfinite().all()


@each_merge
def test_an_output_is_read_where_beta_is_not_zero_and_nowhere_else(merge: str):
    plain = product_of(WIDE, f"merge={merge} units=5", Epilogue(0.5, 0, "f32", "relu", "bf16"))
    added = product_of(WIDE, f"merge={merge} units=5", EXACT)
    run = Run(WIDE, 7, EXACT)
    run.old.fill_(torch.nan)
    assert run.launch(compiled(plain), **memory(compiled(plain))).isfinite().all()
    assert run.launch(compiled(added), **memory(compiled(added))).isnan().all()


@pytest.mark.sampled
@each_epilogue
@each_merge
@pytest.mark.parametrize("schedule", ["units=5", "decomposition=split-k splits=5"])
def test_a_used_workspace_is_not_read_and_nothing_around_it_written(
    schedule: str, merge: str, epilogue: Epilogue
):
    kernel = compiled(product_of(WIDE, f"merge={merge} {schedule}", epilogue))
    workspace = guarded_workspace(kernel)
    for seed in range(3):
        run = Run(WIDE, seed, epilogue)
        run.launch(kernel, workspace=workspace)
        run.check()
        workspace.check()
        workspace.poison()


@pytest.mark.parametrize("merge", MERGES[:2])
def test_slots_are_added_in_the_order_of_k(merge: str):
    """Backwards their sum, in f32, would be 8."""
    parts = (2.0**25, 3.0, -(2.0**25), 3.0)
    shape = (20, 24, 16 * len(parts))
    kernel = compiled(product_of(shape, f"merge={merge} decomposition=split-k splits={len(parts)}"))
    run = Run(shape, 8)
    for zeros in (run.a, run.bias, run.residual):
        zeros.zero_()
    for part, value in enumerate(parts):
        run.a[:, 16 * part], run.b[16 * part] = value, 1
    assert run.launch(kernel, **memory(kernel)).eq(7).all()
    assert in_f32(parts) == 7
    assert in_f32(parts[::-1]) == 8


def in_f32(parts: tuple[float, ...]) -> float:
    """The sum, one after the other."""
    total = torch.zeros(())
    for part in parts:
        total += part
    return total.item()


# --- controls: each of these kernels is wrong, and each check must say so

WALK, SUMMED, SECOND = "units=5", "merge=atomic-workspace units=5", "merge=fixup units=5"
MUTANTS = {
    "a part twice": (WALK, "range(0, parts", "range(-1, parts"),
    "a part left out": (WALK, "range(0, parts", "range(1, parts"),
    "a part too many": (WALK, "range(0, parts", "range(0, parts + 1"),
    "slots of another tile": (WALK, "(2 * first + s) * (BM", "(first + s) * (BM"),
    "two units in one slot": (WALK, "(first + unit) * (BM", "first * (BM"),
    "every part folds": (WALK, '"gpu") == parts - 1', '"gpu") >= 0'),
    "nobody folds": (WALK, '"gpu") == parts - 1', '"gpu") == parts'),
    "the counter is left": (WALK, "tl.store(arrivals + first, 0)", "pass"),
    "no bias behind the fold": (WALK, "+ tl.expand_dims(shift_1, 0)", ""),
    "a bias of each part": (WALK, "= acc_1 + acc_part\n", "= acc_1 + acc_part + 1\n"),
    "a residual twice": (WALK, "tl.cast(skip_1, tl.float32)", "2 * tl.cast(skip_1, tl.float32)"),
    "activated parts": (WALK, "= acc_1 + acc_part\n", "= acc_1 + tl.maximum(acc_part, 0)\n"),
    "a fold in bf16": (
        WALK,
        "= acc_1 + acc_part\n",
        "= (acc_1 + acc_part).to(tl.bfloat16).to(tl.float32)\n",
    ),
    "no fixup": (SECOND, "plan.calls[1](", "(lambda *buffers: None)("),
    "fixup first": (SECOND, "plan.calls[0](", "plan.calls[-1]("),
    "a zeroed slot that is not": (SUMMED, "_zero(partials)", "pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_control_a_mutated_merge_fails_the_check(name: str):
    options, old, new = MUTANTS[name]
    reads_output = name == "every part folds"  # in the interpreter the last is right
    run = Run(WIDE, 9, EXACT if reads_output else REAL)
    module = emit(product_of(WIDE, options, EXACT if reads_output else REAL))
    source = re.sub("(?m)^ *#.*\n", "", module.source)
    source = edited(source[source.index("@triton.jit") :], (old, new))
    source = module.source[: module.source.index("@triton.jit")] + source
    kernel = CompiledKernel(replace(module, source=source), INTERPRET, load(source))
    with pytest.raises(AssertionError, match=r"elements are wrong|counters are not zero"):
        check_two_launches(kernel, run)


def check_two_launches(kernel: CompiledKernel, run: Run) -> None:
    workspace = guarded_workspace(kernel)
    for _ in range(2):
        run.launch(kernel, workspace=workspace)
        run.check()
        workspace.check()
        workspace.poison()
