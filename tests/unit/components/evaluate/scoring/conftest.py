"""A dataset of three classes and a fixed embedding of it."""

from pathlib import Path

import pytest

from tests.inputs.stages import make_dataset, make_embedding


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_dataset(tmp_path_factory.mktemp("dataset"), {"train": 1200, "validation": 150, "test": 990})


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory, dataset: str) -> Path:
    return make_embedding(tmp_path_factory.mktemp("embedding"), dataset)
