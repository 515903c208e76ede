"""Programs that look like a tiled reduction and must not be split: the codes, and what they
compute."""

import numpy as np
import pytest

from loopir.interp import RaceError, random_inputs, run
from loopir.parser import parse
from loopir.verifier import violations
from passes.pipeline_text import parse_pass
from tests.support.refusals import check_accepted, check_refused
from tests.support.refused_texts import (
    ALIASED_OUTPUT,
    ARGMAX,
    BIAS_START,
    BY_STREAM_K,
    BY_VERIFIER,
    FUSED_CONSUMER,
    PREFIX_SCAN,
    RefusedText,
)
from tests.support.texts import edited


@pytest.mark.parametrize("case", BY_STREAM_K.values(), ids=BY_STREAM_K)
def test_stream_k_refuses_with_just_these_codes(case: RefusedText):
    check_refused(parse_pass("stream-k{merge=atomic units=4}"), case.text, case.codes)


@pytest.mark.parametrize("merge", ["workspace", "fixup"])
@pytest.mark.parametrize("case", BY_STREAM_K.values(), ids=BY_STREAM_K)
def test_slots_refuse_them_too(case: RefusedText, merge: str):
    made = parse_pass(f"stream-k{{merge={merge} units=4}}")
    check_refused(made, case.text, case.in_slots or case.codes)


@pytest.mark.parametrize("case", BY_VERIFIER.values(), ids=BY_VERIFIER)
def test_a_false_label_is_refused_by_the_verifier(case: RefusedText):
    found = sorted({v.rule for v in violations(parse(case.text))})
    assert found == case.codes.split()


@pytest.mark.parametrize(
    ("text", "fault", "instead"),
    [
        (ALIASED_OUTPUT, "\n    alias(A, C)", ""),
        (BIAS_START, "    ewise acc = expand(row, 0)\n", "    fill acc, 0\n"),
    ],
    ids=["no_alias", "no_start"],
)
def test_without_its_fault_a_text_is_split(text: str, fault: str, instead: str):
    check_accepted(parse_pass("stream-k{merge=atomic units=4}"), edited(text, (fault, instead)))


def test_prefix_scan_is_numpys():
    arrays = _run(PREFIX_SCAN)
    np.testing.assert_array_equal(arrays["Y"], arrays["X"].cumsum(1))


def test_argmax_is_numpys():
    arrays = _run(ARGMAX)
    np.testing.assert_array_equal(arrays["best"], arrays["X"].max(1))
    np.testing.assert_array_equal(arrays["place"], arrays["X"].argmax(1))


def test_bias_start_is_the_product_and_the_bias():
    arrays = _run(BIAS_START)
    expected = arrays["A"].astype(np.float32) @ arrays["B"].astype(np.float32) + arrays["bias"]
    np.testing.assert_array_equal(arrays["C"], expected)


def test_a_fused_consumer_reads_what_other_blocks_write():
    with pytest.raises(RaceError):
        _run(FUSED_CONSUMER)


def _run(text: str) -> dict[str, np.ndarray]:
    program = parse(text)
    arrays = random_inputs(program, 0)
    if "number" in arrays:
        arrays["number"] = np.arange(len(arrays["number"]), dtype=np.int32)
    run(program, arrays)
    return arrays
