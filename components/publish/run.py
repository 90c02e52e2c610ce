"""The publish stage, top to bottom: model, verdict, a new version, and the champion moved last."""

import logging
import shutil
from pathlib import Path

from components import evaluations, models, registry, storage
from components.errors import ConfigError, DataError
from components.executor import StageResult
from components.publish.config import PublishConfig

log = logging.getLogger(__name__)

_EVALUATION = "evaluation"


def run(config: PublishConfig) -> StageResult:
    """Publishes a promoted model as the next version and makes it the champion.

    Returns:
        version: Its version; an earlier one if this very model has been published before.
        model_digest: Its digest.

    Raises:
        ConfigError: The verdict is not PROMOTE, or is about another checkpoint.
        DataError: The model, the evaluation or the registry is missing or damaged, or the champion is another one by
            now than the one that the model was compared with.
    """
    model = models.describe(config.model, config.model_digest)
    evaluation = evaluations.describe(config.evaluation)
    _require_promoted(config, model, evaluation)
    registry.require_folder(config.registry)
    with storage.only_one(Path(config.registry)):
        champion = registry.read_champion(config.registry)
        version = registry.find(config.registry, model.digest)
        if version is not None and champion is not None and champion.version >= version:
            log.info("publish: already published as version %d", version)
            summary = f"already published as version {version}; the champion is version {champion.version}"
            return _result(version, model, summary)
        _require_same_champion(champion, evaluation)
        if version is None:
            version = max(registry.versions(config.registry), default=0) + 1
            _copy(config, model, evaluation, registry.version_folder(config.registry, version))
        registry.write_champion(
            config.registry,
            registry.Champion(
                version=version,
                model_digest=model.digest,
                checkpoint_digest=model.checkpoint_digest,
                evaluation_digest=evaluation.digest,
            ),
        )
    former = f"before it, version {champion.version}" if champion else "the first"
    return _result(version, model, f"version {version} is the champion ({former})")


def _result(version: int, model: models.Description, summary: str) -> StageResult:
    return StageResult(parameters={"version": version, "model_digest": model.digest, "summary": summary})


def _require_promoted(config: PublishConfig, model: models.Description, evaluation: evaluations.Description) -> None:
    if evaluation.checkpoint_digest != model.checkpoint_digest:
        raise ConfigError(
            f"evaluation {config.evaluation} judges checkpoint {evaluation.checkpoint_digest}, but model "
            f"{config.model} comes from {model.checkpoint_digest}; give the evaluation of this model"
        )
    if evaluation.verdict != evaluations.PROMOTE:
        raise ConfigError(
            f"the verdict in {config.evaluation} is {evaluation.verdict}; only {evaluations.PROMOTE} is published",
            *evaluation.reasons,
        )


def _require_same_champion(champion: registry.Champion | None, evaluation: evaluations.Description) -> None:
    now = champion.model_digest if champion else evaluations.NO_CHAMPION
    if now != evaluation.champion_digest:
        raise DataError(
            f"the model was compared with {_name(evaluation.champion_version)}, but the champion is "
            f"{_name(champion.version if champion else 0)} now; evaluate it again with this registry"
        )


def _name(version: int) -> str:
    return f"version {version}" if version else "no champion"


def _copy(config: PublishConfig, model: models.Description, evaluation: evaluations.Description, place: Path) -> None:
    """Copies the model and the evaluation into a new version, and checks the copies before they are seen."""
    with storage.new_folder(place, models.MANIFEST) as folder:
        for source, names, target in (
            (config.evaluation, [*evaluation.files, evaluations.MANIFEST], folder / _EVALUATION),
            (config.model, [*model.files, models.MANIFEST], folder),
        ):
            for name in names:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(source, name), target / name)
        models.describe(folder, model.digest)
        evaluations.describe(folder / _EVALUATION)
