"""The commands that make a published model again, from its version's records."""

import shlex
from pathlib import Path
from typing import Any

from components.core import settings, stages
from components.core.artifacts import lineage
from components.core.artifacts.lineage import Lineage
from components.core.registry.registry import Version
from components.core.reporting.markdown import plain
from components.core.stage import cache_key
from components.core.storage import digests
from components.core.storage.location import Location

# The stage of each link of a lineage.
STAGES = {
    "dataset": "preprocess",
    "checkpoint": "train",
    "embedding": "embed",
    "evaluation": "evaluate",
    "model": "export",
}
_SEVERAL_WORKERS = "multi-worker"
_UNKNOWN_SOURCE, _CUSTOM_EMBEDDING, _INITIAL_CHECKPOINT = "SOURCE", "CUSTOM_EMBEDDING", "INITIAL_CHECKPOINT"
# They decide which steps are kept, when means restart, and whether training continues.
_COURSE = ("log_every", "sample_every", "checkpoint_every", "keep_checkpoints", "when_unhealthy", "rollbacks")


def script(
    version: Version, origin: Lineage, root: Path, made_in: Location, source: str = "", initial_version: int = 0
) -> list[str]:
    """Return the lines of a shell script that makes the model of a version in an empty folder, and judges it.

    Each command is given the digests that its inputs must have, so that the script ends where something differs.
    `made_in` is the root of the version's run, which was no part of the source. An empty `source` means the recorded
    one. `initial_version` is the version whose checkpoint the training began with; 0 for none, or for one that is not
    known. Raises KeyError, TypeError or AttributeError if the lineage is incomplete.
    """
    dataset, checkpoints, embedding = root / "dataset", root / "checkpoints", root / "embedding"
    checkpoint = checkpoints / f"step-{version.model.step:010d}"
    digest_of = origin.digests
    dataset_inputs = {"dataset": dataset, "dataset_digest": digest_of["dataset"]}
    checkpoint_inputs = {"checkpoint": checkpoint, "checkpoint_digest": digest_of["checkpoint"]}
    source = source or version.evaluation.source
    preprocess = {
        "source": source or _UNKNOWN_SOURCE,
        "source_fingerprint": origin.dataset["source"]["fingerprint"],
        "dataset": dataset,
        "results": made_in,
    }
    maker = origin.checkpoint.get(digests.MADE_WITH, {})
    course = {name: maker[name] for name in _COURSE if name in maker}
    train = {**dataset_inputs, "checkpoints": checkpoints, **_hardware(origin.checkpoint), **course}
    if initial_digest(origin):
        train |= {"initial_checkpoint": _INITIAL_CHECKPOINT}
    embed = {**dataset_inputs, "embedding": embedding, **_hardware(origin.embedding)}
    if custom := origin.embedding.get("custom_embedding_digest"):
        embed |= {"custom_embedding": _CUSTOM_EMBEDDING, "custom_embedding_digest": custom}
    champion = version.evaluation.champion_version
    beside = f"; then beside version {champion}, the champion then, here alone" if champion else ", as the first"
    embedding_inputs = {"embedding": embedding, "embedding_digest": digest_of["embedding"]}
    evaluate = {**checkpoint_inputs, **dataset_inputs, **embedding_inputs, "evaluation": root / "evaluation"}
    return [
        *_comments(version, origin, source != "", initial_version),
        "set -e",
        _command("preprocess", preprocess, origin.dataset["preprocessing"]),
        f"# dataset_digest: {digest_of['dataset']}",
        _threads(origin.checkpoint) + _command("train", train, origin.checkpoint["settings"]),
        f"# checkpoint_digest: {digest_of['checkpoint']}",
        _command("export", {**checkpoint_inputs, "model": root / "model"}, {}),
        f"# model_digest: {version.model.digest}",
        f"# How it was judged{beside}:",
        _threads(origin.embedding) + _command("embed", embed, origin.embedding["settings"]),
        f"# embedding_digest: {digest_of['embedding']}",
        _command("evaluate", evaluate, version.evaluation.settings),
    ]


def initial_digest(origin: Lineage) -> str:
    """Return the digest of the initial checkpoint of a version's training; empty for none."""
    return str(origin.checkpoint["settings"].get("initial_checkpoint_digest", ""))


def _comments(version: Version, origin: Lineage, known_source: bool, initial_version: int) -> list[str]:
    """Return the artifacts that the script makes, and how code and libraries here differ."""
    lines = [
        f"version {version.number}: model {version.model.digest}",
        "The same bits come from the same source, code, libraries and kind of processor.",
    ]
    records = {name: getattr(origin, name).get(digests.MADE_WITH, {}) for name in lineage.PARENTS}
    makers = {**records, "evaluation": origin.made_with, "model": version.model.made_with}
    for artifact, maker in makers.items():
        stage = STAGES[artifact]
        if maker.get("code") != cache_key.source_digest(stage):
            lines.append(f"WARNING: the code of {stage} here differs from that of the model ({maker.get('code')}).")
    lines += _other_libraries(makers)
    training = origin.checkpoint.get(digests.MADE_WITH, {})
    if origin.checkpoint["settings"].get("precision") == "auto" and "precision" in training:
        lines.append(f"Training chose the precision {training['precision']}; with another the bits differ.")
    if training.get("accelerator") == _SEVERAL_WORKERS:
        lines.append("It was trained by several workers: start train on each, with its TF_CONFIG.")
    if not known_source:
        lines.append(f"The location of the source is not recorded: replace {_UNKNOWN_SOURCE} by it.")
    if initial := initial_digest(origin):
        hint = f" (`wgan registry reproduce {initial_version}` makes it)" if initial_version else ""
        lines.append(f"Replace {_INITIAL_CHECKPOINT} by its initial checkpoint (a step-... folder), {initial}{hint}.")
    if origin.embedding.get("custom_embedding_digest"):
        lines.append(f"Replace {_CUSTOM_EMBEDDING} by the location of the custom embedding.")
    return [f"# {plain(line)}" for line in lines]


def _other_libraries(makers: dict[str, dict[str, Any]]) -> list[str]:
    installed = lineage.library_versions()
    warnings = {
        f"WARNING: {name} was {was}, and is {installed.get(name, 'not installed')} here."
        for maker in makers.values()
        for name, was in maker.get("libraries", {}).items()
        if installed.get(name) != was
    }
    return sorted(warnings)


def _hardware(record: dict[str, Any]) -> dict[str, Any]:
    maker = record.get(digests.MADE_WITH, {})
    if maker.get("accelerator") == _SEVERAL_WORKERS:
        return {"accelerator": _SEVERAL_WORKERS}
    return {name: maker[name] for name in ("accelerator", "replicas") if name in maker}


def _threads(record: dict[str, Any]) -> str:
    """Return the assignment for the recorded number of threads per operation; empty if not recorded."""
    threads = record.get(digests.MADE_WITH, {}).get("threads")
    return f"TF_NUM_INTRAOP_THREADS={shlex.quote(str(threads))} " if threads else ""


def _command(stage: str, inputs: dict[str, Any], recorded: dict[str, Any]) -> str:
    """Return the command of a stage: the given inputs, and recorded settings that are not defaults."""
    defaults = {field.name: field.default for field in settings.fields_of(stages.config_of(stage))}
    words: list[str] = []
    for name, value in {**inputs, **recorded}.items():
        if name not in defaults or defaults[name] != value:
            # A leading dash would be taken for a flag.
            words += [f"--{name}={value}"] if str(value).startswith("-") else [f"--{name}", str(value)]
    return shlex.join(["python", "-m", f"components.{stage}", *words])
