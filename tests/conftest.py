"""Options and marks of the whole suite. Imports nothing heavy: the suite also runs where only torch
and triton are."""

import os
from functools import cache

import hypothesis
import pytest

from tests.support.sampling import kept

# what is tested is compiled, not found in the cache of who runs the tests
os.environ["LOOPIR_CACHE"] = "off"

# the deadline of a single example would fail on a busy machine; the test's own timeout stands
hypothesis.settings.register_profile("loopir", deadline=None)
hypothesis.settings.load_profile("loopir")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts")
    parser.addoption("--long", action="store_true", help="run the tests at their full counts")


@pytest.hookimpl(trylast=True)  # behind -k and -m: a third of what they leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu"):
            if not item.get_closest_marker("timeout"):  # the mark of a module is further than this
                item.add_marker(pytest.mark.timeout(120))
            if not _has_gpu():
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("long") and not config.getoption("--long"):
            item.add_marker(pytest.mark.skip(reason="runs with --long"))
    if not config.getoption("--long") and not _names_a_test(config):
        _sample(config, items)


@cache
def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _names_a_test(config: pytest.Config) -> bool:
    return any("::" in arg for arg in config.args)


def _sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that only --long runs, of the functions marked `sampled`."""
    functions: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and _may_be_left_out(item):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out: list[pytest.Item] = []
    for cases in functions.values():
        chosen = kept({case.nodeid: case.callspec.params for case in cases})
        left_out += [case for case in cases if case.nodeid not in chosen]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _may_be_left_out(item: pytest.Function) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    return "sampled" in marks and "gpu" not in marks and hasattr(item, "callspec")
