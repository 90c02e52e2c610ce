"""A file for `wgan run --config` that makes a published model again, from its version's records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core import stages
from components.core.artifacts.lineage import PARENTS, Lineage
from components.core.registry.registry import Version
from components.core.reporting.text import plain
from components.core.stage import cache_key, provenance
from components.core.storage import digests
from components.core.storage.location import Location
from components.train.config import ON_RECORD
from pipeline import step_table
from pipeline.package import config_file

# The stage of each output, links of a lineage among them.
STAGES = {name.removesuffix("_uri"): stage for stage, row in stages.TABLE.items() for name in row.outputs}
_SEVERAL_WORKERS = "multi-worker"
_UNKNOWN_SOURCE, _CUSTOM_EMBEDDING = "SOURCE", "CUSTOM_EMBEDDING"
_RECORDED = ("accelerator", "replicas", *ON_RECORD)  # of a checkpoint, beside the settings that decide its weights


def config(
    version: Version, origin: Lineage, root: str, made_in: Location, source: str, version_of: Callable[[str], int]
) -> str:
    """Return the settings of a version that are not defaults, and as comments what a file of settings cannot say.

    `root` is for the new run, `made_in` that of the version's run. An empty `source` means the recorded one.
    `version_of` returns the version whose model comes from a checkpoint, 0 for none. Raises KeyError, TypeError or
    AttributeError if the lineage is incomplete.
    """
    training, embedding = (getattr(origin, name).get(digests.MADE_WITH, {}) for name in ("checkpoint", "embedding"))
    recorded = {
        "preprocess": origin.dataset["preprocessing"],
        "train": {**origin.checkpoint["settings"], **{name: training[name] for name in _RECORDED if name in training}},
        "embed": origin.embedding["settings"],
        "evaluate": version.evaluation.settings,
    }
    initial = recorded["train"].pop("initial_checkpoint_digest", "")
    source = source or version.evaluation.source
    used: dict[str, Any] = {}
    comments = [
        f"version {version.number}: the same bits come from the same source, code, libraries and kind of processor",
        f"source {origin.dataset['source']['fingerprint']}",
        *(f"{name} {digest}" for name, digest in {**origin.digests, "model": version.model.digest}.items()),
        *_differences(version, origin),
    ]
    for stage, stage_settings in recorded.items():
        for name, value in stage_settings.items():
            if used.setdefault(name, value) != value:
                comments.append(f"WARNING: {name} of {stage} was {value}; a run has one for all stages.")
    for stage, maker in (("train", training), ("embed", embedding)):
        if threads := maker.get("threads"):
            comments.append(f"{stage} used {threads} threads: set the variable TF_NUM_INTRAOP_THREADS={threads}.")
    if used.get("precision") == "auto" and "precision" in training:
        comments.append(f"Training chose the precision {training['precision']}; with another the bits differ.")
    if used.get("accelerator") == _SEVERAL_WORKERS:
        used.pop("replicas", None)
        comments.append("It was trained by several workers: start train on each, with its TF_CONFIG.")
    fields = step_table.PARAMETERS
    values = {name: value for name, value in used.items() if name not in fields or fields[name].default != value}
    values |= {"root": root, "source": source or _UNKNOWN_SOURCE}
    if not source:
        comments.append(f"The location of the source is not recorded: replace {_UNKNOWN_SOURCE} by it.")
    elif not made_in.in_bucket and made_in.path.resolve().is_relative_to(Path(source).resolve()):
        comments.append(f"The source holds {made_in}, whose files were left out: move it elsewhere.")
    if initial:
        values["start_from"] = "champion"
        number = version_of(initial)
        first = f" of version {number} (`wgan registry reproduce {number}` makes it)" if number else ""
        comments.append(f"Training began with checkpoint {initial}{first}: make that the champion of the root first.")
    if origin.embedding.get("custom_embedding_digest"):
        values["custom_embedding"] = _CUSTOM_EMBEDDING
        comments.append(f"Replace {_CUSTOM_EMBEDDING} by the location of the custom embedding.")
    if champion := version.evaluation.champion_version:
        comments.append(f"It was judged beside version {champion}, the champion then.")
    return "".join(f"# {plain(line)}\n" for line in comments) + config_file.written(values)


def _differences(version: Version, origin: Lineage) -> list[str]:
    """Return how code and libraries here differ from those that made a version."""
    makers = {name: getattr(origin, name).get(digests.MADE_WITH, {}) for name in PARENTS}
    makers |= {"evaluation": origin.made_with, "model": version.model.made_with}
    installed = provenance.library_versions()
    changed_code: list[str] = []
    changed_libraries: set[str] = set()
    for artifact, maker in makers.items():
        if maker.get("code") != cache_key.source_digest(STAGES[artifact]):
            changed_code.append(
                f"WARNING: the code of {STAGES[artifact]} here differs from that of the model ({maker.get('code')})."
            )
        for name, was in maker.get("libraries", {}).items():
            if installed.get(name) != was:
                changed_libraries.add(f"WARNING: {name} was {was}, and is {installed.get(name, 'not installed')} here.")
    return [*changed_code, *sorted(changed_libraries)]
