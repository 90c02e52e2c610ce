"""The publish stage, top to bottom: model, verdict, a new version with a card, and the champion moved last."""

import logging
import shutil
from pathlib import Path

from components import card, evaluations, lineage, models, recipes, registry, storage
from components.errors import ConfigError, DataError
from components.executor import StageResult
from components.publish.config import PublishConfig

log = logging.getLogger(__name__)


def run(config: PublishConfig) -> StageResult:
    """Publishes a promoted model as the next version and makes it the champion.

    Every digest is computed again from the files: of the model, of the evaluation, and of what the evaluation says of
    its dataset, checkpoint and embedding.

    Returns:
        version: Its version; an earlier one if this very model has been published before.
        model_digest: Its digest.

    Raises:
        ConfigError: The verdict is not PROMOTE, or is about another checkpoint.
        DataError: The model, the evaluation, its lineage or the registry is missing or damaged, they contradict each
            other, or the champion is another one by now than the one that the model was compared with.
    """
    model = models.describe(config.model, config.model_digest)
    evaluation = evaluations.describe(config.evaluation, config.evaluation_digest)
    _require_promoted(config, model, evaluation)
    origin = lineage.read(config.evaluation, evaluation)
    _require_same_origin(config, model, origin)
    judged_card = _judged_card(config, model, evaluation, origin)
    registry.require_folder(config.registry)
    with storage.only_one(Path(config.registry)):
        champion = registry.read_champion(config.registry)
        version = registry.find(config.registry, model.digest)
        if version is not None and champion is not None and champion.version >= version:
            log.info("publish: already published as version %d", version)
            summary = f"already published as version {version}; the champion is version {champion.version}"
            return _result(version, model, summary, kept=True)
        _require_same_champion(champion, evaluation)
        if version is None:
            version = max(registry.versions(config.registry), default=0) + 1
            _copy(config, model, evaluation, judged_card, registry.version_folder(config.registry, version))
        # What a publication that was interrupted has copied may be an earlier evaluation than the one given now.
        published = registry.read_version(config.registry, version, None)
        registry.write_champion(
            config.registry,
            registry.Champion(
                version=version,
                model_digest=model.digest,
                checkpoint_digest=model.checkpoint_digest,
                evaluation_digest=published.evaluation.digest,
            ),
        )
    former = f"before it, version {champion.version}" if champion else "the first"
    return _result(version, model, f"version {version} is the champion ({former})")


def _result(version: int, model: models.Description, summary: str, kept: bool = False) -> StageResult:
    return StageResult(parameters={"version": version, "model_digest": model.digest, "summary": summary}, kept=kept)


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
    failed = [str(rule.get("rule")) for rule in evaluation.rules if rule["passed"] is not True]
    if failed:
        raise DataError(
            f"the verdict in {config.evaluation} is {evaluations.PROMOTE}, but its rules failed ({', '.join(failed)}): "
            "it was changed; evaluate the model again"
        )


def _require_same_origin(config: PublishConfig, model: models.Description, origin: lineage.Lineage) -> None:
    """Refuses a model that says of itself what its checkpoint does not say."""
    for name in ("step", "dataset_digest", "classes"):
        said, known = getattr(model, name), origin.checkpoint.get(name)
        if said != known:
            raise DataError(
                f"model {config.model} says that its {name} is {said!r}, but of the checkpoint that was judged it is "
                f"{known!r}; export that checkpoint again"
            )


def _judged_card(
    config: PublishConfig, model: models.Description, evaluation: evaluations.Description, origin: lineage.Lineage
) -> str:
    """The card of the version."""
    numbers = storage.read_json(Path(config.evaluation, evaluations.METRICS), "evaluation")
    try:
        judgement = card.Judgement(evaluation=evaluation, numbers=numbers, lineage=origin)
        return card.render(model, origin.checkpoint["settings"], judgement)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"evaluation {config.evaluation} lacks what a card tells ({error!r}): an earlier version of this program "
            "made it, or it was changed; evaluate the model again"
        ) from None


def _require_same_champion(champion: registry.Champion | None, evaluation: evaluations.Description) -> None:
    now = champion.model_digest if champion else evaluations.NO_CHAMPION
    if now != evaluation.champion_digest:
        raise DataError(
            f"the model was compared with {_name(evaluation.champion_version)}, but the champion is "
            f"{_name(champion.version if champion else 0)} now; evaluate it again with this registry"
        )


def _name(version: int) -> str:
    return f"version {version}" if version else "no champion"


def _copy(
    config: PublishConfig,
    model: models.Description,
    evaluation: evaluations.Description,
    judged_card: str,
    place: Path,
) -> None:
    """Copies the model and the evaluation into a new version, and checks the copies before they are seen."""
    with storage.new_folder(place, models.MANIFEST) as folder:
        for source, names, target in (
            (config.evaluation, [*evaluation.files, evaluations.MANIFEST], registry.evaluation_folder(folder)),
            (config.model, model.files, folder),
        ):
            for name in names:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(source, name), target / name)
        published = models.with_card(folder, model, judged_card)
        storage.write_json(folder / models.MANIFEST, published.to_json())
        if config.recipe:
            recipe = recipes.from_text(config.recipe, "recipe")
            registry.write_recipe(folder, registry.PublishedRecipe(recipe, config.checkpoint))
        models.describe(folder, model.digest)
        evaluations.describe(registry.evaluation_folder(folder), evaluation.digest)
