"""Programs launched from a bundle give the right results: a driver in Python takes the calls, and
runs the kernels' source on the bytes that it is given."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from backends.triton_codegen.bundle import Bundle
from backends.triton_codegen.bundle.loading.errors import DriverError
from tests.support.fake_cuda import CONTEXT
from tests.support.interpreted_launches import array, interpreting_cuda

INTEGERS = 7  # inputs so small that every sum is exact


def integers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-INTEGERS, INTEGERS + 1, shape).to(dtype)


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, float("nan"), dtype=dtype)


def launched(folder: Path, name: str, *tensors: torch.Tensor, **options) -> list[str]:
    """Launch on the tensors; the symbols launched, in order."""
    fake = interpreting_cuda(folder)
    Bundle.open(folder, fake).programs[name].launch(*map(array, tensors), **options)
    assert fake.errors == []
    return [launch.symbol for launch in fake.launches]


def test_a_product_with_a_workspace(three: Path):
    torch.manual_seed(0)
    a, b = integers(100, 136, dtype=torch.bfloat16), integers(136, 72, dtype=torch.bfloat16)
    c = poisoned(100, 72)
    assert launched(three, "gemm", a, b, c) == ["gemm_descriptors"]
    assert torch.equal(c, a.float() @ b.float())


def test_a_convolution_that_a_second_kernel_ends(three: Path):
    torch.manual_seed(0)
    x, f = integers(2, 9, 7, 5, dtype=torch.float16), integers(3, 3, 5, 19, dtype=torch.float16)
    y = poisoned(2, 5, 4, 19)
    assert launched(three, "conv", x, f, y) == ["conv2d_nhwc", "conv2d_nhwc_fixup"]
    whole = torch.nn.functional.conv2d(
        x.permute(0, 3, 1, 2).float(), f.permute(3, 2, 0, 1).float(), stride=2, padding=1
    )
    assert torch.equal(y, whole.permute(0, 2, 3, 1))


def test_a_product_that_adds_into_an_output_which_the_loader_zeroes(three: Path):
    torch.manual_seed(0)
    a, x, y = integers(83, 45, dtype=torch.float32), torch.ones(83), poisoned(45)
    assert launched(three, "gemv", a, x, y) == ["gemv_columns"]
    assert torch.equal(y, a.sum(0))


SIZES = [(64, 72, 200), (33, 65, 129), (1, 5, 300), (70, 8, 0), (0, 64, 64), (40, 0, 64)]
PROGRAMS = ["workspace", "fixup", "atomic"]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_any_size(opened: Path, name: str, sizes: tuple[int, int, int]):
    torch.manual_seed(0)
    m, n, k = sizes
    a, b = integers(m, k, dtype=torch.bfloat16), integers(n, k, dtype=torch.bfloat16).t()
    c = poisoned(m, n)
    launched(opened, name, a, b, c)
    assert torch.equal(c, a.float() @ b.float())


@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_with_gaps_and_starts_at_any_element(opened: Path, name: str):
    """What lies between the rows of the output is left alone, also where it is zeroed."""
    torch.manual_seed(0)
    room = integers(50, 101, dtype=torch.bfloat16)
    a, b = room[1:41, 1:98], integers(37, 97, dtype=torch.bfloat16).t()
    whole = torch.full((45, 50), 7.0)
    c = whole[2:42, 3:40]
    launched(opened, name, a, b, c)
    assert torch.equal(c, a.float() @ b.float())
    assert float(whole.sum() - c.sum()) == 7 * (whole.numel() - c.numel())


@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_fewer_units_than_the_device_has_if_the_caller_says_so(opened: Path, units: int):
    torch.manual_seed(0)
    a, b = integers(65, 200, dtype=torch.bfloat16), integers(33, 200, dtype=torch.bfloat16).t()
    c, fake = poisoned(65, 33), interpreting_cuda(opened, sms=4)
    program = Bundle.open(opened, fake).programs["workspace"]
    program.launch(*map(array, (a, b, c)), units=units)
    assert [launch.blocks for launch in fake.launches] == [min(units, 4)]
    assert torch.equal(c, a.float() @ b.float())


def test_many_launches_of_changing_sizes_in_one_workspace(opened: Path):
    torch.manual_seed(0)
    fake = interpreting_cuda(opened)
    program = Bundle.open(opened, fake).programs["workspace"]
    for m, n, k in [(40, 40, 200), (33, 70, 65), (100, 33, 300), (40, 40, 200), (5, 5, 5)]:
        a, b = integers(m, k, dtype=torch.bfloat16), integers(n, k, dtype=torch.bfloat16).t()
        c = poisoned(m, n)
        program.launch(*map(array, (a, b, c)))
        assert torch.equal(c, a.float() @ b.float())
    assert len(fake.memory) == 1


#: the driver calls of a first launch; the last one gives back the context
FIRST = 28


@pytest.mark.sampled
@pytest.mark.parametrize("at", range(1, FIRST + 1))
def test_a_call_that_fails_once_leaves_the_next_launch_right(opened: Path, at: int):
    torch.manual_seed(0)
    a, b = integers(8, 200, dtype=torch.bfloat16), integers(8, 200, dtype=torch.bfloat16).t()
    fake, c = interpreting_cuda(opened, fails_at=at), poisoned(8, 8)
    program = Bundle.open(opened, fake).programs["workspace"]
    try:
        program.launch(*map(array, (a, b, c)))
    except DriverError as error:
        failed = str(error).partition(":")[0]
    else:
        failed = "cuCtxGetCurrent"  # no context is then the current one
    assert fake.calls[at - 1] == failed
    assert fake.contexts == [CONTEXT] * (failed == "cuCtxPopCurrent_v2")
    program.launch(*map(array, (a, b, c.fill_(torch.nan))))
    assert torch.equal(c, a.float() @ b.float())
    assert (len(fake.memory), fake.errors) == (1, [])
    assert len(fake.loaded) == 1 or failed == "cuThreadExchangeStreamCaptureMode"


def test_a_first_launch_makes_no_more_calls(opened: Path):
    """Control of the test before."""
    a, b = poisoned(8, 200, dtype=torch.bfloat16), poisoned(8, 200, dtype=torch.bfloat16).t()
    fake, c = interpreting_cuda(opened), poisoned(8, 8)
    program = Bundle.open(opened, fake).programs["workspace"]
    program.launch(*map(array, (a, b, c)))
    assert (len(fake.calls), fake.calls[-1]) == (FIRST, "cuCtxPopCurrent_v2")


def test_a_wrong_stride_would_show(three: Path):
    """Control: rows that lie elsewhere give another product."""
    torch.manual_seed(0)
    a, b = integers(101, 137, dtype=torch.bfloat16), integers(136, 72, dtype=torch.bfloat16)
    c, odd = poisoned(100, 72), a[:100, :136]
    program = Bundle.open(three, interpreting_cuda(three)).programs["gemm"]
    program.launch(array(odd), array(b), array(c))
    assert torch.equal(c, odd.float() @ b.float())
    program.launch(replace(array(odd), strides=(136, 1)), array(b), array(c))
    assert not torch.equal(c, odd.float() @ b.float())
