"""Bundles that the tests of this folder open, made once a run."""

from pathlib import Path

import pytest

from tests.support.bundles import built


@pytest.fixture(scope="session")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product, a convolution and a product with a vector, for four targets."""
    return built(tmp_path_factory.getbasetemp(), "three")


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Products of any size, for cuda:90."""
    return built(tmp_path_factory.getbasetemp(), "open")
