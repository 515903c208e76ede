import pytest

from backends.bench.sweep import DEFAULTS, parse_sweep
from passes.pipeline import parse_pipeline


def texts(*words: str) -> list[str]:
    return [str(config) for config in parse_sweep(words)]


def test_a_sweep_of_nothing_is_the_default_configuration():
    assert texts() == ["gemm 128x128x64 w4 s3: tile-order{group=8}"]


def test_lists_make_their_product_with_the_last_part_fastest():
    assert texts("stages=3,4", "tile=64x64x32,128x(128+64)x64", "order=none") == [
        "gemm 64x64x32 w4 s3",
        "gemm 64x64x32 w4 s4",
        "gemm 128x(128+64)x64 w4 s3",
        "gemm 128x(128+64)x64 w4 s4",
    ]


def test_every_part_is_in_the_configuration():
    (text,) = texts(
        *("tile=128x256x64", "warps=8", "stages=2", "swapped=yes", "order=order=along_m"),
        *("decomposition=k-aligned", "units=132", "merge=fixup", "cost=3", "pieces=2"),
        "loads=descriptors",
    )
    head, _, pipeline = text.partition(": ")
    assert head == "gemm 128x256x64 w8 s2 swapped"
    named = [p.name for p in parse_pipeline(pipeline).passes]
    assert named == ["tile-order", "stream-k", "descriptors"]
    for part in ("along_m", "decomposition=k-aligned", "units=132", "merge=fixup", "cost=3",
                 "pieces=2"):  # fmt: skip
        assert part in pipeline


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("decomposition=none,split-k,stream-k", "splits=none,2,4"), 4),  # 1, 2 and 1 of 9
        (("decomposition=none,data-parallel,stream-k", "units=none,132"), 5),
        (("decomposition=none,split-k", "splits=none,2", "merge=auto,fixup"), 3),
        (("decomposition=none,stream-k", "units=none,132", "cost=none,3"), 3),
        (("decomposition=k-aligned", "units=132", "cost=none,3"), 2),
        (("decomposition=split-k", "splits=2", "merge=auto,fixup", "pieces=none,2"), 3),
        (("decomposition=split-k",), 0),
        (("warps=4,4",), 1),
    ],
)
def test_combinations_that_mean_nothing_and_twins_are_left_out(words: tuple[str, ...], count: int):
    assert len(texts(*words)) == count


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("colour=red", "sweep 'colour=red': one of tile, warps"),
        ("tile", "sweep 'tile'"),
        ("swapped=maybe", "sweep swapped=maybe: one of yes, no"),
        ("loads=tma", "sweep loads=tma: one of pointers, descriptors"),
        ("decomposition=halves", "sweep decomposition=halves: one of none, data-parallel"),
        ("tile=128", "config"),
        ("tile=", "config"),
        ("tile=96x128x64", "power of two"),
        ("warps=x", "config"),
    ],
)
def test_a_word_that_is_wrong_is_refused(word: str, said: str):
    with pytest.raises(ValueError, match=said):
        parse_sweep([word])


def test_every_default_is_a_value_that_may_be_said():
    words = [f"{name}={values[0]}" for name, values in DEFAULTS.items()]
    assert parse_sweep(words) == parse_sweep([])
