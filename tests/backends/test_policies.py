"""The cache policy in the copies of descriptors whose tensors are read once."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from backends.triton_codegen import AotKernel, Module, compile, emit, parse_target
from backends.triton_codegen.aot import aligned_arguments, compile_function
from backends.triton_codegen.load import load
from loopir.parser import parse
from loopir.printer import to_text
from passes.pipeline import parse_pipeline
from tests.support.numerics import integers
from tests.support.texts import GEMM, edited

FEW_ROWS = edited(GEMM, ("M = 96, N = 80, K = 100", "M = 32, N = 96, K = 128"))
PIPELINES = [
    "evict-first,descriptors",
    "evict-first,stream-k{units=3 merge=workspace},descriptors",
    "evict-first,stream-k{splits=2 merge=fixup decomposition=split-k},descriptors",
    "evict-first,stream-k{units=2 decomposition=data-parallel},flatten,descriptors",
]
COPY = "cp.async.bulk.tensor.2d.shared::cluster"
LINE = (
    '  call void asm sideeffect "@$0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::'
    'complete_tx::bytes [$1], [$2, {$3, $4}], [$5];", "b,r,l,r,r,r"(i1 %42, ptr addrspace(3) '
    "getelementptr (i8, ptr addrspace(3) @global_smem, i32 8), ptr nonnull %X, i32 %46, i32 %19, "
    "ptr addrspace(3) %50) #6, !dbg !20"
)
HEAD = (
    "define ptx_kernel void @gemm(ptr addrspace(1) %0, ptr byval([128 x i8]) align 64 "
    '"nvvm.grid_constant" %3, i32 %4, ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %8) {'
)


def module(pipeline: str) -> Module:
    return emit(parse_pipeline(pipeline).run(parse(FEW_ROWS)))


def ahead(pipeline: str) -> AotKernel:
    return compile(module(pipeline), "cuda:90", num_stages=3)


def copies(kernel: AotKernel) -> tuple[int, int]:
    """Copies into shared memory in the PTX, and those of them that have a policy."""
    lines = [line for line in kernel.assembly.splitlines() if COPY in line]
    return len(lines), sum(".L2::cache_hint" in line for line in lines)


@cache
def functions():
    """What an emitted file defines."""
    return compile(module(PIPELINES[0]), "interpret").namespace


def policies(name: str = "gemm", places: tuple[int, ...] = (1,)) -> Any:
    return functions()._Policies(name, places)


# --- the instructions


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_copies_of_what_is_read_once_have_a_policy(pipeline: str):
    """Of A and B each panel is one copy, so half of them are B's."""
    kernel = ahead(pipeline)
    all_of_them, with_policy = copies(kernel)
    assert 0 < all_of_them == 2 * with_policy
    descriptors = [arg.symbol for arg in kernel.info.args if arg.kind.value == "descriptor"]
    assert [descriptors[i] for i in kernel.info.evict_first] == ["B"]
    assert kernel.fallback is not None
    assert copies(kernel.fallback) == (0, 0)


def test_the_machine_code_has_it():
    found = re.findall(r"UTMALDG\.2D \[\w+\], \[\w+\](, desc\[\w+\])?", ahead(PIPELINES[0]).sass)
    assert found
    assert 2 * sum(map(bool, found)) == len(found)


def test_control_without_the_word_there_is_none():
    """Compiled beside the others: a compiler's cache must not take one for the other."""
    assert copies(ahead(PIPELINES[0]))[1] > 0
    all_of_them, with_policy = copies(ahead("descriptors"))
    assert all_of_them > with_policy == 0
    assert "_Policies" not in module("descriptors").source


def test_loads_by_one_descriptor_must_all_say_so():
    text = to_text(parse_pipeline(PIPELINES[0]).run(parse(FEW_ROWS)))
    load = next(line for line in text.splitlines() if line.endswith("evict_first"))
    assert emit(parse(text)).kernels[0].described.evict_first == (1,)
    twice = text.replace(load, f"{load}\n{load}")
    assert emit(parse(twice)).kernels[0].described.evict_first == (1,)
    for again in (f"{load.removesuffix(' evict_first')}\n{load}", f"{load}\n{load[:-12]}"):
        assert emit(parse(text.replace(load, again))).kernels[0].described.evict_first == ()


def test_the_interpreter_has_no_copies_and_the_same_numbers():
    a, b = integers((32, 128), torch.float16, 1), integers((128, 96), torch.float16, 2)
    found = [torch.full((32, 96), torch.nan) for _ in range(2)]
    for pipeline, c in zip((PIPELINES[0], "descriptors"), found, strict=True):
        compile(module(pipeline), "interpret")(a, b, c)
    assert torch.equal(*found)
    assert torch.equal(found[0], a.float() @ b.float())


# --- the text


def test_a_copy_of_a_descriptor_that_is_named():
    changed = policies().added(f"{HEAD}\n{LINE.replace('%X', '%8')}\n}}")
    asm, constraints = re.findall(r'"([^"]*)"', changed.splitlines()[1])
    assert asm == (
        "{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0; "
        "@$0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [$1], [$2, {$3, $4}], [$5], policy; }"
    )
    assert constraints == "b,r,l,r,r,r"
    assert changed.replace(asm, LINE.split('"')[1]) == f"{HEAD}\n{LINE.replace('%X', '%8')}\n}}"


@pytest.mark.parametrize(
    ("head", "line", "places"),
    [
        (HEAD, LINE.replace("%X", "%3"), (1,)),
        (HEAD, LINE.replace("%X", "%8"), (0,)),
        (HEAD, LINE.replace("%X", "%88"), (0, 1)),
        (HEAD, LINE.replace("%X", "%8"), (2,)),
        (HEAD, LINE.replace("%X", "%8"), ()),
        ("", LINE.replace("%X", "%8"), (0, 1)),
        (HEAD, "  %5 = load i32, ptr %8", (0, 1)),
    ],
)
def test_any_other_line_stays_as_it_is(head: str, line: str, places: tuple[int, ...]):
    text = f"{head}\n{line}"
    assert policies(places=places).added(text) == text


def test_a_copy_that_looks_otherwise_is_told_of():
    """Control: one of a descriptor that is not named is not."""
    otherwise = "\n".join((HEAD, LINE.replace("%X", "%8").replace("::bytes", "")))
    with pytest.warns(UserWarning, match="gemm: copies look unlike those of Triton"):
        assert policies().added(otherwise) == otherwise
    assert policies(places=(0,)).added(otherwise) == otherwise


# --- the hook


KEY = "ptx_options"


def lowered(name: str = "gemm", **options: str) -> str:
    """What Triton's backend makes of a kernel that is compiled with these options."""
    text = f"{HEAD}\n{LINE.replace('%X', '%8')}".replace("@gemm", f"@{name}")
    stages = {"llir": lambda source: text}
    hook = knobs.runtime.add_stages_inspection_hook
    if hook is not None:
        hook(None, stages, SimpleNamespace(**options), None, 90)
    return stages["llir"]("source")


def marked(name: str = "gemm") -> bool:
    """Whether a kernel that is compiled for policies gets them."""
    return "cache_hint" in lowered(name, **functions()._key_of_policies())


@pytest.fixture(autouse=True)
def no_hook(monkeypatch):
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)


def test_the_hook_is_there_while_it_is_asked_for():
    with policies():
        assert marked()
    assert knobs.runtime.add_stages_inspection_hook is None
    assert not marked()
    with pytest.raises(ZeroDivisionError), policies():
        raise ZeroDivisionError
    assert knobs.runtime.add_stages_inspection_hook is None


def test_another_kernel_compiled_meanwhile_stays_as_it_is():
    """One of another name, and one of the same name that asks for no policies."""
    with policies():
        assert not marked("other")
        assert "cache_hint" not in lowered()
        assert "cache_hint" not in lowered(ptx_options="")


def test_a_hook_of_the_users_is_called_and_stays():
    seen = []
    knobs.runtime.add_stages_inspection_hook = hook = lambda *given: seen.append(given[1])
    with policies(), policies():
        assert marked()
    assert len(seen) == 1
    assert knobs.runtime.add_stages_inspection_hook is hook


def test_a_hook_that_is_set_meanwhile_stays():
    with policies():
        knobs.runtime.add_stages_inspection_hook = hook = lambda *given: None
    assert knobs.runtime.add_stages_inspection_hook is hook


def test_a_hook_that_somebody_kept_does_nothing_afterwards():
    with policies():
        kept = knobs.runtime.add_stages_inspection_hook
    knobs.runtime.add_stages_inspection_hook = kept
    assert not marked()


def test_threads_that_compile_at_the_same_time_have_their_own():
    """Kernels of one name in two files, of which other descriptors are marked."""
    other, both = load(module(PIPELINES[1]).source), threading.Barrier(2, timeout=30)

    def compiled(namespace, place: int):
        for _ in range(20):
            both.wait()
            with namespace._Policies("gemm", (place,)):
                found = lowered(**namespace._key_of_policies())
                assert ("cache_hint" in found) == (place == 1)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(compiled, functions(), 1), pool.submit(compiled, other, 0)]:
            done.result()
    assert knobs.runtime.add_stages_inspection_hook is None


def test_one_may_wait_for_another_thread_that_compiles():
    with policies(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: _inside(marked)).result(timeout=30)
        assert marked()
    assert knobs.runtime.add_stages_inspection_hook is None


def _inside(function):
    with policies():
        return function()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_compiles_as_ever():
    """While a thread compiles, which the child does not have."""
    entered, done = threading.Event(), threading.Event()

    def other():
        with policies():
            entered.set()
            done.wait(30)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(30)
    child = os.fork()
    if child == 0:
        is_free = knobs.runtime.add_stages_inspection_hook is None
        os._exit(0 if is_free and _inside(marked) and not marked() else 1)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_a_thread_of_tritons_compiles_for_it_has_policies():
    with policies(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(marked).result()


# --- caches


def test_triton_keeps_kernels_with_policies_apart(monkeypatch):
    """By an option, since its key knows no hooks, and by the text, which says the policy."""
    for given in (None, "-O3"):
        monkeypatch.setattr(knobs.nvidia, "ptxas_options", given)
        backend = make_backend(GPUTarget("cuda", 90, 32))
        default = {KEY: given} if given else {}
        keys = {backend.parse_options(o).hash() for o in (default, functions()._key_of_policies())}
        assert len(keys) == 2
    kernel = functions().gemm_descriptors.src
    assert "# B_desc: copies with createpolicy.fractional.L2::evict_first.b64" in kernel
    assert "createpolicy" not in load(module("descriptors").source).gemm_descriptors.src


def test_a_compilation_without_the_hook_spoils_nothing():
    wider = edited(FEW_ROWS, ("N = 96", "N = 224"))
    emitted = emit(parse_pipeline(PIPELINES[0]).run(parse(wider)))
    info, target = emitted.kernels[0].described, parse_target("cuda:90")
    assert info is not None
    plain = replace(info, args=tuple(replace(arg, evict_first=False) for arg in info.args))
    aligned = aligned_arguments(info, emitted.program.kernels[0])
    assert copies(compile_function(emitted, plain, aligned, target))[1] == 0
    assert copies(compile_function(emitted, info, aligned, target))[1] > 0
