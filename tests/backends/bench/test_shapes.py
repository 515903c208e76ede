import pytest

from backends.bench.shapes import (
    drawn,
    named_set,
    parse_axes,
    parse_range,
    parse_shape,
    shape_sets,
)


def test_the_sets_hold_the_shapes_that_the_bars_are_stated_for():
    sizes = {name: len(shapes) for name, shapes in shape_sets().items()}
    assert sizes == {"square": 2, "wave": 10, "deep_k": 6, "decode": 12, "paper_sample": 40}
    assert named_set("all") == shape_sets()
    assert named_set("deep_k")["deep_k"][1] == (128, 512, 16384)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("4096", (4096,)),
        ("3:5", (3, 4, 5)),
        ("128:512:128", (128, 256, 384, 512)),
        ("128:500:128", (128, 256, 384)),
        ("1:16:*2", (1, 2, 4, 8, 16)),
        ("3:30:*3", (3, 9, 27)),
    ],
)
def test_a_range_has_its_ends_and_the_steps_between(text: str, sizes: tuple[int, ...]):
    assert parse_range(text) == sizes


@pytest.mark.parametrize(
    "text", ["", "x", "1:", "1:2:", "0", "0:4", "5:4", "1:4:0", "1:4:*1", "-1:4"]
)
def test_a_range_without_an_end_or_a_size_is_refused(text: str):
    with pytest.raises(ValueError, match="range"):
        parse_range(text)


def test_axes_make_their_product_with_the_last_fastest():
    assert parse_axes(["k=8", "m=1:2", "n=3:4"]) == ((1, 3, 8), (1, 4, 8), (2, 3, 8), (2, 4, 8))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["m=1", "n=2"], "sizes of k are missing"),
        (["m=1", "m=2", "n=1", "k=1"], "'m=2'"),
        (["q=1"], "'q=1'"),
        (["m=1", "n=2", "k=9:1"], "range '9:1'"),
    ],
)
def test_axes_that_are_no_product_are_refused(words: list[str], said: str):
    with pytest.raises(ValueError, match=said):
        parse_axes(words)


@pytest.mark.parametrize("text", ["1x2", "1x2x3x4", "0x1x1", "1x2xk", "1 x2x3"])
def test_a_shape_has_three_sizes(text: str):
    assert parse_shape("1x2x3") == (1, 2, 3)
    with pytest.raises(ValueError, match="shape"):
        parse_shape(text)


def test_an_unknown_set_is_refused_with_the_names_that_there_are():
    with pytest.raises(ValueError, match="square, wave, deep_k, decode, paper_sample, all"):
        named_set("waves")


def test_drawn_shapes_are_of_the_seed_and_of_the_range():
    shapes = drawn(200, 7)
    assert shapes == drawn(200, 7)
    assert shapes != drawn(200, 8)
    assert all(128 <= size <= 8192 for shape in shapes for size in shape)
    assert all(n % 8 == k % 8 == 0 for _, n, k in shapes)
    below = sum(m < 1024 for m, _, _ in shapes)  # the middle of a log-uniform draw
    assert 70 < below < 130
