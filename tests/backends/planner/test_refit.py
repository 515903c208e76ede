"""Constants are found again from times that the model itself computed."""

from dataclasses import replace

import pytest

from backends.planner import Config, Problem, predict, shipped
from backends.planner.fit import FITTED, misfit, refit, rounded
from backends.planner.refit import main, unseen_ratios
from backends.planner.samples import Sample, choice_ratios, read_samples
from passes.cli import REFUSED

H200 = shipped()["NVIDIA H200"]
HEADER = "m,n,k,batch,dtype,out_dtype,a_layout,b_layout,arm,config,status,us"
PLAIN = "tile-order{group=8},descriptors"
ROWS = (
    f'2048,2048,2048,1,bf16,bf16,row,col,x,"gemm 128x256x64 w8 s3: {PLAIN}",ok,27.4',
    "2048,2048,2048,1,bf16,bf16,row,col,cublas,,ok,27.0",
    f'2048,2048,2048,1,bf16,bf16,row,col,y,"gemm 64x64x64 w4 s3: {PLAIN}",refused,',
)


def made(device, sizes=(64, 512, 4096)) -> list[Sample]:
    """Predicted times of some problems on `device`, as if they were measured."""
    tiles = (f"gemm 128x128x64 w4 s4: {PLAIN}", f"gemm 64x64x64 w4 s6: {PLAIN}")
    pairs = [(Problem(m, 4096, k), Config.parse(t)) for m in sizes for k in sizes for t in tiles]
    return [Sample(p, c, predict(c, p, device).time) for p, c in pairs]


def test_rows_that_timed_a_configuration_are_read():
    (sample,) = read_samples("\n".join((HEADER, *ROWS)))
    assert (sample.problem, sample.us) == (Problem(2048, 2048, 2048), 27.4)
    assert str(sample.config) == f"gemm 128x256x64 w8 s3: {PLAIN}"


@pytest.mark.parametrize("text", ["", "a,b\n1,2", HEADER.replace(",us", "") + "\n"])
def test_another_file_is_refused(text: str):
    with pytest.raises(ValueError, match="no CSV of a bench"):
        read_samples(text)


OLDER = "m,n,k,arm,us\n1,2,3,torch.matmul,29.4\n"
UNREADABLE = {
    "of an older script": (OLDER, "an older script wrote: no batch, dtype"),
    "of no time": ("\n".join((HEADER, ROWS[1])), "timed a configuration"),
    "of a short row": ("\n".join((HEADER, ROWS[0][:-5])), "could not convert"),
    "of a bad configuration": ("\n".join((HEADER, ROWS[0].replace("w8", "w"))), "config: "),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("words", [["--check"], ["-o", "out.json"]], ids=["check", "write"])
def test_the_command_refuses_a_file_in_words(case: str, words: list[str], tmp_path, capsys):
    source, (text, said) = tmp_path / "sweep.csv", UNREADABLE[case]
    source.write_text(text)
    assert main([str(source), *words]) == REFUSED
    told = capsys.readouterr().err
    assert said in told
    assert str(source) in told


@pytest.mark.parametrize("arguments", [["nowhere.csv"], [__file__, "--device", "nowhere.json"]])
def test_the_command_names_a_file_that_is_not_there(arguments: list[str], capsys):
    assert main([*arguments, "--check"]) == REFUSED
    told = capsys.readouterr().err
    assert "refit: nowhere." in told
    assert told.endswith("No such file or directory\n")


def test_what_fits_is_left_alone():
    device = replace(H200, slowness={})
    assert refit(device, made(device)) == device


@pytest.mark.parametrize("name", ["dram_tbps", "l2_latency_us", "epilogue_us"])
def test_a_constant_that_is_off_is_found_again(name: str):
    truth = replace(H200, slowness={})
    off = replace(truth, **{name: 1.3 * getattr(truth, name)})
    samples = made(truth)
    found = refit(off, samples)
    assert misfit(found, samples) < 0.1 * misfit(off, samples)


def test_a_slow_kernel_is_told_from_a_slow_device():
    name = "128x128x64 w4 s4 descriptors"
    truth = replace(H200, slowness={name: 1.5})
    found = refit(replace(truth, slowness={}), made(truth, (512, 2048, 4096)))
    assert found.slowness[name] > 1.15 * found.slowness.get("64x64x64 w4 s6 descriptors", 1.0)


def test_rounding_leaves_out_what_says_nothing():
    device = replace(H200, dram_tbps=3.45678, slowness={"a": 1.004, "b": 1.2345})
    assert rounded(device).dram_tbps == 3.46
    assert rounded(device).slowness == {"b": 1.23}


def test_the_command_writes_a_device(tmp_path, capsys):
    source, target = tmp_path / "sweep.csv", tmp_path / "device.json"
    source.write_text("\n".join((HEADER, *ROWS)))
    assert main([str(source), "-o", str(target)]) == 0
    assert '"name": "NVIDIA H200"' in target.read_text()
    assert "misfit" in capsys.readouterr().err


def test_a_constant_stays_within_its_bounds():
    samples = [replace(s, us=9 * s.us) for s in made(H200, (512, 4096))]
    found = refit(H200, samples)
    moved = [getattr(found, name) / getattr(H200, name) for name in FITTED]
    assert 1 / 1.51 < min(moved) < max(moved) < 1.51
    assert all(0.7 <= slow <= 2.0 for slow in found.slowness.values())


def test_what_all_configurations_are_off_by_counts_little():
    samples = made(H200, (512,))
    alike = [replace(s, us=1.05 * s.us) for s in samples]
    apart = [replace(s, us=s.us * 1.05 ** (-1) ** i) for i, s in enumerate(samples)]
    assert 0 < misfit(H200, alike) < 0.5 * misfit(H200, apart)


def test_a_choice_that_loses_counts_more_than_a_miss_that_changes_none():
    samples = made(H200, (4096,))
    first, second = sorted(samples, key=lambda s: s.us)
    lost = [replace(first, us=1.1 * second.us), second]
    kept = [replace(first, us=first.us * first.us / (1.1 * second.us)), second]
    assert misfit(H200, lost) > 1.5 * misfit(H200, kept)


def test_a_constant_that_no_sample_shows_stays_as_it_was():
    truth = replace(H200, dram_tbps=1.2 * H200.dram_tbps)
    found = refit(H200, made(truth))
    assert found.arrive_us == H200.arrive_us
    assert found.skewed_l2_tbps == pytest.approx(H200.skewed_l2_tbps, rel=0.1)


def test_a_choice_is_worth_the_fastest_time_over_its_own():
    samples = [replace(s, of="square") for s in made(H200, (512,))]
    assert choice_ratios(samples, H200) == {"square": [1.0]}
    fastest = min(samples, key=lambda s: s.us)
    slower = [replace(s, us=2 * s.us) if s is fastest else s for s in samples]
    (ratio,) = choice_ratios(slower, H200)["square"]
    assert ratio == pytest.approx(min(s.us for s in slower) / (2 * fastest.us))
    assert ratio < 1


def test_unseen_problems_are_chosen_for_with_constants_of_the_others():
    ratios = unseen_ratios(H200, made(H200, (512, 4096)))
    assert len(ratios[""]) == 4
    assert all(ratio > 0.95 for ratio in ratios[""])


def test_a_check_writes_nothing(tmp_path, capsys):
    source = tmp_path / "sweep.csv"
    source.write_text("\n".join((HEADER, *ROWS)))
    assert main([str(source), "--check"]) == 0
    assert "1.000 (>= 1.00)" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [source]
