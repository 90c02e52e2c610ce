"""The publish stage: checks model and verdict, adds a version with a card, and moves the champion last."""

import contextlib
import dataclasses
import functools
import logging
import shutil
from pathlib import Path

from components.core.artifacts import evaluations, lineage, models, recipes
from components.core.errors import ConfigError, DataError, StageError, Superseded, naming
from components.core.registry import registry
from components.core.reporting import model_card
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files, digests
from components.core.storage.buckets import Conflict
from components.core.storage.location import Location
from components.publish.config import PublishConfig

log = logging.getLogger(__name__)


def run(config: PublishConfig) -> StageResult:
    """Publish a promoted model as the next version and make it the champion.

    All digests are computed again from the files. A model that was published before keeps its version.

    Raises:
        ConfigError: The verdict is not PROMOTE, or is about another checkpoint.
        DataError: The model, the evaluation, its lineage or the registry is missing or damaged, they contradict each
            other, or the model was compared with another champion.
        Superseded: Another process changed the champion meanwhile.
        TransientError: The bucket does not answer; publishing again continues.
    """
    model = models.Manifest.fetch(config.model, config.model_digest)
    evaluation = evaluations.Manifest.fetch(config.evaluation, config.evaluation_digest)
    origin = _require_promoted(config, model, evaluation)
    numbers = atomic_files.read_json(Location.of(config.evaluation).path / evaluations.METRICS, "evaluation")
    judgment = model_card.Judgment(evaluation=evaluation, numbers=numbers, lineage=origin)
    judged_card = model_card.render(model, origin.checkpoint["settings"], judgment)
    accepted = registry.read_champion(config.registry)
    if result := _published_before(config, model, accepted):
        return result
    _require_compared_with(accepted, evaluation, DataError)
    fill = functools.partial(_fill, config, model, evaluation, judged_card)
    version = None
    while True:
        pointer = registry.read_pointer(config.registry)
        champion = pointer.champion
        if pointer.content is None:  # written before the first version, so that a missing one is a lost one
            with contextlib.suppress(Conflict):
                registry.move_champion(config.registry, pointer, champion)
            continue
        if champion != accepted:  # another process replaced it
            if result := _published_before(config, model, champion):
                return result
            _require_compared_with(champion, evaluation, Superseded)
            accepted = champion
        # An interrupted publication may have added it with an earlier evaluation.
        version = version or registry.add(config.registry, fill, model.digest, champion)
        _require_next(version, champion)
        try:
            whole = registry.read_version(config.registry, version)
        except DataError:
            _require_next(version, registry.read_pointer(config.registry).champion)  # removed, or superseded
            raise
        try:
            registry.move_champion(config.registry, pointer, registry.crowned(champion, whole))
        except Conflict:
            continue
        previous = f"before it, version {champion.version}" if champion.version else "the first"
        return _result(version, model, f"version {version} is the champion ({previous})")


def _fill(
    config: PublishConfig, model: models.Manifest, evaluation: evaluations.Manifest, card: str, folder: Path
) -> None:
    """Copy the model and the evaluation into the folder of a new version, and check the copies."""
    for source, names, target in (
        (config.evaluation, [*evaluation.files, evaluations.MANIFEST], folder / registry.EVALUATION),
        (config.model, model.files, folder),
    ):
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            with naming(target / name):
                shutil.copyfile(Location.of(source).path / name, target / name)
    recipe_sha256 = ""
    if config.recipe:
        checkpoint = config.checkpoint and Location.of(config.registry).parent.note(config.checkpoint)
        dataclasses.replace(recipes.from_text(config.recipe), checkpoint_uri=checkpoint).write(folder)
        recipe_sha256 = digests.sha256_of_file(folder / recipes.Recipe.FILE)
    dataclasses.replace(models.with_card(folder, model, card), recipe_sha256=recipe_sha256).write(folder)
    models.Manifest.of(folder, model.digest)
    evaluations.Manifest.of(folder / registry.EVALUATION, evaluation.digest)


def _published_before(config: PublishConfig, model: models.Manifest, champion: registry.Champion) -> StageResult | None:
    """Return the result if this model is or was champion."""
    version = registry.find(config.registry, model.digest, champion)
    if version is None or version not in champion.been:
        return None
    log.info("publish: already published as version %d", version)
    registry.note(config.registry, champion)  # the process that published it may have died before
    summary = f"already published as version {version}; the champion is version {champion.version}"
    return _result(version, model, summary, reused=True)


def _result(version: int, model: models.Manifest, summary: str, reused: bool = False) -> StageResult:
    return StageResult(parameters={"version": version, "model_digest": model.digest, "summary": summary}, reused=reused)


def _require_promoted(
    config: PublishConfig, model: models.Manifest, evaluation: evaluations.Manifest
) -> lineage.Lineage:
    """Return the lineage of an evaluation that promotes this model; refuse any other."""
    if evaluation.samples_digest:
        raise ConfigError(
            f"evaluation {config.evaluation} judges images of another model, which cannot be published; give one "
            f"that judges the checkpoint of {config.model}"
        )
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
    if failed := [str(rule.get("rule")) for rule in evaluation.rules if rule["outcome"] != evaluations.PASSED]:
        raise DataError(
            f"the verdict in {config.evaluation} is {evaluations.PROMOTE}, but its rules did not pass "
            f"({', '.join(failed)}): it was changed; evaluate the model again"
        )
    return lineage.read(config.evaluation, evaluation)


def _require_compared_with(
    champion: registry.Champion, evaluation: evaluations.Manifest, refusal: type[StageError]
) -> None:
    if champion.model_digest != evaluation.champion_digest:
        numbers = evaluation.champion_version, champion.version
        then, now = (f"version {version}" if version else "no champion" for version in numbers)
        remedy = "evaluate it again with this registry"
        raise refusal(f"the model was compared with {then}, but the champion is {now} now; {remedy}")


def _require_next(version: int, champion: registry.Champion) -> None:
    """Refuse a version older than any champion: only a rollback goes back."""
    if version in champion.removed:
        raise Superseded(f"version {version} was removed while it was published; publish again")
    if version < max(champion.been):
        raise Superseded(
            f"version {max(champion.been)} has been champion since version {version} was begun; "
            f"`wgan registry promote {version}` makes it champion anyway"
        )
