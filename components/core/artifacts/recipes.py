"""The recipe of a published version, `recipe.json`: a run of the same recipe makes nothing new.

Standard library only.
"""

import dataclasses
import json
from typing import Any

from components.core import stages
from components.core.errors import DataError
from components.core.stage import cache_key

FILE = "recipe.json"
SCHEMA_VERSION = 1
RUN, SKIP = "RUN", "SKIP"  # decisions about a run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What decides the result of a run."""

    source_fingerprint: str
    own_embedding_digest: str  # empty without one
    settings: dict[str, str]  # the pipeline's parameters that decide the result, as text
    code: dict[str, str]  # digest of the code of each stage

    def to_json(self) -> dict[str, Any]:
        """The JSON value of the recipe."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}


def of_this_code(source_fingerprint: str, own_embedding_digest: str, settings: str) -> Recipe:
    """The recipe of a run of this code; `settings` has a line `name=value` for each deciding parameter."""
    lines = (line.partition("=") for line in settings.split("\n") if line)
    return Recipe(
        source_fingerprint=source_fingerprint,
        own_embedding_digest=own_embedding_digest,
        settings={name: value for name, _, value in lines},
        code={stage: cache_key.source_digest(stage) for stage in stages.MAKERS},
    )


def from_json(value: Any, where: str) -> Recipe:
    """Reads a recipe's JSON value, in which other fields are ignored; raises `DataError` if it is none."""
    try:
        if value["schema_version"] != SCHEMA_VERSION:
            raise DataError(f"{where} is of another schema version; expected {SCHEMA_VERSION}")
        return Recipe(**{field.name: value[field.name] for field in dataclasses.fields(Recipe)})
    except (KeyError, TypeError) as error:
        raise DataError(f"{where} is not a recipe: {error!r}") from None


def from_text(text: str, where: str) -> Recipe:
    """Reads a recipe from JSON text, as `from_json` does."""
    try:
        return from_json(json.loads(text), where)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not a recipe: {error}") from None


def differences(former: Recipe, now: Recipe) -> list[str]:
    """What changed between two recipes, a phrase each."""
    changed = []
    if former.source_fingerprint != now.source_fingerprint:
        changed.append(f"the source changed ({former.source_fingerprint[:8]} -> {now.source_fingerprint[:8]})")
    if former.own_embedding_digest != now.own_embedding_digest:
        changed.append("own_embedding changed")
    for name in sorted(former.settings.keys() | now.settings.keys()):
        old, new = former.settings.get(name, "none"), now.settings.get(name, "none")
        if not _same(old, new):
            changed.append(f"{name}: {old} -> {new}")
    code = [stage for stage in stages.MAKERS if former.code.get(stage) != now.code.get(stage)]
    if code:
        changed.append(f"the code of {', '.join(code)} changed")
    return changed


def _same(old: str, new: str) -> bool:
    """Whether two texts are one value: a number may be written as 0.0001 or as 1e-4."""
    try:
        return old == new or float(old) == float(new)
    except ValueError:
        return False
