"""Stores of convolutions, with split indices and groups: what SK07 and SK10 accept and refuse, and
that the refused ones would be wrong."""

from itertools import product

import pytest

from loopir.interp import InterpError, RaceError
from loopir.nodes import Program
from loopir.parser import parse
from loopir.verifier import verify
from passes.base import Refused
from passes.stream_k import Merge, StreamKPass
from passes.stream_k.nest import Nest, find_nest
from tests.support.differential import difference
from tests.support.texts import edited

#: row sums of NB images of OH x OW pixels, OCG of them in each of G groups
CONV = """\
kernel @conv(X: f32[NB * OH * OW, K], F: f32[K, G * OCG], out Y: f32[NB, G * OCG, OH, OW])
    where NB = 2, OH = 3, OW = 5, G = 2, OCG = 7, K = 9, PIX = OH * OW, BM = 4, BN = 4, BK = 4, P = max(1, ceildiv(K, BK)) {
  grid (g, ti, tj) in [G, ceildiv(NB * OH * OW, BM), ceildiv(OCG, BN)] {
    alloc acc: register f32[BM, BN]
    alloc x: register f32[BM, BK]
    alloc f: register f32[BK, BN]
    fill acc, 0
    reduce (acc: add) {
      for kp in 0 .. P {
        load x, X[ti * BM +: BM, kp * BK +: BK] masked
        load f, F[k, g * OCG + n] over (k = kp * BK +: BK < K, n = tj * BN +: BN < OCG) masked
        dot acc, x, f
      }
    }
    store Y[m // (OH * OW), g * OCG + n, m // OW % OH, m % OW] over (m = ti * BM +: BM < NB * OH * OW, n = tj * BN +: BN < OCG), acc masked
  }
}
"""  # noqa: E501
SIZES = {"NB": 2, "OH": 3, "OW": 5, "G": 2, "OCG": 7}
STORE = "Y[m // (OH * OW), g * OCG + n, m // OW % OH, m % OW]"
SHAPE = "Y: f32[NB, G * OCG, OH, OW]"
ROWS, COLUMNS = "BM < NB * OH * OW, n", "n = tj * BN +: BN < OCG), acc"

Edits = tuple[tuple[str, str], ...]

ACCEPTED: dict[str, Edits] = {
    "as it is": (),
    "channels last": ((STORE, "Y[m // (OH * OW), m // OW % OH, m % OW, g * OCG + n]"),
                      (SHAPE, "Y: f32[NB, OH, OW, G * OCG]")),
    "groups a dimension": ((STORE, "Y[m // (OH * OW), g, n, m // OW % OH, m % OW]"),
                           (SHAPE, "Y: f32[NB, G, OCG, OH, OW]")),
    "groups innermost": ((STORE, STORE.replace("g * OCG + n", "n * G + g")),),
    "columns first": ((STORE, "Y[m // (OH * OW), g * OCG + n, m % OH, m // OH % OW]"),),
    "a name for the pixels": ((STORE, STORE.replace("(OH * OW)", "PIX")),
                              (ROWS, "BM < NB * PIX, n")),
    "one dimension": ((STORE, "Y[(m // PIX * G * OCG + g * OCG + n) * PIX + m % PIX]"),
                      (SHAPE, "Y: f32[NB * G * OCG * OH * OW]")),
    "upside down": ((STORE, STORE.replace("m // OW % OH", "OH - 1 - m // OW % OH")),),
    "pixels in one dimension": ((STORE, "Y[m // PIX, g * OCG + n, m % PIX]"),
                                (SHAPE, "Y: f32[NB, G * OCG, PIX]")),
}  # fmt: skip

REFUSED: dict[str, tuple[set[str], Edits]] = {
    "tiles of a group reach into the next": ({"SK10"}, ((COLUMNS, "n = tj * BN +: BN), acc"),)),
    "limit of a group too large": ({"SK10"}, ((COLUMNS, COLUMNS.replace("OCG)", "G * OCG)")),)),
    "limit of a group too small": ({"SK07"}, ((COLUMNS, COLUMNS.replace("OCG)", "OCG - 1)")),)),
    "groups too near": ({"SK10"}, ((STORE, STORE.replace("g * OCG", "g * (OCG - 1)")),)),
    "groups not told": ({"SK10"}, ((STORE, STORE.replace("g * OCG + ", "")),
                                   (SHAPE, SHAPE.replace("G * OCG", "OCG")))),
    "one group more": ({"SK07"}, ((SHAPE, SHAPE.replace("G *", "(G + 1) *")),)),
    "one image more": ({"SK07"}, ((SHAPE, SHAPE.replace("NB", "NB + 1")),)),
    "one row more": ({"SK07"}, ((SHAPE, SHAPE.replace("OH,", "OH + 1,")),)),
    "a border": ({"SK07"}, ((STORE, STORE.replace("m // OW % OH", "m // OW % OH + 1")),
                            (SHAPE, SHAPE.replace("OH,", "OH + 2,")))),
    "every second row": ({"SK07"}, ((STORE, STORE.replace("m // OW % OH", "m // OW % OH * 2")),
                                    (SHAPE, SHAPE.replace("OH,", "2 * OH,")))),
    "images cut short": ({"SK07"}, ((ROWS, "BM < NB * OH * OW - 1, n"),)),
    "rows and columns mixed up": ({"SK10"}, ((STORE, STORE.replace("m // OW %", "m // OH %")),)),
    "images not told": ({"SK10"}, ((STORE, STORE.replace("m // (OH * OW)", "0")),
                                   (SHAPE, SHAPE.replace("NB", "1")))),
}  # fmt: skip

#: what nobody can know of sizes that are open, though it is so for these
CAUTIOUS: dict[str, Edits] = {
    "groups cut from all channels": (
        (STORE, STORE.replace("g * OCG + n", "g * (OC // G) + n")),
        (COLUMNS, COLUMNS.replace("OCG)", "OC // G)")),
        (SHAPE, SHAPE.replace("G * OCG", "OC")),
    ),
}


def program(edits: Edits, is_open: bool) -> Program:
    text = edited(CONV, *edits)
    if is_open:
        text = edited(text, ("NB = 2, OH = 3, OW = 5, G = 2, OCG = 7, ", ""))
    made = parse(text)
    verify(made)
    return made


def stream_k(is_open: bool, units: int = 5, merge: Merge = Merge.ATOMIC) -> StreamKPass:
    return StreamKPass(units=units, launch_constants=is_open, merge=merge)


def codes(made: Program, is_open: bool, merge: Merge = Merge.ATOMIC) -> set[str]:
    verdict = stream_k(is_open, merge=merge).can_be_applied(made)
    return {r.code for r in verdict.reasons} if isinstance(verdict, Refused) else set()


both = pytest.mark.parametrize("is_open", [False, True], ids=["constant", "open"])


@pytest.mark.sampled
@both
@pytest.mark.parametrize("name", ACCEPTED)
def test_split_store_is_accepted_and_nothing_changes(name: str, is_open: bool):
    made = program(ACCEPTED[name], is_open)
    assert codes(made, is_open) == set()
    for units, merge in product((1, 3, 7), (Merge.ATOMIC, Merge.AUTO)):
        after = stream_k(is_open, units, merge).apply(made)
        assert difference(made, after, SIZES, seed=units, schedules=2) == ""


@both
@pytest.mark.parametrize("name", REFUSED)
def test_near_miss_is_refused_and_would_be_wrong(name: str, is_open: bool):
    wanted, edits = REFUSED[name]
    made = program(edits, is_open)
    assert codes(made, is_open) == wanted
    assert is_wrong(made, is_open)


@both
@pytest.mark.parametrize("name", REFUSED)
def test_slots_zero_nothing_and_leave_what_no_tile_stores(name: str, is_open: bool):
    wanted, edits = REFUSED[name]
    made = program(edits, is_open)
    assert codes(made, is_open, Merge.WORKSPACE) == wanted - {"SK07"}
    if wanted == {"SK07"}:
        after = stream_k(is_open, 7, Merge.WORKSPACE).apply(made)
        assert difference(made, after, SIZES, seed=1) == ""


def is_wrong(made: Program, is_open: bool) -> bool:
    """Whether the program races, or would have another result after the rewrite."""
    nest, stream = find_nest(made), stream_k(is_open)
    assert isinstance(nest, Nest)
    after = stream.rewrite(made, stream._plan(nest))
    try:
        return difference(made, after, SIZES, seed=1) != ""
    except InterpError as error:
        return isinstance(error, RaceError)


@pytest.mark.parametrize("name", CAUTIOUS)
def test_what_holds_for_some_sizes_only_is_accepted_for_those(name: str):
    edits = CAUTIOUS[name]
    known = program((*edits, ("G = 2, OCG = 7", "G = 2, OC = 14, OCG = 7")), False)
    assert codes(known, False) == set()
    odd = program((*edits, ("G = 2, OCG = 7", "G = 2, OC = 15, OCG = 7")), False)
    assert codes(odd, False) == {"SK07"}
    assert is_wrong(odd, False)
