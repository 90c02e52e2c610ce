"""Results of earlier runs, under the stages' own keys, so that unchanged stages are not started.

`history` keeps the parts of the keys beside the outputs, so that `wgan plan` can name the changed ones.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.artifacts import checkpoint_description, datasets, embeddings, models
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.stage import cache_key, cli
from components.core.storage import buckets, location
from pipeline.local import history
from pipeline.local.history import PastRun
from pipeline.local.values import Unknown
from pipeline.step_table import Step

_PLACEHOLDER = "made-later"
# The artifact in a stage's output `NAME_uri`, by name.
_KINDS: dict[str, type[Manifest]] = {
    "dataset": datasets.Manifest,
    "checkpoint": checkpoint_description.Description,
    "embedding": embeddings.Description,
    "model": models.Description,
}


def key_parts(step: Step, inputs: dict[str, Any], code: Callable[[Step], str]) -> dict[str, Any] | None:
    """Return the parts of a step's key from its stage; None if its results are never kept.

    `code` gives the digest of the stage's code where it runs. An input that is `Unknown` stays unknown in the parts.
    """
    if not step.cached:
        return None
    names = {field.name for field in step.fields()} & inputs.keys()
    settings = {name: _PLACEHOLDER if isinstance(inputs[name], Unknown) else inputs[name] for name in names}
    return cache_key.key_parts(step.stage, cli.build(step.config, settings), code(step))


def look_up(
    runs: Sequence[PastRun], stage: str, parts: dict[str, Any], maker: dict[str, str]
) -> tuple[dict[str, Any] | None, str]:
    """Return the outputs of an earlier run of a stage, if all its artifacts still exist and are whole.

    `maker` names the libraries or the image of a new run, which decide nothing. The second value says why the stage
    must run or need not; it is empty if that depends on inputs that are not known yet.
    """
    unknown = [name for name, value in parts["inputs"].items() if value == _PLACEHOLDER]

    def known(parts: dict[str, Any]) -> dict[str, Any]:
        return {**parts, "inputs": {name: value for name, value in parts["inputs"].items() if name not in unknown}}

    results = history.results(runs, stage)
    alike = [task for task in results if known(task.parts) == known(parts)]
    if not alike:
        changed = cache_key.differences(known(results[-1].parts), known(parts)) if results else []
        return None, "; ".join(changed) or "it has not been run yet"
    if unknown:
        return None, ""
    outputs, made_by = alike[-1].outputs or {}, alike[-1].maker
    for name, uri in outputs.items():
        if name.endswith("_uri") and not (
            buckets.stat(f"{uri}/{location.COMMITTED}") if buckets.is_uri(uri) else Path(uri).exists()
        ):
            return None, f"its artifact is gone: {uri}"
    try:
        for name, kind in _KINDS.items():
            if uri := outputs.get(f"{name}_uri"):
                kind.fetch(uri, str(outputs.get(f"{name}_digest")), whole=not buckets.is_uri(uri))
    except (DataError, OSError) as error:
        return None, errors.line_of(error)
    before = {name: value for name, value in made_by.items() if name in maker}
    changed = cache_key.changes(before, {name: maker[name] for name in before})
    other = f" (decides nothing: {'; '.join(changed)})" if changed else ""
    return outputs, f"its inputs, settings and code are unchanged{other}"
