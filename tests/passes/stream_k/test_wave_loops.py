"""Wave loops through stream-k: accepted where they stand around the reduce or around the writeback,
with every element told by its wave; the same bits before and after, and once emitted."""

import pytest

from loopir.errors import NotApplicable
from loopir.interp import Seeded, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.printer import to_text
from loopir.verifier import verify
from passes.base import Refused
from passes.pipeline import parse_pipeline
from passes.stream_k import Merge, StreamKPass
from tests.support.interp import same_bits
from tests.support.reference import outputs_of_both
from tests.support.texts import edited
from tests.support.wave_kernels import GEMM_ROWS

Edit = tuple[str, str]

SMALL = "M = 37, N = 21, K = 45, BM = 16, BN = 16, BK = 8, WM = 4"

#: a wave loop around everything: each wave has its own rows and its own reduction
AROUND = edited(
    GEMM_ROWS,
    ("M = 100, N = 72, K = 70, BM = 64, BN = 32, BK = 16, WM = 16", SMALL),
)

#: a wave loop around the writeback only: each wave stores a copy of the tile
EPILOGUE = """\
kernel @copies(A: f16[M, K], B: f16[K, N], out C: f32[S, M, N])
    where M = 37, N = 21, K = 45, BM = 16, BN = 16, BK = 8, S = 3, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc a: shared f16[BM, BK]
    alloc b: shared f16[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        barrier
        dot acc, a, b
        barrier
      }
    }
    wave w in 0 .. S {
      store C[w, ti * BM +: BM, tj * BN +: BN], acc masked
    }
  }
}
"""

FILL = "      fill acc, 0\n"
STORE = "      store C[ti * BM + w * WM +: WM, tj * BN +: BN], acc masked\n"
REDUCE = AROUND[AROUND.index("      reduce") : AROUND.index("      store")]
WAVE = "wave w in 0 .. BM // WM {"

#: name -> (base, edits)
ACCEPTED: dict[str, tuple[str, tuple[Edit, ...]]] = {
    "around everything": (AROUND, ()),
    "around the writeback": (EPILOGUE, ()),
    "columns": (
        AROUND,
        (
            ("acc: register f32[WM, BN]", "acc: register f32[BM, WM]"),
            ("a: shared f16[WM, BK]", "a: shared f16[BM, BK]"),
            ("b: shared f16[BK, BN]", "b: shared f16[BK, WM]"),
            ("A[ti * BM + w * WM +: WM", "A[ti * BM +: BM"),
            ("B[kp * BK +: BK, tj * BN +: BN]", "B[kp * BK +: BK, tj * BN + w * WM +: WM]"),
            ("C[ti * BM + w * WM +: WM, tj * BN +: BN]",
             "C[ti * BM +: BM, tj * BN + w * WM +: WM]"),
        ),
    ),
    "let in the wave": (
        AROUND,
        (
            (FILL, FILL + "      let row = ti * BM + w * WM\n"),
            ("A[ti * BM + w * WM", "A[row"),
            ("C[ti * BM + w * WM", "C[row"),
        ),
    ),
    "nested": (
        AROUND,
        (
            (WAVE, "wave v in 0 .. 2 {\nwave w in 0 .. BM // WM // 2 {"),
            ("A[ti * BM + w * WM", "A[ti * BM + v * 2 * WM + w * WM"),
            ("C[ti * BM + w * WM", "C[ti * BM + v * 2 * WM + w * WM"),
            (STORE.split("\n")[0][-10:] + "\n    }", STORE.split("\n")[0][-10:] + "\n    }\n}"),
        ),
    ),
    "one wave that nothing tells": (
        AROUND,
        (
            ("WM = 4", "WM = 16"),
            ("A[ti * BM + w * WM", "A[ti * BM"),
            ("C[ti * BM + w * WM", "C[ti * BM"),
        ),
    ),
}  # fmt: skip

#: name -> (base, edits, codes)
REFUSED: dict[str, tuple[str, tuple[Edit, ...], str]] = {
    "sequential loop": (AROUND, ((WAVE, WAVE.replace("wave", "for")),), "SK01"),
    "condition in the wave": (
        AROUND,
        ((REDUCE, f"      if w == 0 {{\n{REDUCE}      }}\n"),),
        "SK01",
    ),
    "copies in one place": (EPILOGUE, (("C[w, ", "C[0, "), ("f32[S, M", "f32[1, M")), "SK10"),
    "rows of the first wave": (AROUND, (("C[ti * BM + w * WM", "C[ti * BM"),), "SK10"),
    "rows that overlap": (AROUND, (("C[ti * BM + w * WM", "C[ti * BM + w * 3"),), "SK10"),
    "rows beyond the tile": (AROUND, (("0 .. BM // WM", "0 .. BM // WM + 1"),), "SK10"),
    "rows two by two": (AROUND, (("C[ti * BM + w * WM", "C[ti * BM + w // 2 * 2 * WM"),), "SK10"),
    "rows for columns": (
        AROUND,
        (("C[ti * BM + w * WM +: WM, tj", "C[ti * BM + w * WM +: WM, w"),),
        "SK10",
    ),
    "operand of the wave before": (
        AROUND,
        (
            ("    alloc b", "    alloc c: shared f16[BK, BN]\n    fill c, 1\n    alloc b"),
            (FILL, FILL + "      alloc d: register f32[BK, BN]\n      ewise d = cast(f32, c)\n"
             "      alloc e: shared f16[BK, BN]\n      ewise e = cast(f16, d)\n"),
            ("          dot acc, a, b\n",
             "          load c, B[kp * BK +: BK, tj * BN +: BN] masked\n          dot acc, a, e\n"),
        ),
        "SK11",
    ),
    "start left by the wave before": (
        AROUND,
        (
            ("      alloc acc: register f32[WM, BN]\n", ""),
            (FILL, ""),
            ("    wave w", "    alloc acc: register f32[WM, BN]\n    fill acc, 0\n    wave w"),
            (STORE, STORE + "      fill acc, 1\n"),
        ),
        "SK12",
    ),
    "filled by no wave": (
        AROUND,
        (
            ("      alloc acc: register f32[WM, BN]\n", ""),
            (FILL, ""),
            ("    wave w", "    alloc acc: register f32[WM, BN]\n    fill acc, 5\n"
             "    wave u in 0 .. 0 {\n      fill acc, 0\n    }\n    wave w"),
        ),
        "SK12",
    ),
}  # fmt: skip


def program(base: str, edits: tuple[Edit, ...]) -> Program:
    made = parse(edited(base, *edits))
    verify(made)
    return made


def check_same_bits(before: Program, after: Program, seed: int) -> None:
    arrays = random_inputs(before, seed)
    again = {name: array.copy() for name, array in arrays.items()}
    run(before, arrays)
    run(after, again, schedule=Seeded(seed))
    assert all(same_bits(arrays[name], again[name]) for name in arrays)


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("options", ["units=1", "units=5", "units=17", "splits=3"])
@pytest.mark.parametrize("merge", ["atomic", "auto"])
def test_rewritten_program_interprets_to_the_same_bits(name: str, options: str, merge: str):
    before = program(*ACCEPTED[name])
    after = parse_pipeline(f"stream-k{{merge={merge} {options}}}").run(before)
    for seed in range(2):
        check_same_bits(before, after, seed)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("merge", list(Merge)[1:], ids=lambda m: m.value)
def test_fault_is_refused_with_just_these_codes(name: str, merge: Merge):
    base, edits, codes = REFUSED[name]
    verdict = StreamKPass(units=5, merge=merge).can_be_applied(program(base, edits))
    assert isinstance(verdict, Refused)
    assert sorted(verdict.codes) == codes.split(), verdict.explain()


def test_refusal_names_the_wave_variable():
    base, edits, _ = REFUSED["copies in one place"]
    text = StreamKPass(units=5).can_be_applied(program(base, edits)).explain()
    assert "SK10: no two tiles write one element" in text
    assert "does not tell w" in text
    with pytest.raises(NotApplicable):
        StreamKPass(units=5).apply(program(base, edits))


def test_partial_tiles_of_every_wave_are_merged_in_its_loop():
    text = to_text(parse_pipeline("stream-k{merge=atomic units=5}").run(parse(AROUND)))
    loop = text[text.index("wave w in 0 .. BM // WM {") : text.index("set it = ")]
    assert "for kp in k0 .. k1 {" in loop
    assert "if k0 == 0 and k1 == P {" in loop
    assert "atomic add C[ti * BM + w * WM +: WM, tj * BN +: BN], acc masked" in loop


#: sides that Triton's dot takes
LARGE = edited(AROUND, ("M = 37", "M = 150"), ("BM = 16", "BM = 64"), ("BK = 8", "BK = 16"))


@pytest.mark.parametrize("merge", ["workspace", "fixup", "atomic-workspace", "atomic"])
@pytest.mark.parametrize("units", [4, 11])
def test_emitted_kernel_agrees_with_the_interpreter_bit_for_bit(units: int, merge: str):
    after = parse_pipeline(f"stream-k{{units={units} merge={merge}}}").run(parse(LARGE))
    for found, expected in outputs_of_both(after, integer_valued=True):
        assert found.equal(expected)


def test_waves_with_fragments_are_refused_for_atomic_merges():
    after = parse_pipeline("mma-expand").run(parse(edited(LARGE, ("WM = 4", "WM = 16"))))
    for merge in (Merge.ATOMIC, Merge.ATOMIC_WORKSPACE):
        verdict = StreamKPass(units=5, merge=merge).can_be_applied(after)
        assert isinstance(verdict, Refused)
        assert verdict.codes == {"SK17"}
    assert StreamKPass(units=5).can_be_applied(after)
