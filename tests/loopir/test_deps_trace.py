"""Every dependence that a run shows is in the graph: kernels of all kinds, as they are and
rewritten, and random ones."""

from dataclasses import replace
from itertools import count
from random import Random

import numpy as np
import pytest

from loopir.deps import Kind, dependences
from loopir.interp import random_inputs
from loopir.interp.arguments import bind_where
from loopir.nodes import Kernel, Program
from loopir.parser import parse
from loopir.scope import launch_symbols
from loopir.symbols import evaluate
from loopir.verifier import violations
from passes.pipeline import parse_pipeline
from tests.support import kernels, protocols
from tests.support.texts import GEMM, edited
from tests.support.tracing import Observed, observed
from tests.support.wave_programs import random_wave_kernel

SMALL = edited(GEMM, ("M = 96, N = 80, K = 100, BM = 32, BN = 32, BK = 16",
                      "M = 5, N = 7, K = 7, BM = 2, BN = 4, BK = 3"))  # fmt: skip
REWRITTEN = (
    "stream-k{units=5}",
    "tile-order{group=2},stream-k{units=4 bounds=ceil}",
    "tile-order{along_m},stream-k{splits=3}",
)

STATE = """\
kernel @state(order: i32[T], X: f32[T, N], inout Y: f32[T, N], out Z: f32[T, N])
    where T = 4, N = 3
    alias(X, Y) {
  grid (t) in [T] {
    alloc x: register f32[N]
    alloc y: register f32[N]
    fill y, 0
    let u = order[t]
    let i = 0
    let j = 5
    while i < u + 1 and j > 0 {
      let k = i + j
      if k % 2 == 0 {
        load x, X[t, 0 +: N]
        set j = j - 1
      } else {
        fill x, 1
        for q in 0 .. i {
          ewise y = y + x
          if q == 1 {
            alloc z: register f32[N]
            ewise z = y
            ewise x = z + x
          }
        }
      }
      set i = i + 1
    }
    wave w in 0 .. 2 {
      ewise y = y * 2
      store Z[w, 0 +: N], y
    }
    store Z[t, 0 +: N], y
    load x, Z[T - 1 - t, 0 +: N]
    store Y[t, 0 +: N], x
  }
}
""".replace("out Z", "inout Z")


LEAVES = (
    "fill x, 1", "fill y, 2", "ewise x = y", "ewise y = x + y", "ewise z = x", "ewise x = z",
    "load z, Y[t, 0 +: 3]", "load x, Y[# % T, 0 +: 3]", "store Y[t, 0 +: 3], y",
    "store Z[#, 0 +: 3], x masked", "store Z[0, t +: 3], z masked",
    "load y, Z[# + 1, 0 +: 3] masked",
)  # fmt: skip
BLOCKS = (
    "if # % 2 == 0 {\n@}", "if # > t {\n@} else {\n@}", "for N in # .. 2 {\n@}",
    "wave N in 0 .. 2 {\n@}", "let N = 0\nwhile N < # + 1 and N < 3 {\n@set N = N + 1\n@}",
    "while c < # and c < 5 {\nset c = c + 1\n@}",
    "alloc N: register f32[3]\n@fill N, 3\newise x = N",
)  # fmt: skip


def random_kernel(seed: int) -> str:
    """Tiles x, y, z and scalars under nested loops and conditions."""
    rng, made = Random(seed), count()

    def body(scalars: tuple[str, ...], depth: int) -> str:
        lines = (statement(scalars, depth) for _ in range(rng.randint(1, 3)))
        return "".join(f"{line}\n" for line in lines)

    def statement(scalars: tuple[str, ...], depth: int) -> str:
        text = rng.choice(BLOCKS if depth and rng.random() < 0.5 else LEAVES)
        name = f"n{next(made)}"
        text = text.replace("#", rng.choice(scalars)).replace("N", name)
        inner = (*scalars, name) if f"while {name}" in text or " in " in text else scalars
        while "@" in text:
            text = text.replace("@", body(inner, depth - 1), 1)
        return text

    head = "".join(f"alloc {n}: register f32[3]\nfill {n}, 0\n" for n in "xyz")
    return (
        "kernel @k(inout Y: f32[T, 3], inout Z: f32[T, 3])\n where T = 3 {\ngrid (t) in [T] {\n"
        f"{head}let c = 0\n{body(('t', 'c'), 3)}}}\n}}\n"
    )


def in_graph(kernel: Kernel) -> set[Observed]:
    edges = dependences(kernel).edges(data=True)
    return {Observed(a, b, e["kind"], e["object"], e["carried_by"]) for a, b, e in edges}


def run_of(program: Program, seed: int) -> frozenset[Observed]:
    """What a run of the first kernel shows."""
    kernel = program.kernels[0]
    sizes = {n: size for n, size in kernels.SIZES.items() if n in launch_symbols(kernel)}
    arrays = dict(random_inputs(replace(program, kernels=(kernel,)), seed, sizes=sizes))
    bind_where(kernel, sizes)
    for w in program.workspaces:
        arrays[w.name] = np.zeros([evaluate(e, sizes) for e in w.shape])
    return observed(kernel, sizes, arrays)


def missing(program: Program, seed: int = 0) -> set[Observed]:
    return set(run_of(program, seed) - in_graph(program.kernels[0]))


TEXTS = {name: kernels.text(name) for name in kernels.NAMES}
TEXTS |= {"FOLD": protocols.FOLD, "STATE": STATE, "SMALL": SMALL}


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_run_shows_is_in_the_graph(name: str):
    assert missing(parse(TEXTS[name])) == set()


def test_graph_of_a_gemm_has_nothing_that_a_run_does_not_show():
    assert in_graph(parse(SMALL).kernels[0]) == run_of(parse(SMALL), 0)


@pytest.mark.parametrize("pipeline", REWRITTEN)
def test_what_a_run_of_a_persistent_kernel_shows_is_in_the_graph(pipeline: str):
    assert missing(parse_pipeline(pipeline).run(parse(SMALL))) == set()


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_what_a_run_of_a_random_kernel_shows_is_in_the_graph(first: int):
    ran = 0
    for seed in range(first, first + 50):
        program = parse(random_wave_kernel(seed))
        if not violations(program):
            ran += 1
            assert missing(program) == set(), f"seed {seed}"
    assert ran > 10


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_what_a_run_of_random_control_flow_shows_is_in_the_graph(first: int):
    ran = 0
    for seed in range(first, first + 100):
        program = parse(random_kernel(seed))
        if not violations(program):
            ran += 1
            assert missing(program) == set(), f"seed {seed}"
    assert ran > 40


def test_a_run_shows_dependences_of_every_kind_inside_and_across_loops():
    """Control: the trace is not empty, so that an empty graph would not do."""
    found = run_of(parse(STATE), 0)
    assert {(o.kind, o.carried_by is None) for o in found} == {
        (kind, inside) for kind in Kind for inside in (True, False)
    }
    assert {o.object for o in found} >= {"t", "i", "j", "x", "y", "Z"}
