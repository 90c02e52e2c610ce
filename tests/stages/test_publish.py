"""Tests for publish and its registry: real models in a real folder, real processes."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import evaluations, models
from components.core.errors import ConfigError, DataError
from components.core.registry import registry
from components.publish import run as publish
from components.publish.config import PublishConfig
from tests.inputs import artifacts
from tests.inputs.stages import make_evaluation, make_model


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    return [make_model(root / str(seed), seed) for seed in (0, 1)]


Judged = Callable[..., PublishConfig]


@pytest.fixture
def judged(two_models: list[Path], tmp_path: Path) -> Judged:
    """Make an evaluation of a model, by its number, and return what publishes the model with it."""

    def config(number: int, verdict: str = evaluations.PROMOTE) -> PublishConfig:
        evaluation = make_evaluation(tmp_path / f"evaluation {number}", two_models[number], verdict)
        registry = str(tmp_path / "registry")
        return PublishConfig(model=str(two_models[number]), evaluation=str(evaluation), registry=registry)

    return config


def test_the_first_version_is_a_servable_copy_with_its_evaluation_and_a_guarded_card(judged: Judged) -> None:
    config = judged(0)
    assert publish.run(config).parameters["version"] == 1
    version = registry.version_location(config.registry, 1).path
    assert (version / "saved_model.pb").is_file()
    model, manifest = models.Manifest.of(config.model), evaluations.Manifest.of(config.evaluation)
    assert models.Manifest.of(version).digest == model.digest
    assert evaluations.Manifest.of(version / "evaluation").digest == manifest.digest
    assert registry.read_champion(config.registry) == registry.Champion(
        version=1,
        model_digest=model.digest,
        checkpoint_digest=manifest.checkpoint_digest,
        evaluation_digest=manifest.digest,
    )
    card = (version / models.CARD).read_text()
    assert "| Fréchet distance | fcd | 1.25 | 0.5 | 30 |" in card
    assert "Verdict: **PROMOTE**: the test says so." in card
    assert f"| checkpoint | `{model.checkpoint_digest}` |" in card
    (version / models.CARD).write_text(card.replace("| 1.25 |", "| 0.25 |"))
    with pytest.raises(DataError, match=r"CARD\.md is not"):
        registry.read_champion(config.registry)


@pytest.mark.parametrize("verdict", ["HOLD", "REJECT", "promote", ""])
def test_nothing_but_promote_is_published(judged: Judged, verdict: str) -> None:
    config = judged(0, verdict)
    with pytest.raises(ConfigError, match="only PROMOTE"):
        publish.run(config)
    assert not Path(config.registry).exists()


def test_a_verdict_on_another_checkpoint_or_against_a_previous_champion_does_not_count(judged: Judged) -> None:
    config, other = judged(0), judged(1)
    with pytest.raises(ConfigError, match="judges checkpoint"):
        publish.run(dataclasses.replace(other, model=config.model))
    publish.run(config)
    with pytest.raises(DataError, match=r"no champion, .* version 1 "):
        publish.run(other)
    assert registry.versions(config.registry) == [1]


def test_a_damaged_model_or_evaluation_is_not_published(judged: Judged, tmp_path: Path) -> None:
    config = judged(0)
    broken = Path(shutil.copytree(config.model, tmp_path / "copied"))
    (broken / "variables" / "variables.index").write_bytes(b"")
    with pytest.raises(DataError, match="is damaged"):
        publish.run(dataclasses.replace(config, model=str(broken)))
    Path(config.evaluation, evaluations.METRICS).write_text("[]")
    with pytest.raises(DataError, match="is damaged"):
        publish.run(config)


def test_an_evaluation_that_was_changed_is_not_published(judged: Judged) -> None:
    """A changed verdict.json has another digest than evaluate's, or contradicts its rules."""
    config = judged(0, evaluations.HOLD)
    digest = evaluations.Manifest.of(config.evaluation).digest
    path = Path(config.evaluation, evaluations.MANIFEST)
    promoted = {**artifacts.unsealed(path), "verdict": evaluations.PROMOTE}
    artifacts.seal(path, promoted)
    with pytest.raises(DataError, match=f"expected {digest}"):
        publish.run(dataclasses.replace(config, evaluation_digest=digest))
    rule = {"rule": "fcd_corrected", "value": 1.0, "low": 0.5, "high": 1.5, "limit": "at most 0.055"}
    changes: list[tuple[Any, str]] = [
        *(({"rules": [{**rule, "outcome": outcome}]}, r"\(fcd_corrected\)") for outcome in ("held", "of no name")),
        ({"schema_version": 1}, r"has schema version \d, expected 2: make the evaluation again"),
        ({"rules": ["x"]}, "does not describe"),
        ({"dataset_digest": "e" * 64}, r"the lineage in .* is of dataset"),
    ]
    for change, message in changes:
        artifacts.seal(path, promoted, **change)
        with pytest.raises(DataError, match=message):
            publish.run(config)
    assert not registry.versions(config.registry)


def test_images_of_another_model_are_not_published(judged: Judged) -> None:
    config = judged(0)
    path = Path(config.evaluation) / evaluations.MANIFEST
    artifacts.seal(path, artifacts.unsealed(path), checkpoint_digest="", samples_digest="e" * 64)
    with pytest.raises(ConfigError, match="images of another model"):
        publish.run(config)
    assert not registry.versions(config.registry)
