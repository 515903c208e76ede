"""Options: typed fields and their text. A pass's text parses back to an equal pass; a mistake in a
text is shown at its column, with the nearest name."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Optional

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopir.errors import PipelineError
from passes.base import Pass
from passes.options import Option, option, options_of, pass_text
from passes.pipeline_text import parse_pass, parse_passes
from passes.registry import PASSES


class Mode(Enum):
    FAST = "fast"
    IN_BETWEEN = "in-between"
    SMALL = "small"


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True)
class Sample(Pass):
    name: ClassVar[str] = "sample"

    count: int | None = option(None, "how many")
    width: int = 4
    level: Level = option(Level.LOW, "how far", bare=True)
    mode: Mode = Mode.FAST
    other_mode: Mode | None = Mode.SMALL
    launch_constants: bool = False
    label: str = "cuda:90"
    note: Optional[str] = None  # noqa: UP045


@dataclass(frozen=True)
class Demanding(Pass):
    name: ClassVar[str] = "demanding"

    size: int
    flag: bool = True


INT63 = st.integers(-(2**63) + 1, 2**63 - 1)


LOCAL = {cls.name: cls for cls in (Sample, Demanding)}

SAMPLES = st.builds(
    Sample,
    count=st.none() | INT63,
    width=INT63,
    level=st.sampled_from(Level),
    mode=st.sampled_from(Mode),
    other_mode=st.none() | st.sampled_from(Mode),
    launch_constants=st.booleans(),
    label=st.text() | st.just("none"),
    note=st.none() | st.text() | st.just("none"),
)


@given(SAMPLES)
def test_the_text_of_a_pass_parses_to_an_equal_pass(p):
    assert parse_pass(pass_text(p), LOCAL) == p


@given(st.lists(SAMPLES, max_size=4))
def test_the_text_of_a_pipeline_parses_to_equal_passes(passes):
    assert parse_passes(",".join(map(pass_text, passes)), LOCAL) == tuple(passes)


def values_of(o: Option) -> st.SearchStrategy:
    by_type = {int: st.integers(1, 2**40), bool: st.booleans(), str: st.just(o.default)}
    values = by_type[o.type] if o.type in by_type else st.sampled_from(list(o.type))
    return values | st.none() if o.optional else values


@pytest.mark.parametrize("cls", PASSES.values(), ids=PASSES)
@given(data=st.data())
def test_every_registered_pass_prints_text_that_parses_to_it(cls, data):
    options = options_of(cls)
    some = data.draw(st.sets(st.sampled_from(options), max_size=3) if options else st.just(set()))
    said = [o for o in options if o.required or o in some]
    try:
        p = cls(**{o.field: data.draw(values_of(o)) for o in said})
    except ValueError:
        assume(False)  # options that the pass itself rules out together
    assert parse_pass(pass_text(p)) == p


@pytest.mark.parametrize("cls", PASSES.values(), ids=PASSES)
def test_every_option_of_a_registered_pass_is_documented(cls):
    assert all(o.doc for o in options_of(cls))


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (Sample(), "sample"),
        (Sample(count=8), "sample{count=8}"),
        (Sample(level=Level.HIGH), "sample{high}"),
        (Sample(mode=Mode.IN_BETWEEN, count=0), "sample{count=0 mode=in-between}"),
        (Sample(other_mode=None), "sample{other-mode=none}"),
        (Sample(launch_constants=True), "sample{launch-constants=true}"),
        (Sample(label="hip:gfx942"), "sample{label=hip:gfx942}"),
        (Sample(label="two words, }"), 'sample{label="two words, }"}'),
        (Sample(note="none"), 'sample{note="none"}'),
        (Demanding(3), "demanding{size=3}"),
        (Demanding(3, flag=False), "demanding{size=3 flag=false}"),
    ],
)
def test_only_options_that_differ_from_their_default_are_printed(p, text):
    assert (pass_text(p), str(p)) == (text, text)
    assert parse_pass(text, LOCAL) == p


@pytest.mark.parametrize(
    ("text", "p"),
    [
        ("sample{}", Sample()),
        ("  sample { count = 8   width=5 } ", Sample(count=8, width=5)),
        ("sample{width=5 count=8}", Sample(count=8, width=5)),
        ("sample{launch-constants}", Sample(launch_constants=True)),
        ("sample{launch-constants=false}", Sample()),
        ("sample{level=high}", Sample(level=Level.HIGH)),
        ("sample{count=none}", Sample()),
        ("sample{width=-3}", Sample(width=-3)),
    ],
)
def test_other_spellings_mean_the_same_pass(text, p):
    assert parse_pass(text, LOCAL) == p


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected the name of a pass, found the end"),
        ("smaple", 1, "unknown pass 'smaple'; did you mean 'sample'?"),
        ("zzz", 1, "unknown pass 'zzz'; known: sample, demanding"),
        ("sample{cuont=8}", 8, "sample has no option 'cuont'; did you mean 'count'?"),
        ("sample{count=8 qqq=1}", 16, "no option 'qqq'; known: count, width"),
        ("sample{hihg}", 8, "sample has no option 'hihg'; did you mean 'high'?"),
        ("sample{fast}", 8, "'fast' is ambiguous: write mode=fast or other-mode=fast"),
        ("sample{mode=fats}", 13, "wants one of fast, in-between, small, not fats"),
        ("sample{other-mode=x}", 19, "one of fast, in-between, small or none, not x"),
        ("sample{count=eight}", 14, "option 'count' wants an integer or none, not eight"),
        ("sample{width=none}", 14, "option 'width' wants an integer, not none"),
        ("sample{width=1e3}", 14, "option 'width' wants an integer, not 1e3"),
        ('sample{width="1"}', 14, "option 'width' wants an integer"),
        ("sample{launch-constants=yes}", 25, "wants true or false, not yes"),
        ("sample{count}", 8, "option 'count' of sample wants an integer or none: count=..."),
        ("sample{count=1 count=1}", 16, "option 'count' of sample is given twice"),
        ("sample{high level=high}", 13, "option 'level' of sample is given twice"),
        ("sample{count=}", 14, "expected a value of option 'count', found '}'"),
        ("sample{=3}", 8, "expected an option or '}', found '='"),
        ("sample{count=1", 15, "expected an option or '}', found the end"),
        ("sample{count=1}}", 16, "expected the end, found '}'"),
        ("sample{count=1}sample", 16, "expected the end, found 'sample'"),
        (
            "sample{count=1, width=2}",
            15,
            "expected an option or '}' (spaces stand between options), found ','",
        ),
        ("sample{count=§}", 14, "unexpected character '§'"),
        ('sample{label="open}', 14, "unexpected character '\"'"),
        (r'sample{label="\q"}', 14, "option 'label' wants text"),
        ("demanding{flag=false}", 1, "demanding needs option 'size', an integer"),
        ("demanding", 1, "demanding needs option 'size', an integer"),
    ],
)
def test_a_mistake_is_shown_at_its_column(text, column, message):
    with pytest.raises(PipelineError) as raised:
        parse_pass(text, LOCAL)
    first, line, caret = str(raised.value).split("\n")
    assert first.startswith(f"column {column}: ")
    assert message in first
    assert line == f"  {text}"
    assert caret == " " * (column + 1) + "^"


def test_the_caret_stays_below_its_column_when_the_text_has_line_breaks():
    with pytest.raises(PipelineError) as raised:
        parse_passes("sample,\n\tsmaple", LOCAL)
    assert str(raised.value).split("\n")[1:] == ["  sample,  smaple", "           ^"]


@given(st.text(alphabet='samplecountwidthfs{}=, "\\1\n', max_size=30) | st.text())
def test_any_text_is_parsed_or_refused_with_a_pipeline_error(text):
    try:
        passes = parse_passes(text, LOCAL)
    except PipelineError:
        return
    assert parse_passes(",".join(map(pass_text, passes)), LOCAL) == passes


def test_a_pass_takes_the_text_of_an_enum_for_its_value():
    assert Sample(mode="small", other_mode="fast") == Sample(mode=Mode.SMALL, other_mode=Mode.FAST)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"mode": "fats"}, ValueError, "option 'mode' wants one of fast, in-between, small"),
        ({"width": "4"}, TypeError, "sample: option 'width' wants an integer, not '4'"),
        ({"width": None}, TypeError, "option 'width' wants an integer, not None"),
        ({"count": True}, TypeError, "option 'count' wants an integer or none, not True"),
        ({"launch_constants": 1}, TypeError, "wants true or false, not 1"),
        ({"mode": Level.LOW}, TypeError, "option 'mode' wants one of fast"),
    ],
)
def test_a_wrong_value_in_python_names_the_option(options, error, message):
    with pytest.raises(error, match=message):
        Sample(**options)


@pytest.mark.parametrize("hint", [float, tuple[int, ...], int | str, list])
def test_a_field_type_without_text_is_a_type_error(hint):
    cls = dataclass(frozen=True)(
        type("Odd", (Pass,), {"name": "odd", "__annotations__": {"field": hint}, "field": None})
    )
    with pytest.raises(TypeError, match=r"Odd\.field: an option cannot be"):
        options_of(cls)


def test_a_value_without_key_that_two_options_have_is_a_type_error():
    @dataclass(frozen=True)
    class Unclear(Pass):
        name: ClassVar[str] = "unclear"
        first: Mode = option(Mode.FAST, "", bare=True)
        second: Mode = Mode.FAST

    with pytest.raises(TypeError, match=r"Unclear\.first: its values need the key"):
        options_of(Unclear)


@pytest.mark.parametrize("units", [2**63, -(2**63)])
def test_an_integer_beyond_63_bits_is_refused(units: int):
    with pytest.raises(ValueError, match="of 63 bits"):
        Sample(count=units)
    with pytest.raises(PipelineError, match="wants an integer"):
        parse_passes(f"sample{{count={units}}}", LOCAL)
