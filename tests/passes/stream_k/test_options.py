"""Options of stream-k: what goes together, and their text."""

import pytest

from loopir.errors import PipelineError
from loopir.parser import parse
from passes.decomposition import Bounds, Direction, HybridKind, SlotOrder
from passes.pipeline import PassPipeline, parse_pipeline
from passes.stream_k import Decomposition, Part, StreamKPass
from tests.support.texts import GEMM

SPLIT_K, HYBRID, K_ALIGNED, WHOLE = "split-k", "hybrid", "k-aligned", "data-parallel"

#: options, the one that has no meaning beside the others, and why
CONFLICTS = [
    ({"decomposition": SPLIT_K}, "splits: decomposition=split-k needs it"),
    ({"decomposition": HYBRID}, "units: decomposition=hybrid needs it"),
    ({"decomposition": HYBRID, "units": 4, "splits": 2}, "splits: not with"),
    ({"decomposition": WHOLE, "splits": 2}, "splits: not with"),
    ({"decomposition": SPLIT_K, "splits": 2, "units": 18}, "units: not with"),
    ({"permuted": True}, "permuted: the launch must not pick the units"),
    ({"splits": 2, "bounds": "ceil"}, "bounds: only of"),
    ({"splits": 2, "min_panels": 2}, "min_panels: only of"),
    ({"splits": 2, "direction": "backward"}, "direction: only of"),
    ({"decomposition": SPLIT_K, "splits": 2, "bounds": "big-units"}, "bounds: only of"),
    ({"decomposition": WHOLE, "min_panels": 2}, "min_panels: only of"),
    ({"decomposition": WHOLE, "direction": "backward"}, "direction: only of"),
    ({"slot_order": "split-slowest"}, "slot_order: only with splits"),
    ({"decomposition": WHOLE, "slot_order": "split-slowest"}, "slot_order: only with splits"),
    ({"decomposition": HYBRID, "units": 4, "slot_order": "split-slowest"}, "slot_order: only"),
    ({"units": 4, "tail": "one-tile"}, "tail: only of hybrid"),
    ({"decomposition": WHOLE, "first": "data-parallel"}, "first: only of hybrid"),
    ({"decomposition": K_ALIGNED}, "units: decomposition=k-aligned needs it"),
    ({"decomposition": K_ALIGNED, "units": 4, "splits": 2}, "splits: not with"),
    ({"decomposition": K_ALIGNED, "units": 4, "bounds": "ceil"}, "bounds: only of"),
    ({"decomposition": K_ALIGNED, "units": 4, "direction": "backward"}, "direction: only of"),
    ({"decomposition": K_ALIGNED, "units": 4, "tail": "one-tile"}, "tail: only of hybrid"),
    ({"units": 4, "cost": 1}, "cost: only of k-aligned"),
    ({"decomposition": K_ALIGNED, "units": 4, "cost": -1}, "cost: an int >= 0"),
    ({"units": 0}, "units: an int >= 1"),
    ({"splits": 0}, "splits: an int >= 1"),
    ({"min_panels": 0}, "min_panels: an int >= 1"),
]
TOGETHER = [
    {"splits": 3, "slot_order": SlotOrder.SPLIT_SLOWEST},
    {"splits": 3, "permuted": True},
    {"splits": 4, "units": 4, "permuted": True},
    {"units": 4, "bounds": Bounds.CEIL, "min_panels": 2, "direction": Direction.BACKWARD},
    {"decomposition": Decomposition.SPLIT_K, "splits": 5, "slot_order": SlotOrder.SPLIT_SLOWEST},
    {"decomposition": Decomposition.HYBRID, "units": 4, "tail": HybridKind.ONE_TILE},
    {"decomposition": Decomposition.HYBRID, "units": 4, "first": Part.DATA_PARALLEL},
    {
        "decomposition": Decomposition.HYBRID,
        "units": 4,
        "bounds": Bounds.BIG_UNITS,
        "min_panels": 3,
        "direction": Direction.BACKWARD,
        "permuted": True,
    },
    {"decomposition": Decomposition.K_ALIGNED, "units": 4, "cost": 1, "min_panels": 2},
    {"decomposition": Decomposition.K_ALIGNED, "units": 4, "permuted": True},
    {"decomposition": Decomposition.DATA_PARALLEL},
    {"decomposition": Decomposition.DATA_PARALLEL, "permuted": True, "deterministic": True},
    {"decomposition": Decomposition.DATA_PARALLEL, "units": 4, "launch_constants": True},
    {"bounds": Bounds.BIG_UNITS, "min_panels": 2, "launch_constants": True},
]


def text_of(options: dict) -> str:
    return f"stream-k{{{' '.join(map(_item, options, options.values()))}}}"


def _item(field: str, value: object) -> str:
    text = str(getattr(value, "value", value))
    return f"{field.replace('_', '-')}={text.lower() if isinstance(value, bool) else text}"


@pytest.mark.parametrize(("options", "message"), CONFLICTS, ids=lambda x: str(x))
def test_options_that_no_schedule_can_follow_are_an_error_that_names_one(options, message: str):
    with pytest.raises(ValueError, match=message) as raised:
        StreamKPass(**options)
    assert str(raised.value).startswith(message.split(":")[0])


@pytest.mark.parametrize(("options", "message"), CONFLICTS, ids=lambda x: str(x))
def test_a_pipeline_with_such_options_is_refused(options, message: str):
    with pytest.raises(PipelineError) as raised:
        parse_pipeline(text_of(options))
    field, _, why = message.partition(":")
    key = field.replace("_", "-")
    column = text_of(options).find(f"{key}=") if field in options else 0
    assert str(raised.value).startswith(f"column {column + 1}: {key}:{why}")


@pytest.mark.parametrize("options", TOGETHER, ids=text_of)
def test_options_that_go_together_print_and_parse_back(options):
    made = StreamKPass(**options)
    assert parse_pipeline(text_of(options)) == PassPipeline((made,))
    assert parse_pipeline(str(made)) == PassPipeline((made,))


@pytest.mark.parametrize("options", TOGETHER, ids=text_of)
def test_options_that_go_together_are_asked_no_more_than_the_program(options):
    """`splits=3` does not divide the seven panels of the base, nor 4: SK14 is about sizes."""
    panels = 12 if "decomposition" not in options and "splits" in options else 7
    text = GEMM.replace("K = 100", f"K = {panels * 16}")
    if options.get("units") == options.get("splits"):
        text = text.replace("M = 96, N = 80", "M = 32, N = 32")
    assert StreamKPass(**options).can_be_applied(parse(text))
