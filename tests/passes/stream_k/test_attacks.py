"""Programs made to slip past the criteria: each is caught by a rule of the verifier or by a
criterion, or is right after the rewrite.

What a criterion refuses is rewritten all the same, as a control: `wrong` attacks then give another
result or an error, so that the refusal is no accident of the text; others race before any pass.
"""

from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pytest

from loopir.interp import InterpError, RaceError, random_inputs, run
from loopir.nodes import Program
from loopir.parser import parse
from loopir.verifier import verify, violations
from passes.base import Refused
from passes.stream_k import Merge, StreamKPass
from passes.stream_k.nest import Nest, find_nest
from tests.support.differential import Arrays
from tests.support.texts import edited

Edit = tuple[str, str]

GEMM = """\
kernel @gemm(A: f32[M, K], B: f32[K, N], order: i32[TM], out C: f32[M, N])
    where M = 12, N = 10, K = 17, BM = 4, BN = 4, BK = 3, TM = 3, P = max(1, ceildiv(K, BK)) {
  grid (ti, tj) in [ceildiv(M, BM), ceildiv(N, BN)] {
    alloc acc: register f32[BM, BN]
    alloc s: register f32[BM, BN]
    alloc a: shared f32[BM, BK]
    alloc b: shared f32[BK, BN]
    fill s, 1
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        coop_load a, A[ti * BM +: BM, kp * BK +: BK] masked
        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked
        dot acc, a, b
      }
    }
    store C[ti * BM +: BM, tj * BN +: BN], acc masked
  }
}
"""

#: each of two waves has a slice of the output, its own reduction, and the tiles of both
WAVES = """\
kernel @waves(X: f32[M, K], out Y: f32[W, M])
    where M = 12, K = 17, BM = 4, BK = 3, W = 2, P = max(1, ceildiv(K, BK)) {
  grid (ti) in [ceildiv(M, BM)] {
    alloc acc: register f32[BM]
    alloc s: register f32[BM]
    alloc t: register f32[BM]
    alloc x: shared f32[BM, BK]
    fill s, 1
    fill t, 1
    fill acc, 0
    wave w in 0 .. W {
      fill acc, 0
      reduce (acc: add) {
        for kp in 0 .. P {
          load x, X[ti * BM +: BM, kp * BK +: BK] masked
          ewise acc = acc + sum(x, 1) + t
        }
      }
      store Y[w, ti * BM +: BM], acc masked
    }
  }
}
"""
WAVES = edited(WAVES, ("acc + sum(x, 1) + t", "acc + (sum(x, 1) + t)"))

SET_S = "    fill s, 1\n"
FILL = "    fill acc, 0\n"
DOT = "        dot acc, a, b\n"
STORE = "    store C[ti * BM +: BM, tj * BN +: BN], acc masked\n"
REDUCE = GEMM[GEMM.index("    reduce") : GEMM.index("    store")]
WAVE_HEAD = "    wave w in 0 .. W {\n      fill acc, 0\n"
WAVE_SUM = "          ewise acc = acc + (sum(x, 1) + t)\n"
WAVE_STORE = "      store Y[w, ti * BM +: BM], acc masked\n"
OUT_C = "out C: f32[M, N])"
CELL = "ti * BM +: BM, tj * BN +: BN"
P_END = "P = max(1, ceildiv(K, BK)) {"


def before(place: str, text: str) -> Edit:
    return place, text + place


def after(place: str, text: str) -> Edit:
    return place, place + text


def stored(access: str) -> Edit:
    """Another writeback."""
    return f"C[{CELL}]", access


@dataclass(frozen=True)
class Attack:
    """`caught`: every code of the verifier, or of the criteria of merge=atomic; none: accepted, and
    right. `wrong`: a rewrite in spite of the criteria has another result. `races`: it has none
    before. `shared`: parameters that are one array. `in_slots`: the codes of the other merges,
    where they are not those of `caught` that are not about epilogues and zeroed outputs."""

    name: str
    caught: str
    edits: tuple[Edit, ...]
    base: str = field(default=GEMM, repr=False)
    wrong: bool = True
    races: bool = False
    shared: tuple[str, ...] = ()
    in_slots: str | None = None

    def codes(self, merge: Merge) -> set[str]:
        caught = set(self.caught.split())
        if merge is Merge.ATOMIC:
            return caught
        return caught - {"SK07", "SK08"} if self.in_slots is None else set(self.in_slots.split())


SHORT = "m = ti * BM +: BM < M - 1, n = tj * BN +: BN"
PLANES = f"    store C[0, {CELL}], acc masked\n    store C[1, {CELL}], top masked\n"


def accepted(name: str, *edits: Edit, base: str = GEMM) -> Attack:
    return Attack(name, "", edits, base, wrong=False)


def cautious(name: str, caught: str, *edits: Edit, base: str = GEMM) -> Attack:
    """Refused, though the rewrite happens to be right: the criterion cannot know."""
    return Attack(name, caught, edits, base, wrong=False)


VERIFIER = (
    Attack("accumulator rescaled", "V39", (after(DOT, "        ewise acc = acc * 2\n"),)),
    Attack("accumulator read", "V39", (after(DOT, "        ewise s = acc\n"),)),
    Attack("accumulator overwritten", "V39", (after(DOT, "        fill acc, 0\n"),)),
    Attack(
        "what is added depends on the accumulator",
        "V39",
        (after(DOT, "        ewise s = acc\n        ewise acc = acc + s\n"),),
    ),
    Attack("let that shadows a grid variable", "V02", (before(STORE, "    let ti = 0\n"),)),
    Attack(
        "output read in the prologue",
        "V25",
        (before(FILL, f"    load s, C[{CELL}] masked\n"),),
    ),
    Attack(
        "element of the output read",
        "V25",
        (
            ("order: i32[TM], ", "out order: i32[TM], "),
            before(FILL, "    let u = order[ti]\n"),
        ),
    ),
    Attack("reduce inside a reduce", "V37", ((DOT, f"    reduce (acc: add) {{\n{DOT}    }}\n"),)),
)

CARRIED = (
    Attack(
        "pointer bumped by a while",
        "SK11",
        (
            after(FILL, "    let c = 0\n"),
            after(DOT, "        while c < kp * 2 {\n          set c = c + 1\n        }\n"
                       "        if c == 4 {\n          ewise acc = acc + s\n        }\n"),
        ),
        wrong=False,  # c is 2 * kp in every segment
    ),
    Attack(
        "pointer bumped once a panel",
        "SK11",
        (
            after(FILL, "    let c = 0\n    let go = 0\n"),
            after(DOT, "        while go <= kp and c < 99 {\n          set go = kp + 1\n"
                       "          set c = c + 1\n        }\n"
                       "        if c == 3 {\n          ewise acc = acc + s\n        }\n"),
        ),
    ),
    Attack(
        "tile of the first panel used in all",
        "SK11",
        (
            after(DOT, "        if kp == 0 {\n          ewise s = s * 0 + expand(sum(a, 1), 1)\n"
                       "        }\n        ewise acc = acc + s\n"),
        ),
    ),
    Attack(
        "operand loaded in every other panel",
        "SK11",
        (
            ("        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked\n",
             "        if kp % 2 == 0 {\n          load b, B[kp * BK +: BK, tj * BN +: BN] masked\n"
             "        }\n"),
        ),
    ),
    Attack(
        "operand loaded in a loop that may not run",
        "SK11",
        (
            ("        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked\n",
             "        for i in kp % 2 .. 1 {\n"
             "          load b, B[kp * BK +: BK, tj * BN +: BN] masked\n        }\n"),
        ),
    ),
    Attack(
        "tile of the last panel, read by the next wave",
        "SK11",
        (
            (WAVE_HEAD, WAVE_HEAD + "      ewise t = s\n"),
            after(WAVE_SUM, "          ewise s = sum(x, 1)\n"),
        ),
        WAVES,
    ),
    accepted(
        "counter of its own in every panel",
        after(DOT, "        let c = 0\n        while c < kp {\n          set c = c + 1\n        }\n"
                   "        if c == 3 {\n          ewise acc = acc + s\n        }\n"),
    ),
    accepted(
        "operand loaded in both branches",
        ("        coop_load b, B[kp * BK +: BK, tj * BN +: BN] masked\n",
         "        if kp % 2 == 0 {\n          load b, B[kp * BK +: BK, tj * BN +: BN] masked\n"
         "        } else {\n          load b, B[0 +: BK, tj * BN +: BN] masked\n        }\n"),
    ),
    accepted(
        "tile of the last panel, overwritten before the next wave reads it",
        (WAVE_HEAD, WAVE_HEAD + "      fill s, 2\n      ewise t = s\n"),
        after(WAVE_SUM, "          ewise s = sum(x, 1)\n"),
        base=WAVES,
    ),
)  # fmt: skip

STARTS = (
    Attack("fill in no wave", "SK12", ((FILL, "    fill acc, 1\n    wave w in 0 .. 0 {\n"
                                              "      fill acc, 0\n    }\n"),)),
    Attack("fill in a loop that may not run", "SK12",
           ((FILL, "    fill acc, 1\n    for i in 0 .. ti {\n      fill acc, 0\n    }\n"),)),
    Attack("nothing is added", "SK12", ((FILL, "    fill acc, 1\n"), (DOT, ""))),
    Attack("left by the wave before", "SK12",
           ((WAVE_HEAD, WAVE_HEAD.replace("      fill acc, 0\n", "")),
            after(WAVE_STORE, "      fill acc, 3\n")), WAVES),
    cautious("filled twice alike", "SK12", (FILL, f"{FILL}    if ti == 0 {{\n  {FILL}    }}\n")),
    accepted("nothing is added to zero", (DOT, "")),
    accepted("filled in a loop that runs", (FILL, f"    for i in 0 .. 2 {{\n  {FILL}    }}\n")),
    accepted("one sum over all waves",
             (WAVE_HEAD, WAVE_HEAD.replace("      fill acc, 0\n", "")), base=WAVES),
)  # fmt: skip

EPILOGUES = (
    Attack("overwritten behind the reduce", "SK08", (before(STORE, "    fill acc, 7\n"),)),
    Attack("overwritten on a condition", "SK08",
           (before(STORE, "    if ti == 1 {\n      fill acc, 7\n    }\n"),)),
    Attack("epilogue in a wave loop", "SK08",
           (before(STORE, "    wave w in 0 .. 2 {\n      ewise acc = acc + s\n    }\n"),)),
    Attack("epilogue by way of another tile", "SK08",
           ((STORE, "    ewise s = acc * acc\n" + STORE.replace("acc", "s")),)),
    Attack("accumulator squared in the next wave", "SK08",
           ((WAVE_HEAD, "    wave w in 0 .. W {\n      ewise t = acc * acc\n      fill acc, 0\n"),),
           WAVES, in_slots="SK11"),
    Attack("writeback in a loop", "SK08 SK10",
           ((STORE, f"    for i in 0 .. 2 {{\n{STORE}    }}\n"),)),
    cautious("writeback on a condition", "SK08", (STORE, f"    if ti < 3 {{\n{STORE}    }}\n")),
    accepted("dead code behind the reduce",
             after(REDUCE, "    fill s, 3\n    ewise s = s * 2\n    for i in 0 .. 2 {\n"
                           "      fill a, 0\n    }\n")),
)  # fmt: skip

PLACES = (
    Attack("rows swapped by a buffer", "SK10",
           (before(FILL, "    let u = order[ti]\n"), stored("C[u * BM +: BM, tj * BN +: BN]")),
           wrong=False),
    accepted("rows from the last to the first",
             stored("C[(TM - 1 - ti) * BM +: BM, tj * BN +: BN]")),
    Attack("rows from one beyond the last to the second", "SK07",
           (stored("C[(TM - ti) * BM +: BM, tj * BN +: BN]"),)),
    Attack("nobody tells the wave", "SK10", ((WAVE_STORE, WAVE_STORE.replace("Y[w", "Y[0")),
                                             ("Y: f32[W, M]", "Y: f32[1, M]")), WAVES),
    Attack("stored by every wave", "SK10", ((STORE, f"    wave w in 0 .. 2 {{\n{STORE}    }}\n"),)),
    Attack("rows beyond a limit dropped", "SK07",
           (stored("C[m, n] over (m = ti * BM +: BM < M - 1, n = tj * BN +: BN)"),)),
    Attack("rows beyond the grid", "SK07", (("[ceildiv(M, BM), ", "[M // BM - 1, "),)),
    Attack("rows beyond the last wave", "SK07", (("Y: f32[W, M]", "Y: f32[W + 1, M]"),), WAVES),
    Attack("the first row left out", "SK07", (stored("C[ti * BM + 1 +: BM, tj * BN +: BN]"),)),
    Attack("every other row", "SK07",
           (("C: f32[M, N]", "C: f32[2 * M, N]"),
            stored("C[m, n] over (m = ti * 2 * BM +: BM, n = tj * BN +: BN)"))),
    Attack("half of a batch", "SK07",
           (("C: f32[M, N]", "C: f32[2, M, N]"), stored(f"C[0, {CELL}]"))),
    Attack("rows split by a width that a buffer gives", "SK10",
           (("C: f32[M, N]", "C: f32[M, M, N]"),
            before(FILL, "    let v = order[ti]\n    let u = v + 1\n"),
            stored("C[m // u, m % u, n] over (m = ti * BM +: BM, n = tj * BN +: BN)")),
           races=True),
    Attack("rows split by a width that changes between its two uses", "SK10",
           (("C: f32[M, N]", "C: f32[M, M, N]"),
            before(FILL, "    let c = 1\n    let u = c + 3\n    while c < 2 {\n"
                         "      set c = c + 1\n    }\n    let v = c\n"),
            stored("C[m // u, m % v, n] over (m = ti * BM +: BM, n = tj * BN +: BN)")),
           races=True),
    accepted("rows as quotient and remainder", ("C: f32[M, N]", "C: f32[3, 4, N]"),
             stored("C[m // 4, m % 4, n] over (m = ti * BM +: BM, n = tj * BN +: BN)")),
    Attack("too few quotients", "SK07",
           (("C: f32[M, N]", "C: f32[4, 4, N]"),
            stored("C[m // 4, m % 4, n] over (m = ti * BM +: BM, n = tj * BN +: BN)"))),
    Attack("too few remainders", "SK07",
           (("C: f32[M, N]", "C: f32[3, 5, N]"),
            stored("C[m // 4, m % 4, n] over (m = ti * BM +: BM, n = tj * BN +: BN)"))),
    accepted("transposed", ("C: f32[M, N]", "C: f32[N, M]"),
             stored("C[n, m] over (m = ti * BM +: BM, n = tj * BN +: BN)")),
    accepted("limits at the ends",
             stored("C[m, n] over (m = ti * BM +: BM < M, n = tj * BN +: BN < N)")),
    accepted("copies, one a wave", ("C: f32[M, N]", "C: f32[2, M, N]"),
             (STORE, "    wave w in 0 .. 2 {\n"
                     f"      store C[w, {CELL}], acc masked\n    }}\n")),
    accepted("rows of a wave side by side", ("Y: f32[W, M]", "Y: f32[2 * M]"),
             (WAVE_STORE, "      store Y[ti * 2 * BM + w * BM +: BM], acc masked\n"), base=WAVES),
)  # fmt: skip

STORE_D = f"    store D[{CELL}], top masked\n"
TWO = (
    (OUT_C, "out C: f32[M, N], out D: f32[M, N])"),
    (FILL, "    alloc top: register f32[BM, BN]\n    fill top, 0\n" + FILL),
    ("(acc: add)", "(acc: add, top: add)"),
    after(DOT, "        dot top, a, b\n"),
    after(STORE, STORE_D),
)
Z = (OUT_C, "Z: f32[M, N], out C: f32[M, N])")
ALIAS_Z = (P_END, P_END[:-2] + "\n    alias(Z, C) {")
ALIAS_D = (P_END, P_END[:-2] + "\n    alias(C, D) {")

SHARED = (
    Attack("two outputs in one storage", "SK09", (*TWO, ALIAS_D), shared=("C", "D")),
    Attack("input of the prologue in the output's storage", "SK09",
           (Z, ALIAS_Z, before(FILL, f"    load s, Z[{CELL}] masked\n"),
            after(DOT, "        ewise acc = acc + s\n")), shared=("C", "Z")),
    Attack("storage shared by way of a third", "SK09",
           (("out C: f32[M, N])", "Z: f32[M, N], V: f32[M, N], out C: f32[M, N])"),
            (P_END, P_END[:-2] + "\n    alias(Z, V)\n    alias(V, C) {"),
            before(FILL, f"    load s, Z[{CELL}] masked\n")), wrong=False),
    Attack("output's storage read behind the reduce", "SK08",
           (Z, ALIAS_Z, before(STORE, f"    load s, Z[{CELL}] masked\n")), shared=("C", "Z")),
    accepted("two writebacks into one buffer",
             *TWO[1:-1], ("C: f32[M, N]", "C: f32[2, M, N]"), (STORE, PLANES)),
    Attack("two writebacks into three planes", "SK07",
           (*TWO[1:-1], ("C: f32[M, N]", "C: f32[3, M, N]"), (STORE, PLANES))),
    Attack("two writebacks into two planes, one of them cut short", "SK07",
           (*TWO[1:-1], ("C: f32[M, N]", "C: f32[2, M, N]"),
            (STORE, PLANES.replace(f"C[1, {CELL}]", f"C[1, m, n] over ({SHORT})")))),
    Attack("one plane written twice", "SK07",
           (*TWO[1:-1], ("C: f32[M, N]", "C: f32[1, M, N]"),
            (STORE, PLANES.replace("C[1,", "C[0,"))), in_slots="SK07"),
    Attack("output read in the reduce", "SK07",
           (("out C", "inout C"), before(DOT, f"        load s, C[{CELL}] masked\n")),
           in_slots="SK07"),
    Attack("prologue store", "SK13",
           (("out C: f32[M, N])", "out C: f32[M, N], out D: f32[M, N])"),
            before(FILL, f"    store D[{CELL}], s masked\n"))),
    Attack("scalar from a buffer that the kernel writes", "SK13",
           (("order: i32[TM]", "inout order: i32[TM, TM]"),
            before(FILL, "    alloc o: register i32[1]\n    let u = order[ti, tj]\n    fill o, 0\n"
                         "    store order[ti, tj +: 1], o\n"), after(DOT,
                         "        if u > 3 {\n          ewise acc = acc + s\n        }\n"))),
    accepted("two outputs", *TWO),
    accepted("input that is only declared in the output's storage", Z, ALIAS_Z),
)  # fmt: skip

FREE = (
    accepted("condition on the panel", (DOT, f"        if kp != 2 {{\n{DOT}        }}\n")),
    accepted("condition on the tile", (DOT, f"        if ti != 1 {{\n{DOT}        }}\n")),
    accepted("tile of the prologue in every panel", after(DOT, "        ewise acc = acc + s\n")),
    accepted("while in the prologue",
             before(FILL, "    let c = 0\n    while c < 3 {\n      ewise s = s + s\n"
                          "      set c = c + 1\n    }\n"),
             after(DOT, "        ewise acc = acc + s\n")),
    accepted("waves", base=WAVES),
)  # fmt: skip

#: what one wave leaves to the next; an atomic merge runs all of a wave for every part
LEFT = (
    Attack("scale doubled behind the panels of a wave", "",
           (after(WAVE_STORE, "      ewise t = t * 2\n"),), WAVES, in_slots="SK11"),
    Attack("scale doubled behind the panels of a wave, for what follows them", "SK08",
           (before(WAVE_STORE, "      ewise s = s * 2\n      ewise acc = acc + s\n"),),
           WAVES),
    Attack("buffer written behind the panels, and read before the next", "SK13",
           (("out Y: f32[W, M]", "out Y: f32[W, M], inout D: f32[M]"),
            after(WAVE_HEAD, "      load t, D[ti * BM +: BM] masked\n"),
            after(WAVE_STORE, "      ewise s = t * 2\n"
                              "      store D[ti * BM +: BM], s masked\n")),
           WAVES, in_slots="SK11"),
)  # fmt: skip

ATTACKS = (*VERIFIER, *CARRIED, *STARTS, *EPILOGUES, *PLACES, *SHARED, *FREE, *LEFT)
UNITS = (1, 2, 5, 7, 16)


def made(attack: Attack) -> Program:
    return parse(edited(attack.base, *attack.edits))


def codes(program: Program, merge: Merge) -> set[str]:
    """What catches a program."""
    rules = {v.rule for v in violations(program)}
    if rules:
        return rules
    verdict = StreamKPass(units=5, merge=merge).can_be_applied(program)
    return set(verdict.codes) if isinstance(verdict, Refused) else set()


def forced(program: Program, units: int, merge: Merge) -> Program:
    """The rewrite without the criteria."""
    stream_k, nest = StreamKPass(units=units, merge=merge), find_nest(program)
    assert isinstance(nest, Nest)
    return stream_k.rewrite(program, stream_k._plan(nest))


def results(program: Program, attack: Attack, seed: int) -> Arrays:
    """All arrays after a run, those that are shared being one. `program`: of the attack, or what
    the pass makes of it."""
    arrays = random_inputs(made(attack), seed)
    for name in attack.shared:
        arrays[name] = arrays[attack.shared[0]]
    run(program, arrays, seed=seed)
    return arrays


def differs(before: Program, after: Program, attack: Attack, seed: int) -> bool:
    """Whether `after` has another result than `before`, or is an error (a race). InterpError: of
    `before`."""
    wanted = results(before, attack, seed)
    try:
        found = results(after, attack, seed)
    except InterpError:
        return True
    return not all(np.array_equal(wanted[n], found[n], equal_nan=True) for n in wanted)


def some_units(attack: Attack, merge: Merge) -> tuple[int, ...]:
    """All of an atomic merge; of others one or two, other ones of each attack."""
    start = crc32(attack.name.encode()) % len(UNITS)
    turned = UNITS[start:] + UNITS[:start]
    return turned[: {Merge.ATOMIC: len(UNITS), Merge.WORKSPACE: 2}.get(merge, 1)]


merges = pytest.mark.parametrize("merge", list(Merge)[1:], ids=lambda m: m.value)


@merges
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: a.name)
def test_an_attack_is_caught_by_just_these_codes(attack: Attack, merge: Merge):
    assert codes(made(attack), merge) == attack.codes(merge)


ACCEPTED = [(a, merge) for a in ATTACKS for merge in list(Merge)[1:] if not a.codes(merge)]


@pytest.mark.sampled
@pytest.mark.parametrize(("attack", "merge"), ACCEPTED, ids=lambda x: getattr(x, "name", x))
def test_what_is_accepted_has_the_same_result(attack: Attack, merge: Merge):
    program = made(attack)
    for units in some_units(attack, merge):
        after = StreamKPass(units=units, merge=merge).apply(program)
        verify(after)
        assert not differs(program, after, attack, seed=units)


REFUSED = [a for a in ATTACKS if a.caught.startswith("SK") and not a.races]
#: of outputs that tiles or buffers share, which every merge refuses, the last to arrive makes a
#: result all the same
ALWAYS_WRONG = {"SK11", "SK12", "SK13"}
IN_SLOTS = [a for a in ATTACKS if a.codes(Merge.WORKSPACE) & ALWAYS_WRONG]


@pytest.mark.parametrize("attack", REFUSED, ids=lambda a: a.name)
def test_what_is_refused_would_have_another_result_or_is_marked_cautious(attack: Attack):
    assert is_wrong(attack, Merge.ATOMIC) == attack.wrong


@pytest.mark.parametrize("attack", IN_SLOTS, ids=lambda a: a.name)
def test_what_slots_refuse_would_be_wrong_too(attack: Attack):
    assert is_wrong(attack, Merge.WORKSPACE) == attack.wrong


@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.races], ids=lambda a: a.name)
def test_what_has_no_result_before_any_pass_races(attack: Attack):
    assert not attack.codes(Merge.WORKSPACE) & ALWAYS_WRONG
    with pytest.raises(RaceError):
        results(made(attack), attack, seed=1)


def is_wrong(attack: Attack, merge: Merge) -> bool:
    program = made(attack)
    after = (forced(program, units, merge) for units in UNITS)
    return any(differs(program, a, attack, seed) for a in after for seed in (0, 1))
