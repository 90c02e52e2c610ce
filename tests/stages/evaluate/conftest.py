"""A dataset, its embedding and generators with random weights, and the evaluate stage on them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import datasets, evaluations
from components.core.stage.executor import StageResult
from components.evaluate import run as evaluate
from components.evaluate.config import EvaluateConfig
from tests.inputs.limits import NO_LIMITS
from tests.inputs.stages import make_checkpoint, make_dataset, make_embedding

Run = Callable[..., StageResult]
DOCUMENT = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text()


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_dataset(tmp_path_factory.mktemp("dataset"), {"train": 1200, "validation": 150, "test": 990})


@pytest.fixture(scope="session")
def embedding(tmp_path_factory: pytest.TempPathFactory, dataset: str) -> Path:
    return make_embedding(tmp_path_factory.mktemp("embedding"), dataset)


@pytest.fixture(scope="session")
def two_checkpoints(tmp_path_factory: pytest.TempPathFactory, dataset: str) -> list[Path]:
    """Two generators with random weights; the second happens to be better in both spaces."""
    folder, digest = tmp_path_factory.mktemp("checkpoints"), datasets.Manifest.of(dataset).digest
    return [make_checkpoint(folder, seed, dataset_digest=digest) for seed in (9, 1)]


@pytest.fixture(scope="session")
def run(dataset: str, embedding: Path) -> Run:
    """Evaluate a checkpoint, with limits that everything meets unless others are given."""

    def run_with(checkpoint: Path, location: Path, **settings: Any) -> StageResult:
        inputs = {"checkpoint": checkpoint, "evaluation": location, "dataset": dataset, "embedding": embedding}
        values = {"sample_count": 2000, **NO_LIMITS, **inputs, **settings}
        texts: dict[str, Any] = {
            name: str(value) if isinstance(value, Path) else value for name, value in values.items()
        }
        return evaluate.run(EvaluateConfig(**texts))

    return run_with


def metrics(result: StageResult) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder_of(result) / evaluations.METRICS).read_text())
    return content


def report(result: StageResult) -> str:
    return (folder_of(result) / evaluations.REPORT).read_text()


def folder_of(result: StageResult) -> Path:
    return Path(str(result.parameters["evaluation_uri"]))
