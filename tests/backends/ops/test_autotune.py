"""`loopir-triton plan --autotune` and `--pins`: what is timed, what is said, what is pinned."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
import triton

from backends.planner import Problem, plan
from backends.planner.choose import default_device
from backends.triton_codegen import matmul
from backends.triton_codegen.ops import autotune, tune
from backends.triton_codegen.ops.operands import call_of
from backends.triton_codegen.ops.pins import pin, pins_path, read_pins
from backends.triton_codegen.ops.random_operands import random_arguments, random_tensor
from backends.triton_codegen.tool import main
from loopir.errors import CodegenError
from loopir.types import DType
from passes.cli import DONE, REFUSED, USAGE

SMALL = Problem(16, 32, 64)
RANKED = plan(SMALL).ranked


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOOPIR_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A CPU in the place of the GPU, and a timer by which the last arm is the fastest; the number
    of arms of each contest."""
    contests: list[int] = []

    def medians_us(arms: Sequence[Callable[[], object]], rounds: int) -> list[float]:
        for arm in arms:
            arm()
        contests.append(len(arms))
        return [30.0 - i for i in range(len(arms))]

    monkeypatch.setattr(autotune, "place", lambda: "cpu")
    monkeypatch.setattr(tune, "medians_us", medians_us)
    return contests


def pinned(problem: Problem = SMALL):
    device = default_device()
    return read_pins(device.name, triton.__version__).config(problem, device)


def refusing(*refused: int) -> Callable[..., object]:
    """`compiled`, which refuses these candidates of SMALL."""
    configs, compiled = [RANKED[i].config for i in refused], tune.compiled

    def instead(problem, config, on_gpu):
        if config in configs:
            raise CodegenError("no room for it")
        return compiled(problem, config, on_gpu)

    return instead


def test_the_best_few_are_timed_and_the_winner_is_pinned(timer: list[int], capsys):
    assert main(["plan", str(SMALL), "--autotune", "3"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    shown = f"{SMALL} on NVIDIA H200: 3 of {len(RANKED)} candidates, {tune.ROUNDS} rounds"
    assert lines[0] == shown
    assert timer == [3]
    rows = [f"  {r.prediction.time:12.1f}  {30.0 - i:11.1f}  " for i, r in enumerate(RANKED[:3])]
    assert lines[2:5] == [row + str(r.config) for row, r in zip(rows, RANKED, strict=False)]
    assert lines[5:] == [
        f"winner: {RANKED[2].config}, 28.0 us",
        f"pinned in {pins_path('NVIDIA H200')}",
    ]
    assert pinned() == RANKED[2].config != RANKED[0].config


def test_as_many_are_timed_as_by_matmul_where_no_number_is_said(
    timer: list[int], monkeypatch, capsys
):
    monkeypatch.setattr(tune, "_arm", lambda call, args, config: lambda: None)
    assert main(["plan", "512x512x512", "--autotune"]) == DONE
    assert timer == [tune.CONTESTANTS]


def test_what_cannot_run_is_shown_as_refused_and_does_not_win(
    timer: list[int], monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setattr(tune, "compiled", refusing(1))
    assert main(["plan", str(SMALL), "--autotune", "2"]) == DONE
    assert f"refused  {RANKED[1].config}: no room for it" in capsys.readouterr().out
    assert pinned() == RANKED[0].config


def test_where_none_can_run_nothing_is_pinned(
    timer: list[int], monkeypatch: pytest.MonkeyPatch, folder: Path, capsys
):
    monkeypatch.setattr(tune, "compiled", refusing(0, 1))
    assert main(["plan", str(SMALL), "--autotune", "2"]) == REFUSED
    assert capsys.readouterr().err == "loopir-triton plan: no room for it\n"
    assert list(folder.iterdir()) == []


def test_operands_without_room_are_refused(timer: list[int], capsys):
    assert main(["plan", f"{2**40}x{2**40}x64", "--autotune"]) == REFUSED
    assert "its operands have no room on this GPU" in capsys.readouterr().err
    assert timer == []


def test_times_are_shown_though_the_winner_cannot_be_pinned(
    timer: list[int], monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setenv("LOOPIR_CACHE_DIR", "/proc/none")
    assert main(["plan", str(SMALL), "--autotune", "1"]) == USAGE
    told = capsys.readouterr()
    assert f"winner: {RANKED[0].config}" in told.out
    assert "/proc/none" in told.err
    assert "pinned" not in told.out


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_nothing_is_timed(folder: Path, capsys):
    assert main(["plan", "1536x1536x4096", "--autotune"]) == USAGE
    told = capsys.readouterr()
    assert told.err == "loopir-triton plan: error: there is no GPU that torch can use\n"
    assert told.out == ""
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["64x64x64", "--autotune", "0"], "--autotune: 1 or more, not 0"),
        (["64x64x64", "--autotune", "x"], "invalid int value"),
        (["64x64x64", "--autotune", "--json"], "not allowed with"),
        (["64x64x64", "--autotune", "--device", "h200"], "--device: a GPU that is not in this"),
        (["--pins", "--device", "h200"], "--device: a GPU that is not in this"),
        (["64x64x64", "--pins"], "PROBLEM is required, unless --pins is said"),
        (["--autotune"], "PROBLEM is required"),
        (["0x64x64", "--autotune"], "C has no element"),
    ],
)
def test_usage_is_refused_in_words(arguments: list[str], message: str, timer, capsys):
    assert main(["plan", *arguments]) == USAGE
    assert message in capsys.readouterr().err
    assert timer == []


# --- operands

TYPES = ("bf16", "f16->f32", "f64")
LAYOUTS = ("row*row", "row*col", "col*row", "col*col")
EXTRAS = ("", "batch=3", "alpha=2 beta=0.5", "bias=f32 activation=relu residual=bf16")
PROBLEMS = [
    *map(" ".join, itertools.product(["24x40x56"], TYPES, LAYOUTS, EXTRAS)),
    "24x40x56 i8->i32 row*col batch=2 bias=i32 residual=i8",
    "24x40x56 f8e4m3->bf16 row*col",
]


@pytest.mark.parametrize("text", PROBLEMS)
def test_made_up_operands_are_those_of_the_problem(text: str):
    problem = Problem.parse(text)
    assert call_of(random_arguments(problem, "cpu")).problem == problem


def test_one_row_is_tuned_as_matmul_sees_it(timer: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tune, "_arm", lambda call, args, config: lambda: None)
    tuned = autotune.autotune(Problem.parse("1x32x64 col*col"), 1, "cpu")
    assert tuned.plan.problem == Problem(1, 32, 64)


def test_made_up_operands_are_seeded():
    one, again, other = (random_tensor((40, 30), DType.BF16, seed, "cpu") for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert one.float().std() == pytest.approx(1, abs=0.1)


# --- what is pinned


def test_pins_are_listed_by_device(capsys):
    pin("NVIDIA H200", "3.6.0", SMALL, RANKED[0].config)
    pin("NVIDIA H200", "3.6.0", Problem(1536, 1536, 4096), RANKED[1].config)
    pin("NVIDIA B200", "3.5.0", SMALL, RANKED[1].config)
    assert main(["plan", "--pins"]) == DONE
    assert capsys.readouterr().out.splitlines() == [
        "NVIDIA B200, Triton 3.5.0: 1 pinned",
        f"  {SMALL}  {RANKED[1].config}",
        "NVIDIA H200, Triton 3.6.0: 2 pinned",
        f"  {SMALL!s:33}  {RANKED[0].config}",
        f"  1536x1536x4096 bf16->bf16 row*col  {RANKED[1].config}",
    ]


def test_without_pins_that_is_said(capsys):
    assert main(["plan", "--pins"]) == DONE
    assert capsys.readouterr().out == "nothing is pinned\n"


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"loopir_pins": 2}'])
def test_a_damaged_file_is_named_and_the_others_are_listed(text: str, capsys):
    path = pin("NVIDIA H200", "3.6.0", SMALL, RANKED[0].config)
    path.with_name("a.json").write_text(text)
    assert main(["plan", "--pins"]) == REFUSED
    told = capsys.readouterr()
    assert "a.json: refused, " in told.err
    assert "NVIDIA H200, Triton 3.6.0: 1 pinned" in told.out


def test_a_link_to_nowhere_pins_nothing(capsys):
    path = pin("NVIDIA H200", "3.6.0", SMALL, RANKED[0].config)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("nowhere")
    assert main(["plan", "--pins"]) == DONE
    assert capsys.readouterr().out == "nothing is pinned\n"


def test_a_pin_that_would_control_the_terminal_is_refused(capsys):
    path = pin("NVIDIA H200", "3.6.0", SMALL, RANKED[0].config)
    path.write_text(path.read_text().replace("gemm", "\\u001b[2Jgemm"))
    assert main(["plan", "--pins"]) == REFUSED
    assert "\x1b" not in "".join(capsys.readouterr())


# --- on a GPU


@pytest.mark.gpu
def test_matmul_finds_what_autotune_pinned(monkeypatch: pytest.MonkeyPatch, capsys):
    assert main(["plan", "200x320x1024", "bf16", "--autotune", "3"]) == DONE
    shown = capsys.readouterr().out
    device = torch.cuda.get_device_name()
    (winner,) = json.loads(pins_path(device).read_text())["winners"].values()
    assert f"winner: {winner}, " in shown
    monkeypatch.delattr(tune, "medians_us")  # nothing is timed again
    a, b = (random_tensor((n, 1024), DType.BF16, n, "cuda") for n in (200, 320))
    args = random_arguments(Problem(200, 320, 1024), "cuda")
    assert str(tune.winner(call_of(args), args)) == winner
    exact = a.double() @ b.double().mT
    assert (matmul(a, b.mT, tune=True) - exact).abs().max() < 0.02 * exact.abs().max()
