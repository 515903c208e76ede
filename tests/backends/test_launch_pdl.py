"""Kernels that overlap the launch of the next one: the second waits before it reads."""

import re

import pytest

from backends.triton_codegen import AotKernel, CompiledKernel, Settings, compile, emit
from loopir.errors import CodegenError
from loopir.nodes import Program
from loopir.parser import parse
from tests.support.merged_products import EXACT, Run, product_of
from tests.support.workspace_texts import FIXUP

SHAPE = (70, 90, 100)
OPTIONS = "merge=fixup units=5 pieces=2"


def program() -> Program:
    return product_of(SHAPE, OPTIONS, EXACT)


def test_it_is_off_and_of_several_kernels_only():
    plain, overlapping = emit(program()).source, emit(program(), Settings(launch_pdl=True)).source
    calls = ("start_next()", "after_previous()", "later = dict(options, launch_pdl=True)")
    assert not any(call in plain for call in calls)
    assert all(call in overlapping for call in calls)
    single = emit(product_of(SHAPE, "units=5"), Settings(launch_pdl=True)).source
    assert not any(call in single for call in calls)
    assert "launch_pdl=on" in overlapping
    assert "launch_pdl=on" not in plain


def test_the_interpreter_runs_the_kernels_one_after_the_other():
    kernel = compile(program(), "interpret", launch_pdl=True)
    assert isinstance(kernel, CompiledKernel)
    run = Run(SHAPE, 1, EXACT)
    run.launch(kernel)
    run.check()


def test_the_second_kernel_reads_nothing_before_it_has_waited():
    """Control: the first, which waits for nobody, reads from the start."""
    first = compile(program(), "cuda:90", launch_pdl=True)
    assert isinstance(first, AotKernel)
    one, two = (operations(kernel.sass) for kernel in first.kernels)
    reads = [i for i, op in enumerate(two) if op.startswith(("LDG", "STG", "UBLK"))]
    assert two.count("ACQBULK") == 1
    assert two.index("ACQBULK") < min(reads)
    assert one.count("PREEXIT") == 1
    assert "ACQBULK" not in one


def operations(sass: str) -> list[str]:
    return re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]+)", sass, re.M)


@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_older_targets_refuse_it(target: str):
    settings = {"num_stages": 2, "launch_pdl": True}
    with pytest.raises(CodegenError, match="launch_pdl needs cuda:90 or newer"):
        compile(parse(FIXUP), target, **settings)
    compile(parse(FIXUP), target, num_stages=2)


def test_a_word_is_no_switch():
    with pytest.raises(CodegenError, match="launch_pdl: True or False, not 'on'"):
        compile(program(), "interpret", launch_pdl="on")
