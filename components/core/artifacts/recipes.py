"""The recipe of a published version, `recipe.json`: a run of the same recipe makes nothing new."""

import dataclasses

from components.core import stages
from components.core.artifacts.manifest import Manifest
from components.core.stage import cache_key
from components.core.storage import atomic_files

RUN, SKIP = "RUN", "SKIP"  # decisions about a run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(Manifest):
    """Everything that decides the result of a run."""

    FILE = "recipe.json"
    KIND = "recipe"
    VERSION = 2

    source_fingerprint: str
    custom_embedding_digest: str  # empty without one
    settings: dict[str, str]  # the pipeline's parameters that decide the result, as text
    code: dict[str, str]  # digest of the code of each stage
    checkpoint_uri: str = ""  # of a published version: location of its model's checkpoint; decides nothing


def current(source_fingerprint: str, custom_embedding_digest: str, settings: str) -> Recipe:
    """Return the recipe of a run of this code; `settings` has one line `name=value` for each deciding parameter."""
    lines = (line.partition("=") for line in settings.split("\n") if line)
    return Recipe(
        source_fingerprint=source_fingerprint,
        custom_embedding_digest=custom_embedding_digest,
        settings={name: value for name, _, value in lines},
        code={stage: cache_key.source_digest(stage) for stage in stages.MAKERS},
    )


def from_text(text: str) -> Recipe:
    """Read a recipe from the JSON text that the decide stage passes on."""
    return Recipe.from_json(atomic_files.parse_json(text.encode(), "recipe", Recipe.KIND), "recipe")


def differences(previous: Recipe, now: Recipe) -> list[str]:
    """Return what changed between two recipes, a phrase each."""
    changed = []
    if previous.source_fingerprint != now.source_fingerprint:
        changed.append(f"the source changed ({previous.source_fingerprint[:8]} -> {now.source_fingerprint[:8]})")
    if previous.custom_embedding_digest != now.custom_embedding_digest:
        changed.append("custom_embedding changed")
    same = {name: old for name, old in previous.settings.items() if _same(old, now.settings.get(name, "none"))}
    changed += cache_key.changes(previous.settings, {**now.settings, **same})
    if code := [stage for stage in stages.MAKERS if previous.code.get(stage) != now.code.get(stage)]:
        changed.append(f"the code of {', '.join(code)} changed")
    return changed


def _same(old: str, new: str) -> bool:
    """Return whether two texts are one value: 0.0001 and 1e-4 are the same number."""
    try:
        return old == new or float(old) == float(new)
    except ValueError:
        return False
