"""The decide stage: reads the source, decides whether anything is new since the champion, and where training starts."""

import json

from components.core.artifacts import checkpoint_manifest, recipes
from components.core.artifacts.recipes import RUN, SKIP, Recipe
from components.core.errors import ConfigError
from components.core.registry import registry
from components.core.registry.registry import Champion
from components.core.sources import source_listing
from components.core.stage import inputs
from components.core.stage.executor import StageResult
from components.core.storage.location import MANIFEST_ALONE, Location
from components.decide.config import DecideConfig

_CHANGES_SHOWN = 3


def run(config: DecideConfig) -> StageResult:
    """Compare the inputs of this run with those of the champion, and decide by these alone.

    It decodes nothing, and needs the standard library alone.

    Raises:
        ConfigError: A training is to start from the champion, whose checkpoint is gone; or the source is a URI of
            another scheme than gs://.
        OSError: A new run could not write its results.
        DataError: The source does not exist or holds no images, the embedding is no SavedModel, or the registry is
            damaged.
    """
    contents = source_listing.contents(config.source, config.source_index, config.results, label_file=config.label_file)
    custom_digest = inputs.digest_of_embedding(config.custom_embedding)
    now = recipes.current(contents.fingerprint, custom_digest, config.settings)
    champion = registry.read_champion(config.registry)
    published = registry.read_recipe(config.registry, champion.version) if champion.version else None
    decision, reason = _decide(config, champion, published, now)
    if decision == RUN:
        Location.of(config.registry).require_writable()  # the folder around it, which holds all results
    initial, initial_digest = "", ""
    if decision == RUN and config.start_from == "champion" and champion.version:
        initial = _checkpoint_of(champion, published, Location.of(config.registry).parent)
        initial_digest = champion.checkpoint_digest
        reason += f"; training starts from version {champion.version}"
    return StageResult(
        parameters={
            "decision": decision,
            "source_fingerprint": contents.fingerprint,
            "custom_embedding_digest": custom_digest,
            "recipe": json.dumps(now.to_json(), sort_keys=True),
            "initial_checkpoint": initial,
            "initial_checkpoint_digest": initial_digest,
            "summary": f"{reason}; the source holds {contents.summary}",
        }
    )


def _decide(config: DecideConfig, champion: Champion, published: Recipe | None, now: Recipe) -> tuple[str, str]:
    if not champion.version:
        return RUN, "runs: nothing has been published yet"
    if published is None:
        return RUN, f"runs: version {champion.version} has no recipe"
    if changed := recipes.differences(published, now):
        more = f" and {len(changed) - _CHANGES_SHOWN} more" if len(changed) > _CHANGES_SHOWN else ""
        return RUN, f"runs: since version {champion.version}, {'; '.join(changed[:_CHANGES_SHOWN])}{more}"
    if config.refresh == "yes":
        return RUN, f"runs: refresh is yes; nothing is new since version {champion.version}"
    same = "the same source, settings and code; give refresh yes to run anyway"
    return SKIP, f"nothing is new since version {champion.version}: {same}"


def _checkpoint_of(champion: Champion, published: Recipe | None, root: Location) -> str:
    problem = f"version {champion.version} has no recorded checkpoint;"
    if published and published.checkpoint_uri:
        checkpoint = root / published.checkpoint_uri
        if checkpoint.fetch(checkpoint_manifest.MANIFEST, MANIFEST_ALONE):
            return checkpoint.uri
        problem = f"the checkpoint of version {champion.version} is gone from {checkpoint}; restore it, or"
    raise ConfigError(f"start_from is champion, but {problem} give start_from scratch")
