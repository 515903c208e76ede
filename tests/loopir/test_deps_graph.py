"""The dependence graph: what is an edge, what breaks one, which loop carries it, and its text."""

import subprocess
import sys
from dataclasses import replace

import pytest

from loopir.deps import Kind, alias_classes, dependences, to_dot
from loopir.nodes import Kernel
from loopir.parser import parse
from loopir.printer import stmt_text
from loopir.verifier import verify
from tests.support.nests import GEMM_NEST
from tests.support.texts import GEMM, edited

ALLOCS = "alloc x: register f32[4]\nalloc y: register f32[4]\n"


def kernel(body: str, params: str = "A: f32[64], out C: f32[64]", clause: str = "") -> Kernel:
    text = f"kernel @k({params})\n where T = 4{clause} {{\ngrid (t) in [T] {{\n{body}\n}}\n}}\n"
    program = parse(text)
    verify(program)
    return program.kernels[0]


def shown(kernel: Kernel, name: str) -> set[str]:
    """The edges through a tile, a scalar or a buffer: source, kind, target, loop."""
    graph = dependences(kernel)

    def text(path) -> str:
        return stmt_text(graph.nodes[path]["stmt"])

    return {
        f"{text(a)} -{e['kind'].value}-> {text(b)}"
        + (f" by {text(e['carried_by'])}" if e["carried_by"] else "")
        for a, b, e in graph.edges(data=True)
        if e["object"] == name
    }


def tiles(body: str, name: str = "x") -> set[str]:
    """The edges through a tile of a body with tiles x and y, those of the allocs apart."""
    return {edge for edge in shown(kernel(ALLOCS + body), name) if not edge.startswith("alloc")}


# --- tiles


def test_value_is_read_from_the_last_write_only():
    assert tiles("fill x, 1\nfill x, 2\newise y = x") == {
        "fill x, 1 -waw-> fill x, 2",
        "fill x, 2 -raw-> ewise y = x",
    }


def test_mask_reads_the_scalars_of_its_bounds():
    masked = "let a = t + 1\nfill x, 1\newise y = mask(x, 0, a, 9, 0)"
    assert shown(kernel(ALLOCS + masked), "a") == {
        "let a = t + 1 -raw-> ewise y = mask(x, 0, a, 9, 0)"
    }
    assert shown(kernel(ALLOCS + masked.replace("a, 9", "0, 9")), "a") == set()


def test_parallel_band_carries_what_two_iterations_meet_in():
    carried = {
        source: [e["carried_by"] for _, _, e in dependences(found).edges(data=True)]
        for source in ("C[i, j]", "C[i, 0]")
        for found in [parse(edited(GEMM_NEST, ("C[i, j]", source))).kernels[0]]
    }
    outer, inner = ("body", 0), ("body", 0, "body", 0)
    assert inner not in carried["C[i, j]"]
    assert inner in carried["C[i, 0]"]
    assert outer not in (*carried["C[i, j]"], *carried["C[i, 0]"])


def test_write_waits_for_every_read_since_the_last_write():
    assert tiles("fill x, 1\newise y = x\newise y = x + 1\nfill x, 2") == {
        "fill x, 1 -raw-> ewise y = x",
        "fill x, 1 -raw-> ewise y = x + 1",
        "fill x, 1 -waw-> fill x, 2",
        "ewise y = x -war-> fill x, 2",
        "ewise y = x + 1 -war-> fill x, 2",
    }


def test_write_under_a_condition_leaves_the_earlier_value_possible():
    assert tiles("fill x, 1\nif t == 0 {\nfill x, 2\n}\newise y = x") == {
        "fill x, 1 -waw-> fill x, 2",
        "fill x, 1 -raw-> ewise y = x",
        "fill x, 2 -raw-> ewise y = x",
    }


def test_writes_in_both_branches_replace_the_earlier_value():
    body = "fill x, 1\nif t == 0 {\nfill x, 2\n} else {\nfill x, 3\n}\newise y = x"
    assert tiles(body) == {
        "fill x, 1 -waw-> fill x, 2",
        "fill x, 1 -waw-> fill x, 3",
        "fill x, 2 -raw-> ewise y = x",
        "fill x, 3 -raw-> ewise y = x",
    }


@pytest.mark.parametrize(
    ("loop", "runs"),
    [
        ("for i in 0 .. T", True),
        ("for i in 0 .. t", False),
        ("for i in T .. 2", False),
        ("wave w in 0 .. 2", True),
        ("wave w in 2 .. 2", False),
    ],
)
def test_write_in_a_loop_replaces_the_earlier_value_if_the_loop_runs(loop: str, runs: bool):
    found = tiles(f"fill x, 1\n{loop} {{\nfill x, 2\n}}\newise y = x")
    assert "fill x, 2 -raw-> ewise y = x" in found
    assert ("fill x, 1 -raw-> ewise y = x" in found) is not runs


def test_loop_carries_what_a_turn_reads_before_it_writes():
    assert tiles("fill x, 1\nfor i in 0 .. T {\newise y = x\nfill x, 2\n}") == {
        "fill x, 1 -raw-> ewise y = x",
        "fill x, 1 -waw-> fill x, 2",
        "ewise y = x -war-> fill x, 2",
        "fill x, 2 -raw-> ewise y = x by for i in 0 .. T",
        "fill x, 2 -waw-> fill x, 2 by for i in 0 .. T",
    }


def test_loop_carries_nothing_to_a_read_behind_a_write():
    found = tiles("for i in 0 .. T {\nfill x, 2\newise y = x\n}")
    assert "fill x, 2 -raw-> ewise y = x" in found
    assert not any("-raw->" in edge and " by " in edge for edge in found)


def test_each_loop_that_a_dependence_can_cross_has_an_edge():
    found = tiles("fill x, 1\nfor i in 0 .. T {\nfor j in 0 .. T {\newise x = x + 1\n}\n}")
    assert {edge for edge in found if "-> ewise x = x + 1" in edge and "ewise" in edge[:5]} == {
        f"ewise x = x + 1 -{kind}-> ewise x = x + 1 by for {iv} in 0 .. T"
        for kind in ("raw", "waw")
        for iv in "ij"
    }


def test_tile_that_a_turn_allocates_is_carried_by_no_loop():
    body = "for i in 0 .. T {\nalloc z: register f32[4]\nif i > 0 {\nfill z, 1\n}\newise x = z\n}"
    found = shown(kernel(ALLOCS + body), "z")
    assert "alloc z: register f32[4] -raw-> ewise x = z" in found
    assert not any(" by " in edge for edge in found)


def test_read_of_a_tile_that_may_hold_nothing_depends_on_its_alloc():
    found = shown(kernel(ALLOCS + "if t == 0 {\nfill x, 1\n}\newise y = x"), "x")
    assert "alloc x: register f32[4] -raw-> ewise y = x" in found
    found = shown(kernel(ALLOCS + "fill x, 1\newise y = x"), "x")
    assert "alloc x: register f32[4] -raw-> ewise y = x" not in found


def test_only_value_that_a_read_can_see_is_marked():
    for body, must in (("", True), ("if t == 0 {\nfill x, 2\n}\n", False)):
        graph = dependences(kernel(f"{ALLOCS}fill x, 1\n{body}ewise y = x"))
        edges = [e for *_, e in graph.edges(data=True) if e["object"] == "x"]
        assert {e["must"] for e in edges if e["kind"] is Kind.RAW} == {must}
        assert not any(e["must"] for e in edges if e["kind"] is not Kind.RAW)


# --- scalars


def test_while_carries_its_variable():
    body = "let c = 0\nwhile c < t {\nlet d = c + 1\nset c = d\n}"
    loop = "while c < t"
    assert shown(kernel(body), "c") == {
        "let c = 0 -raw-> while c < t",
        "let c = 0 -raw-> let d = c + 1",
        "let c = 0 -waw-> set c = d",
        "while c < t -war-> set c = d",
        "let d = c + 1 -war-> set c = d",
        f"set c = d -raw-> while c < t by {loop}",
        f"set c = d -raw-> let d = c + 1 by {loop}",
        f"set c = d -waw-> set c = d by {loop}",
    }
    assert shown(kernel(body), "d") == {"let d = c + 1 -raw-> set c = d"}


def test_condition_is_read_behind_the_last_turn_too():
    body = "let c = 0\nfor i in 0 .. T {\nwhile c < i {\nset c = c + 1\n}\n}"
    assert "while c < i -war-> set c = c + 1 by for i in 0 .. T" in shown(kernel(body), "c")


def test_grids_and_loops_make_their_variables():
    found = shown(kernel(f"{ALLOCS}for i in t .. T {{\nload x, A[i * 4 +: 4]\n}}"), "i")
    assert found == {"for i in t .. T -raw-> load x, A[4 * i +: 4]"}
    assert shown(kernel("for i in t .. T {\n}"), "t") == {"grid (t) in [T] -raw-> for i in t .. T"}


def test_flag_ties_an_arrive_to_the_condition():
    text = (
        "workspace n: i32[4]\nkernel @k(A: f32[4]) {\ngrid (t) in [4] {\n"
        "arrive last, n[t], 1\nif last {\n}\n}\n}\n"
    )
    assert shown(parse(text).kernels[0], "last") == {"arrive last, n[t], 1 -raw-> if last"}


# --- memory


def memory(
    first: str, second: str = "", name: str = "C", params: str = "inout C: f32[64]", clause=""
) -> set[str]:
    """The edges through a buffer of two statements: `1-raw-2`, or `1-waw-1 by t` if a loop carries
    it."""
    found = kernel(f"{ALLOCS}fill x, 1\n{first}\n{second}", params, clause)
    graph = dependences(found)
    nodes = [p for p in graph if any(w in stmt_text(graph.nodes[p]["stmt"]) for w in "[+:")]
    numbers = {p: n for n, p in enumerate((p for p in nodes if _moves(graph, p)), start=1)}
    return {
        f"{numbers[a]}-{e['kind'].value}-{numbers[b]}" + (" by t" if e["carried_by"] else "")
        for a, b, e in graph.edges(data=True)
        if e["in_memory"] and e["object"] == name
    }


def _moves(graph, path) -> bool:
    return stmt_text(graph.nodes[path]["stmt"]).split()[0] in ("load", "store", "atomic")


def test_tiles_side_by_side_are_apart_in_every_iteration():
    assert memory("store C[t * 4 +: 4], x") == set()


def test_tiles_that_overlap_meet_across_the_grid():
    assert memory("store C[t * 3 +: 4], x") == {"1-waw-1 by t"}


def test_what_no_iteration_tells_meets_itself():
    assert memory("store C[0 +: 4], x") == {"1-waw-1 by t"}


def test_elements_of_one_tile_can_meet_within_an_iteration():
    access = "C[t, m // 2] over (m = 0 +: 4)"
    assert memory(f"store {access}, x", params="inout C: f32[4, 4]") == {"1-waw-1"}


def test_store_and_load_of_the_same_elements_meet_in_one_iteration_only():
    assert memory("store C[t * 4 +: 4], x", "load y, C[t * 4 +: 4]") == {"1-raw-2"}
    assert memory("load y, C[t * 4 +: 4]", "store C[t * 4 +: 4], x") == {"1-war-2"}


def test_neighbouring_tiles_of_one_iteration_are_apart_and_meet_across_iterations():
    found = memory("store C[t * 4 +: 4], x", "load y, C[t * 4 + 4 +: 4] masked")
    assert found == {"1-raw-2 by t", "2-war-1 by t"}


def test_rows_with_different_constants_never_meet():
    params = "inout C: f32[2, 4]"
    assert memory("store C[0, 0 +: 4], x", "load y, C[1, 0 +: 4]", params=params) == {
        "1-waw-1 by t"
    }


@pytest.mark.parametrize(
    ("step", "second", "meet"),
    [(8, 4, False), (9, 5, False), (7, 4, True), (8, 6, True), (8, 3, True)],
)
def test_pieces_of_a_tile_meet_no_piece_of_another(step: int, second: int, meet: bool):
    """`meet` where the second piece reaches into the next tile, or into the first piece."""
    found = memory(f"store C[t * {step} +: 4], x", f"store C[t * {step} + {second} +: 4], x")
    assert bool(found) is meet
    assert ("1-waw-2 by t" in found) is (second + 4 > step)


@pytest.mark.parametrize(("second", "meet"), [(1, False), (2, True)])
def test_rows_that_a_block_stores_one_by_one_are_pieces_too(second: int, meet: bool):
    first, next_ = "store C[2 * t, 0 +: 4], x", f"store C[2 * t + {second}, 0 +: 4], x"
    assert bool(memory(first, next_, params="inout C: f32[12, 4]")) is meet


def test_pieces_that_start_at_a_scalar_that_changes_may_meet():
    body = "let c = t\nwhile c < 4 {\nstore C[c * 8 +: 4], x\nset c = c + 1\n"
    assert "2-waw-1 by t" in memory(f"{body}store C[c * 8 - 4 +: 4], x\n}}")


def test_branches_of_one_condition_meet_across_iterations_only():
    first, second = "store C[0 +: 4], x", "store C[0 +: 4], y"
    body = f"fill y, 0\nif t == 0 {{\n{first}\n}} else {{\n{second}\n}}"
    assert "1-waw-2" not in memory(body)
    assert {"1-waw-2 by t", "2-waw-1 by t"} <= memory(body)


def test_atomics_read_and_write():
    assert memory("atomic add C[0 +: 4], x") == {"1-raw-1 by t", "1-war-1 by t", "1-waw-1 by t"}


def test_scalar_that_changes_between_two_accesses_keeps_them_no_distance_apart():
    body = "let c = 0\nstore C[c +: 4], x\nwhile c < 4 {\nset c = c + 4\n}\nload y, C[c - 4 +: 4]"
    assert "1-raw-2" in memory(body)


def test_while_carries_a_store_whatever_it_indexes():
    body = "let c = 0\nwhile c < 4 {\nstore C[t * 4 +: 4], x\nset c = c + 1\n}"
    assert memory(body) == {"1-waw-1 by t"}


def test_wave_that_its_tile_tells_carries_nothing():
    wave = "wave w in 0 .. 4 {{\nstore C[t * 16 + w * {step} +: 4], x\n}}"
    assert memory(wave.format(step=4)) == set()
    assert memory(wave.format(step=3)) == {"1-waw-1 by t"}


def test_loads_alone_make_no_edge():
    assert memory("load y, C[0 +: 4]", "load x, C[0 +: 4]") == set()


def test_buffers_meet_only_where_an_alias_is_declared():
    body = "store C[t * 4 +: 4], x", "load y, A[t * 4 +: 4]"
    params = "A: f32[64], inout C: f32[64]"
    assert memory(*body, params=params) == set()
    found = memory(*body, params=params, clause="\nalias(A, C)")
    assert found == {"1-raw-2", "1-raw-2 by t"}


def test_alias_reaches_through_a_third_buffer():
    params = "A: f32[4], B: f32[4], C: f32[4], D: f32[4]"
    classes = alias_classes(kernel("", params, "\nalias(A, B)\nalias(C, B)"))
    assert classes == {n: frozenset("ABC") for n in "ABC"} | {"D": frozenset("D")}


def test_own_edges_name_what_the_element_does_not_tell():
    graph = dependences(kernel(ALLOCS + "fill x, 1\nstore C[0 +: 4], x"))
    assert [e["untold"] for *_, e in graph.edges(data=True) if e["in_memory"]] == [("t",)]


# --- graph and text


def test_nodes_are_paths_from_the_kernel_in_text_order_without_the_reduce():
    kernel = parse(GEMM).kernels[0]
    graph = dependences(kernel)
    assert list(graph)[:2] == [("body", 0), ("body", 0, "body", 0)]
    assert [stmt_text(s).split()[0] for _, s in graph.nodes(data="stmt")] == [
        "grid", "alloc", "alloc", "alloc", "fill", "for", "coop_load", "coop_load", "barrier",
        "dot", "barrier", "store",
    ]  # fmt: skip


DOT_TEXT = """\
digraph "k" {
  node [shape=box, fontname=monospace];
  s0 [label="grid (t) in [T]"];
  s1 [label="alloc x: register f32[4]"];
  s2 [label="fill x, 1"];
  s3 [label="for i in 0 .. T"];
  s4 [label="ewise x = x + 1"];
  s1 -> s2 [label="waw x", style=dashed];
  s2 -> s4 [label="raw x", style=solid];
  s2 -> s4 [label="waw x", style=dashed];
  s4 -> s4 [label="raw x (carried by for i)", style=solid];
  s4 -> s4 [label="waw x (carried by for i)", style=dashed];
}
"""


def test_text_for_graphviz():
    body = "alloc x: register f32[4]\nfill x, 1\nfor i in 0 .. T {\newise x = x + 1\n}"
    assert to_dot(dependences(kernel(body))) == DOT_TEXT


def test_quotes_and_backslashes_are_escaped():
    named = replace(kernel(""), name='a "b" \\ c')
    assert to_dot(dependences(named)).startswith('digraph "a \\"b\\" \\\\ c" {\n')


def test_text_is_the_same_in_processes_with_different_hash_seeds():
    code = (
        "from loopir.build import gemm; from loopir.deps import dependences, to_dot\n"
        "from passes.stream_k import StreamKPass\n"
        "p = StreamKPass(units=5).apply(gemm(96, 80, 100, 'f16'))\n"
        "print(to_dot(dependences(p.kernels[0])))"
    )
    texts = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed})
        for seed in ("0", "1", "12345")
    }
    assert len(texts) == 1


def test_networkx_is_imported_by_the_first_graph_only():
    code = (
        "import sys, loopir.printer, loopir.parser, loopir.verifier, loopir.deps\n"
        "import passes.pipeline, passes.stream_k, passes.opt\n"
        "print('networkx' in sys.modules)\n"
        "from loopir.build import gemm\n"
        "loopir.deps.dependences(gemm(8, 8, 8, 'f32').kernels[0])\n"
        "print('networkx' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code]).split() == [b"False", b"True"]


def test_edit_of_one_line_changes_the_graph_there():
    """Control: a fill that is moved into the panel loop cuts the sum off from the panels before."""
    moved = edited(
        GEMM, ("    fill acc, 0\n", ""), ("        dot acc", "        fill acc, 0\n        dot acc")
    )
    before, after = (shown(parse(text).kernels[0], "acc") for text in (GEMM, moved))
    carried = "dot acc, a, b -raw-> dot acc, a, b by for kp in 0 .. P"
    assert carried in before
    assert carried not in after
