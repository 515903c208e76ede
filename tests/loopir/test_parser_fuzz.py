"""Texts near programs: nothing but LoopIRError, and none takes long.

Text n is made of seed n alone, so that a failure names all that it takes to repeat it.
"""

import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loopir.errors import LoopIRError
from loopir.parser import parse_many
from loopir.printer import to_text
from loopir.verifier import violations
from tests.support.legal_programs import legal_case
from tests.support.random_programs import random_program
from tests.support.stream_k_texts import LAST_ARRIVER, STREAM_K
from tests.support.texts import GEMM, MAX_ROWS

CHUNK, CHUNKS, LONG_CHUNKS = 1000, 6, 200
LIMIT_S = 1.0  # of the thread's own time, so that a busy machine makes no failure
GOLDEN = Path(__file__).parent / "golden"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        count = LONG_CHUNKS if metafunc.config.getoption("--long") else CHUNKS
        metafunc.parametrize("chunk", range(count))


@cache
def corpus() -> tuple[str, ...]:
    """Valid texts, with every word of the grammar; shorter ones are met more often."""
    files = (path.read_text() for path in sorted(GOLDEN.glob("*.lir")))
    wild = (to_text(random_program(seed)) for seed in range(60))
    legal = (to_text(legal_case(seed).program) for seed in range(30))
    return (GEMM, MAX_ROWS, STREAM_K, LAST_ARRIVER, *files, *wild, *legal)


@cache
def tokens(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|\s+|//|\.\.|\+:|[<>=!]=|[^\w\s]", text))


CHARACTERS = "(){}[],:=<>+-*/%@#._ \n\t\r\0\"'\\~$0123456789aZé\u2028\ud800\U0001f600"
ODD_TOKENS = (
    *("-", "--", "- -", "(", "((((((((", ")", "[", "{", "}", "\n", " ", "+:", "..", "//", "%"),
    *("0", "1.5", "1e999", "-1", "9" * 30, "0x10", "inf", "nan", "_0", "x" * 200, "not not"),
    *("not", "and", "min", "min(", "ceildiv(1, 0)", "x // 0", "1 % 0", "contiguous(none)"),
    *("masked", "else", "over", "reduce", "grid", "wave", "while", "if", "# -----", "#"),
)


def fuzzed(seed: int) -> str:
    """A valid text with a few changes of characters, tokens or lines."""
    rng = Random(seed)
    text = rng.choice(corpus())
    change = rng.choice((characters_changed, tokens_changed, tokens_changed, lines_changed))
    for _ in range(rng.choice((1, 1, 1, 2, 4, 10))):
        text = change(rng, text)
    return text


def characters_changed(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    end = min(len(text), at + rng.choice((0, 0, 1, 1, 2, 20)))
    new = rng.choice(("", rng.choice(CHARACTERS), chr(rng.randrange(0x300)), text[at:end] * 2))
    return rng.choice((text[:at] + new + text[end:], text[:at] + new + text[end:], text[:at]))


def tokens_changed(rng: Random, text: str) -> str:
    here = list(tokens(text)) or [""]
    other = rng.choice((here, list(tokens(rng.choice(corpus()))), ODD_TOKENS))
    at = rng.randrange(len(here))
    match rng.randrange(5):
        case 0:
            del here[at]
        case 1:
            here.insert(at, rng.choice(other))
        case 2:
            to = rng.randrange(len(here))
            here[at], here[to] = here[to], here[at]
        case _:
            here[at] = rng.choice(other)
    return "".join(here)


def lines_changed(rng: Random, text: str) -> str:
    here = text.split("\n")
    other = rng.choice((text, rng.choice(corpus()))).split("\n")
    start, at = rng.randrange(len(here)), rng.randrange(len(here) + 1)
    end = start + rng.choice((1, 1, 2, 5))
    match rng.randrange(4):
        case 0:
            del here[start:end]
        case 1:
            here[at:at] = here[start:end]
        case 2:
            here[at:at] = rng.sample(other, min(len(other), rng.randint(1, 3)))
        case _:
            here[start:end] = [" ".join(here[start:end])]
    return "\n".join(here)


def parses(text: str, parse: Callable[[str], Any] = parse_many, limit_s: float = LIMIT_S) -> bool:
    """Whether a text is a program. AssertionError: it took too long. Whatever else is raised but a
    LoopIRError is a failure."""
    start = time.thread_time()
    try:
        parse(text)
        return True
    except LoopIRError:
        return False
    finally:
        spent_s = time.thread_time() - start
        assert spent_s < limit_s, f"{spent_s:.2f} s"


def checked(seed: int) -> bool:
    """`parses` of a text, with the seed in what it raises."""
    try:
        return parses(fuzzed(seed))
    except BaseException as error:
        error.add_note(f"seed {seed}:\n{fuzzed(seed)!r}")
        raise


def test_a_text_near_a_program_parses_or_is_refused_soon(chunk: int):
    accepted = sum(map(checked, range(chunk * CHUNK, (chunk + 1) * CHUNK)))
    assert 0.05 < accepted / CHUNK < 0.6, "texts must be near programs, on both sides"


def test_what_parses_reads_back_and_breaks_rules_of_the_verifier_at_most():
    texts = (fuzzed(seed) for seed in range(1_000_000, 1_000_500))
    for text in filter(parses, texts):
        programs = parse_many(text)
        assert parse_many("# -----\n".join(map(to_text, programs))) == programs, text
        for program in programs:
            violations(program)


# --- controls -------------------------------------------------------------------------------------


def test_the_texts_are_valid_before_they_change():
    assert all(map(parses, corpus()))
    assert len({fuzzed(seed) for seed in range(500)}) > 480


def test_an_error_of_another_class_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("loopir.expr_parser._divide", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError) as raised:
        _ = [checked(seed) for seed in range(50)]
    assert "seed" in raised.value.__notes__[0]


def test_too_deep_a_recursion_is_noticed():
    def descend(text: str) -> None:
        descend(text)

    with pytest.raises(RecursionError):
        parses(GEMM, descend)


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_slow_text_is_noticed(is_refused: bool):
    def slow(text: str) -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass
        if is_refused:
            raise LoopIRError(text)

    with pytest.raises(AssertionError, match=r"0\.0\d s"):
        parses(GEMM, slow, limit_s=0.02)
    assert parses(GEMM, slow, limit_s=10) is not is_refused
