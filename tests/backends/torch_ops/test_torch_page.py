"""docs/torch.md: its Python runs and prints what it says; its tables are the code's."""

import inspect
import re

import pytest
import torch

from backends import torch_ops
from backends.torch_ops import Reason
from backends.torch_ops.checks import DTYPES
from backends.torch_ops.graph_targets import PRODUCTS
from loopir.build import Activation
from tests.support.documents import fenced, page

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's, of itself
PAGE = page("torch.md")
REPORT = "\n".join(re.findall(r"^    (.*)$", PAGE.split("print(report.text())")[1], re.MULTILINE))


def test_the_python_runs(capsys):
    torch.manual_seed(0)
    scope: dict = {}
    printed = []
    for code in fenced(PAGE, "python"):
        exec(compile(code, "torch.md", "exec"), scope)
        printed.append(capsys.readouterr().out.strip())
    assert scope["weight"].grad is not None
    assert scope["edges"].is_contiguous(memory_format=torch.channels_last)
    assert printed[2] == REPORT
    assert "3 taken, 1 left alone" in printed[3]
    torch._dynamo.reset()


def test_all_functions_are_shown_with_their_arguments():
    for name in ("matmul", "linear", "conv2d"):
        parameters = inspect.signature(getattr(torch_ops, name)).parameters.values()
        arguments = ", ".join(
            p.name if p.default is p.empty else f"{p.name}={text(p.default)}" for p in parameters
        )
        assert f"`{name}({arguments})`" in PAGE


def text(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("names", [[a.value for a in Activation], PRODUCTS], ids=len)
def test_all_names_are_listed(names: list[str]):
    assert all(f"`{name}`" in PAGE for name in names)


def test_all_types_are_listed():
    assert all(str(dtype).removeprefix("torch.") in PAGE for dtype in DTYPES)


def test_all_reasons_are_explained():
    rows = re.findall(r"^\| ([a-z ]+) \| [^|]+ \|$", PAGE.split("| reason |")[1], re.MULTILINE)
    assert rows == [reason.value for reason in Reason]
