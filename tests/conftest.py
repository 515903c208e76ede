"""Options and marks of the whole suite. Imports nothing heavy: the suite also runs where only torch
and triton are."""

from zlib import crc32

import hypothesis
import pytest

# the deadline of a single example would fail on a busy machine; the test's own timeout stands
hypothesis.settings.register_profile("loopir", deadline=None)
hypothesis.settings.load_profile("loopir")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")
    parser.addoption("--long", action="store_true", help="run the tests at their full counts")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.timeout(120))
            if not _has_gpu():
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="runs with --long"))
    _sample(config, items)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


#: files whose parametrized cases are many and slow: a run without --long takes every third one,
#: by the checksum of its name, so that the test suite ends in time on two cores
_SAMPLED = (
    "tests/loopir/test_build_",
    "tests/test_zoo.py",
    "tests/workloads/",
    "tests/backends/test_merge_numerics.py",
    "tests/backends/test_workspaces.py",
    "tests/passes/stream_k/test_attacks.py",
    "tests/passes/stream_k/test_decompositions.py",
    "tests/passes/stream_k/test_merge_bits.py",
    "tests/passes/stream_k/test_merge_faults.py",
    "tests/passes/stream_k/test_merges.py",
    "tests/passes/test_local_storage.py",
    "tests/passes/test_lowering.py",
    "tests/passes/test_offload.py",
    "tests/passes/stream_k/test_split_stores.py",
    "tests/passes/test_soundness.py",
    "tests/passes/tile/",
)


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that only --long runs; those marked gpu all stay."""
    left_out = [] if config.getoption("--long") else [i for i in items if _is_left_out(i)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_left_out(item: pytest.Item) -> bool:
    is_case = item.nodeid.startswith(_SAMPLED) and "[" in item.nodeid
    return is_case and not item.get_closest_marker("gpu") and crc32(item.nodeid.encode()) % 3 > 0
