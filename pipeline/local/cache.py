"""Results of earlier runs, under the stages' own keys, so that unchanged stages are not started.

`history` keeps the parts of the keys beside the outputs, so that `wgan plan` can name the changed ones.
"""

from collections.abc import Sequence
from typing import Any

from components.core.artifacts import checkpoint_manifest, datasets, embeddings, models
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, line_of
from components.core.stage import cache_key, cli
from components.core.storage import buckets
from pipeline.local.containers import Executor
from pipeline.local.history import PastRun, TaskState, results
from pipeline.local.values import Unknown
from pipeline.step_table import Step

_PLACEHOLDER = "made-later"
# The artifact of a stage, in its output `NAME_uri`.
_ARTIFACTS: dict[str, tuple[str, type[Manifest]]] = {
    "preprocess": ("dataset", datasets.Manifest),
    "train": ("checkpoint", checkpoint_manifest.Manifest),
    "embed": ("embedding", embeddings.Manifest),
    "export": ("model", models.Manifest),
}


def look_up(runs: Sequence[PastRun], step: Step, inputs: dict[str, Any], executor: Executor) -> tuple[TaskState, str]:
    """Return a step's result, with the outputs of an earlier run if its artifact still exists and is whole.

    Without outputs it has what makes a new result known to later runs. The second value says why the stage must run or
    need not; it is empty if that depends on inputs that are `Unknown`.
    """
    if not step.cached:
        return TaskState(), "always"
    names = {field.name for field in step.fields()} & inputs.keys()
    settings = {name: _PLACEHOLDER if isinstance(inputs[name], Unknown) else inputs[name] for name in names}
    parts = cache_key.key_parts(step.stage, cli.build(step.config, settings), executor.code(step))
    result = TaskState(parts=parts, maker=executor.maker(step))
    unknown = [name for name, value in parts["inputs"].items() if value == _PLACEHOLDER]

    def certain(parts: dict[str, Any]) -> dict[str, Any]:
        return {**parts, "inputs": {name: value for name, value in parts["inputs"].items() if name not in unknown}}

    earlier = results(runs, step.stage)
    if not (alike := [task for task in earlier if certain(task.parts) == certain(parts)]):
        changed = cache_key.differences(certain(earlier[-1].parts), certain(parts)) if earlier else []
        return result, "; ".join(changed) or "it has not been run yet"
    if unknown:
        return result, ""
    outputs, (name, kind) = alike[-1].outputs or {}, _ARTIFACTS[step.stage]
    uri, digest = str(outputs.get(f"{name}_uri")), str(outputs.get(f"{name}_digest"))
    try:
        kind.fetch(uri, digest, whole=not buckets.is_uri(uri))
    except (DataError, OSError) as error:
        return result, line_of(error)
    # Libraries or the image, as far as both runs name them.
    before = {name: value for name, value in alike[-1].maker.items() if name in result.maker}
    changed = cache_key.changes(before, {name: result.maker[name] for name in before})
    other = f" (decides nothing: {'; '.join(changed)})" if changed else ""
    return TaskState(outputs=outputs), f"its inputs, settings and code are unchanged{other}"
