"""Programs of every kind through a bundle: tables of indices, integers, sizes that callers give,
several outputs, batches; each with padded tensors and guarded outputs."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from backends.triton_codegen import emit
from backends.triton_codegen.bundle import Bundle, Entry, bundle
from backends.triton_codegen.settings import Settings
from loopir.errors import LaunchError
from loopir.nodes import Program
from passes.pipeline import PassPipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.interpreted_launches import array, interpreting_cuda
from tests.support.launches import outputs
from tests.support.zoo import CASES, Case

#: of each program the merge under which it is compiled, None: as it is
KINDS: dict[str, Merge | None] = {
    "conv2d_groups_open": Merge.WORKSPACE,
    "gemm_km": Merge.FIXUP,
    "two_outputs": Merge.WORKSPACE,
    "symmetric_gather": Merge.ATOMIC_WORKSPACE,
    "scattered_rows": None,
    "int8_gemm": Merge.FIXUP,
    "bits": Merge.WORKSPACE,
    "batched_gemv": Merge.ATOMIC,
    "masked_max": Merge.WORKSPACE,
}
FOUND = {case.name: case for case in CASES if case.name in KINDS}
SETTINGS = Settings(num_warps=4, num_stages=2)


def passes(name: str) -> PassPipeline:
    merge, case = KINDS[name], FOUND[name]
    if merge is None:
        return PassPipeline()
    return PassPipeline((StreamKPass(merge=merge, units=5, launch_constants=bool(case.sizes)),))


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("zoo") / "bundle"
    entries = [Entry(FOUND[name].program, passes(name), name=name) for name in KINDS]
    bundle(entries, "cuda:90", folder, SETTINGS)
    return folder


class Bundled:
    """A program of a bundle as what `compile` returns for the interpreter."""

    def __init__(self, folder: Path, name: str, program: Program):
        self.folder, self.name = folder, name
        self.module = SimpleNamespace(program=program)
        self.target = SimpleNamespace(text="interpret")

    def __call__(self, *tensors: Any, **options: Any) -> None:
        self.fake = interpreting_cuda(self.folder, sms=5)
        launchable = Bundle.open(self.folder, self.fake).programs[self.name]
        launchable.launch(*map(array, tensors), **options)
        assert self.fake.errors == []


@pytest.mark.sampled
@pytest.mark.parametrize("name", KINDS)
def test_the_results_are_right(zoo: Path, name: str):
    case: Case = FOUND[name]
    kernel = Bundled(zoo, name, passes(name).run(case.program))
    arrays = case.inputs(3)
    found: Any = outputs(kernel, arrays, case.sizes)  # pyright: ignore[reportArgumentType]
    assert found
    for output, wanted in case.expected(arrays).items():
        np.testing.assert_array_equal(found[output].astype(wanted.dtype), wanted)


@pytest.mark.parametrize("name", KINDS)
def test_the_workspace_is_as_large_as_the_emitted_files(zoo: Path, name: str):
    case, program = FOUND[name], Bundle.open(zoo).programs[name]
    after = passes(name).run(case.program)
    module = emit(after, SETTINGS)
    sizes = dict(case.sizes)
    asked = {"sms": 5} if "units" in program.options else {}
    picks = {"UNITS": 5} if asked else {}
    found = program.workspace_bytes(**sizes, **asked)
    assert found == module.workspace_bytes({**sizes, **picks})
    assert (found > 0) == bool(after.workspaces)


def test_sizes_that_no_tensor_shows_are_asked_for(zoo: Path):
    program = Bundle.open(zoo).programs["conv2d_groups_open"]
    sizes = FOUND["conv2d_groups_open"].sizes
    assert program.options == ("G", "OCG")
    for name in program.options:
        told = {other: size for other, size in sizes.items() if other != name}
        with pytest.raises(LaunchError, match=f"{name}: no size is given"):
            program.workspace_bytes(**told)
