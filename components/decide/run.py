"""The decide stage: is anything new since the champion, and where does a training begin."""

import json

from components import checkpoints, places, recipes, registry
from components.decide.config import DecideConfig
from components.errors import ConfigError
from components.executor import StageResult
from components.recipes import RUN, SKIP
from components.registry import Champion, PublishedRecipe

_CHANGES_SHOWN = 3


def run(config: DecideConfig) -> StageResult:
    """Compares what a run would be made from with what the champion was made from. Decides by that alone.

    Returns:
        decision: `RUN` or `SKIP`.
        recipe: What the run is made from, to be published with what it makes.
        initial_checkpoint, initial_checkpoint_digest: Where a training begins; empty for a start from scratch.

    Raises:
        ConfigError: A training is to start from the champion, whose checkpoint is gone.
        DataError: The registry is damaged.
    """
    now = recipes.of_this_code(config.source_fingerprint, config.own_embedding_digest, config.settings)
    champion = registry.read_champion(config.registry)
    published = registry.read_recipe(config.registry, champion.version) if champion else None
    decision, reason = _decide(config, champion, published, now)
    initial = ""
    if decision == RUN and config.start_from == "champion" and champion is not None:
        initial = _checkpoint_of(champion, published)
        reason += f"; training starts from version {champion.version}"
    return StageResult(
        parameters={
            "decision": decision,
            "recipe": json.dumps(now.to_json(), sort_keys=True),
            "initial_checkpoint": initial,
            "initial_checkpoint_digest": champion.checkpoint_digest if initial and champion else "",
            "summary": reason,
        }
    )


def _decide(
    config: DecideConfig, champion: Champion | None, published: PublishedRecipe | None, now: recipes.Recipe
) -> tuple[str, str]:
    if champion is None:
        return RUN, "runs: nothing has been published yet"
    if published is None:
        return RUN, f"runs: version {champion.version} does not say what it was made from"
    changed = recipes.differences(published.recipe, now)
    if changed:
        more = f" and {len(changed) - _CHANGES_SHOWN} more" if len(changed) > _CHANGES_SHOWN else ""
        return RUN, f"runs: since version {champion.version}, {'; '.join(changed[:_CHANGES_SHOWN])}{more}"
    if config.refresh == "yes":
        return RUN, f"runs: asked for by refresh; nothing is new since version {champion.version}"
    return SKIP, (
        f"nothing is new since version {champion.version}: the same source, settings and code; "
        "give refresh yes to run all the same"
    )


def _checkpoint_of(champion: Champion, published: PublishedRecipe | None) -> str:
    checkpoint = "" if published is None else published.checkpoint_uri
    if not checkpoint:
        raise ConfigError(
            f"start_from is champion, but version {champion.version} does not say where its checkpoint is; "
            "give start_from scratch"
        )
    if not places.holds(places.local(checkpoint), checkpoints.MANIFEST, whole=False):
        raise ConfigError(
            f"start_from is champion, but the checkpoint of version {champion.version} is gone from {checkpoint}; "
            "restore it, or give start_from scratch"
        )
    return checkpoint
