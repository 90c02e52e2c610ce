"""A dataset of three classes and a fixed embedding of it."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory, make_dataset: Callable[..., str]) -> str:
    return make_dataset(tmp_path_factory.mktemp("dataset"), {"train": 1200, "validation": 150, "test": 990})


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory, dataset: str, make_embedding: Callable[..., Path]) -> Path:
    return make_embedding(tmp_path_factory.mktemp("embedding"), dataset)
