"""The recipe of a version: the source, settings and code it was made from. A run of the same recipe makes nothing new.

It lies beside a published model as `recipe.json`. Standard library only.
"""

import dataclasses
import json
from typing import Any

from components import cache_key
from components.errors import DataError

FILE = "recipe.json"
SCHEMA_VERSION = 1
# What is decided of a run.
RUN, SKIP = "RUN", "SKIP"
# The stages whose code decides what is published.
_MAKERS = ("preprocess", "train", "embed", "evaluate", "export")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What decides what a run makes.

    Attributes:
        source_fingerprint: As the fingerprint stage tells it: 64 hexadecimal digits.
        own_embedding_digest: The like of the user's own embedding; empty without one.
        settings: The pipeline's parameters that decide content, as text, by name.
        code: Digest of the code of each stage, by its name.
    """

    source_fingerprint: str
    own_embedding_digest: str
    settings: dict[str, str]
    code: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """The JSON value of the recipe."""
        return {"schema_version": SCHEMA_VERSION, **dataclasses.asdict(self)}


def of_this_code(source_fingerprint: str, own_embedding_digest: str, settings: str) -> Recipe:
    """The recipe of a run of the code that is at work.

    Args:
        source_fingerprint, own_embedding_digest: What the fingerprint stage says.
        settings: A line `name=value` for each parameter that decides content.
    """
    lines = (line.partition("=") for line in settings.split("\n") if line)
    return Recipe(
        source_fingerprint=source_fingerprint,
        own_embedding_digest=own_embedding_digest,
        settings={name: value for name, _, value in lines},
        code={stage: cache_key.source_digest(stage) for stage in _MAKERS},
    )


def from_json(value: Any, where: str) -> Recipe:
    """Reads a recipe's JSON value; what else is beside it does not count.

    Raises:
        DataError: It is none, or of another schema version.
    """
    try:
        if value["schema_version"] != SCHEMA_VERSION:
            raise DataError(f"{where} is of another schema version; expected {SCHEMA_VERSION}")
        return Recipe(**{field.name: value[field.name] for field in dataclasses.fields(Recipe)})
    except (KeyError, TypeError) as error:
        raise DataError(f"{where} is not a recipe: {error!r}") from None


def from_text(text: str, where: str) -> Recipe:
    """Reads a recipe from the text of its JSON value; see `from_json`."""
    try:
        return from_json(json.loads(text), where)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not a recipe: {error}") from None


def differences(former: Recipe, now: Recipe) -> list[str]:
    """What a run would do otherwise than the run that made a version; empty if nothing."""
    changed = []
    if former.source_fingerprint != now.source_fingerprint:
        changed.append(f"the source changed ({former.source_fingerprint[:8]} -> {now.source_fingerprint[:8]})")
    if former.own_embedding_digest != now.own_embedding_digest:
        changed.append("own_embedding changed")
    for name in sorted(former.settings.keys() | now.settings.keys()):
        old, new = former.settings.get(name, "none"), now.settings.get(name, "none")
        if not _same(old, new):
            changed.append(f"{name}: {old} -> {new}")
    code = [stage for stage in _MAKERS if former.code.get(stage) != now.code.get(stage)]
    if code:
        changed.append(f"the code of {', '.join(code)} changed")
    return changed


def _same(old: str, new: str) -> bool:
    """Whether two texts are one value: who writes numbers as text writes 0.0001 or 1e-4."""
    try:
        return old == new or float(old) == float(new)
    except ValueError:
        return False
