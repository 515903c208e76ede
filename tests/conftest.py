"""Options and marks of the whole suite. Imports nothing heavy: the suite also runs where only torch
and triton are."""

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


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()
