"""A root with a dataset, its embedding and generators with random weights, and the evaluate stage on them."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import checkpoints, datasets, evaluations
from components.core.stage.executor import StageResult
from components.evaluate import run as evaluate
from components.evaluate.config import EvaluateConfig
from tests.inputs.limits import NO_LIMITS
from tests.inputs.stages import make_checkpoint, make_dataset, make_embedding

Run = Callable[..., StageResult]
DOCUMENT = (Path(__file__).parents[3] / "docs" / "evaluation.md").read_text()


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("evaluate") / "runs"
    (root / "embeddings").mkdir(parents=True)
    dataset = make_dataset(root / "datasets" / "d", {"train": 1200, "validation": 150, "test": 990})
    make_embedding(root / "embeddings" / "e", dataset)
    return root


@pytest.fixture(scope="session")
def dataset(root: Path) -> str:
    return str(root / "datasets" / "d")


@pytest.fixture(scope="session")
def embedding(root: Path) -> Path:
    return root / "embeddings" / "e"


@pytest.fixture(scope="session")
def two_checkpoints(tmp_path_factory: pytest.TempPathFactory, dataset: str) -> list[Path]:
    """Two generators with random weights; the second happens to be better in both spaces."""
    folder, digest = tmp_path_factory.mktemp("checkpoints"), datasets.Manifest.of(dataset).digest
    return [make_checkpoint(folder, seed, dataset_digest=digest) for seed in (9, 1)]


@pytest.fixture(scope="session")
def run(dataset: str, embedding: Path) -> Run:
    """Evaluate a checkpoint, with limits that everything meets unless others are given."""

    def run_with(checkpoint: Path, location: Path, **settings: Any) -> StageResult:
        inputs = {
            "checkpoint": checkpoint,
            "evaluation": location,
            "dataset": dataset,
            "embedding": embedding,
            **settings,
        }
        texts = {name: str(value) if isinstance(value, Path) else value for name, value in inputs.items()}
        return evaluate.run(EvaluateConfig(**{"sample_count": 2000, **NO_LIMITS, **texts}))

    return run_with


def copy_as(checkpoint: Path, training: Path, step: int, nan: bool = False, **settings: Any) -> Path:
    """Save the weights of a checkpoint as a step of another training; with `nan` they draw NaN."""
    described, state = checkpoints.Description.of(checkpoint), checkpoints.load_state(checkpoint)
    described = dataclasses.replace(described, step=step, settings={**described.settings, **settings})
    with pytest.MonkeyPatch.context() as patch:
        if nan:
            patch.setattr(checkpoints, "not_finite", lambda state: [])
            name = next(name for name in state if name.endswith("to_image/bias"))
            state[name] = np.full_like(state[name], np.nan)
        checkpoints.save(training, described, state)
    return checkpoints.step_folder(training, step)


def metrics(result: StageResult) -> dict[str, Any]:
    """Return the content of `metrics.json`."""
    content: dict[str, Any] = json.loads((folder_of(result) / evaluations.METRICS).read_text())
    return content


def report(result: StageResult) -> str:
    return (folder_of(result) / evaluations.REPORT).read_text()


def folder_of(result: StageResult) -> Path:
    return Path(str(result.parameters["evaluation_uri"]))
