"""The train stage, top to bottom: dataset, folder, what is there already, then training from there."""

import contextlib
import dataclasses
import logging
from typing import Any

from components.core.artifacts import checkpoints, datasets
from components.core.distributed.cluster import Cluster, cluster_for
from components.core.errors import ConfigError
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.train import uploads, warm_start
from components.train.config import TrainConfig, deciding_settings

log = logging.getLogger(__name__)

_CLAIM = "training.json"


def run(config: TrainConfig) -> StageResult:
    """Trains up to `config.steps`, from the newest checkpoint if there is one, else from the initial one if given.

    Where several workers train together, all of them run this; the chief alone writes, and all return what it wrote.

    Returns:
        checkpoint_uri, checkpoint_digest: Of the last step.

    Raises:
        ConfigError: The folder belongs to another training, the dataset lacks the labels that conditional training
            needs, the initial checkpoint is of other networks, the hardware cannot do what was asked, or `TF_CONFIG`
            is malformed.
        DataError: The dataset, the initial checkpoint where it is needed, or every checkpoint is missing or damaged.
        TrainingDiverged: A loss or gradient is no longer finite.
        TransientError: Another worker did not come, or is gone; or what was made cannot be sent to the bucket.
        Superseded: Another process trains in the same folder of a bucket, and otherwise.
    """
    cluster = cluster_for(config.accelerator)
    manifest = datasets.Manifest.fetch(config.dataset, config.dataset_digest, whole=False)
    _require_labels(config, manifest)
    config = dataclasses.replace(config, initial_checkpoint_digest=warm_start.digest(config))
    place = place_of(config, manifest.digest)
    uploads.fetch(place)
    if config.initial_checkpoint and not checkpoints.steps(place):
        warm_start.require_fitting(config, manifest)
    identity = {**deciding_settings(config), "dataset_digest": manifest.digest}
    if config.learning_rate_decay == "none":
        del identity["steps"]  # such a training may be lengthened
    _claim(place, identity, cluster)
    with atomic_files.only_one(place.path) if _writes(cluster) else contextlib.nullcontext():
        found = checkpoints.newest(place)
        if found is not None:
            _require_own(*found, identity)
        if found is not None and found[1].step > config.steps:
            raise ConfigError(
                f"steps must be at least {found[1].step}, what {place} has been trained for, got {config.steps}; "
                "give another folder for a shorter training"
            )
        complete = found is not None and found[1].step == config.steps
        if complete:
            log.info("train: already complete at %s", place)
            if _writes(cluster):
                uploads.send_all(place, config.keep_checkpoints)
        else:
            if _writes(cluster):
                place.require_writable()
            # Only here, so that a training that is complete says so at once, without TensorFlow.
            from components.train.loop import train

            Location.of(config.dataset).require(datasets.MANIFEST, "dataset")
            train(config, manifest, place, found, cluster)
    folder = checkpoints.step_folder(place, config.steps)
    if not _writes(cluster):
        folder.require(checkpoints.MANIFEST, "checkpoint")
    description = checkpoints.Description.of(folder)
    summary = f"{config.steps:,} steps of {config.critic_steps} x {config.batch_size} images"
    return StageResult(
        parameters={
            "checkpoint_uri": folder.uri,
            "checkpoint_digest": description.digest,
            "summary": summary,
        },
        kept=complete,
    )


def place_of(config: TrainConfig, dataset_digest: str) -> Location:
    """The training's folder; a `{key}` in it is of the content of dataset and initial checkpoint, not of their places.

    Args:
        config: With the digest of the initial checkpoint, if there is one.
        dataset_digest: Digest of the dataset.
    """
    parts = cache_key.key_parts("train", config, dataset_digest=dataset_digest)
    return Location.of(cache_key.fill_key(config.checkpoints, parts))


def _require_labels(config: TrainConfig, manifest: datasets.Manifest) -> None:
    """Refuses conditional training on images without labels."""
    split = manifest.splits["train"]
    unlabelled = split.records - sum(split.class_counts)
    if config.conditioning == "class" and unlabelled:
        raise ConfigError(
            f"conditioning is class, but {unlabelled:,} of the {split.records:,} training images of {config.dataset} "
            "have no label; set conditioning to none, or make the dataset of images with labels (a sub-folder per "
            "class, or IDX files of labels beside those of images)"
        )


def _require_own(folder: Location, description: checkpoints.Description, identity: dict[str, Any]) -> None:
    """Refuses a checkpoint of another training, which somebody copied here, or of another step than its name says."""
    former = {**description.settings, "dataset_digest": description.dataset_digest}
    if "steps" not in identity:
        former.pop("steps", None)
    atomic_files.require_own_place(folder, "training", former, identity)
    if folder != checkpoints.step_folder(folder.parent, description.step):
        raise ConfigError(
            f"{folder} holds the checkpoint of step {description.step}; rename it to "
            f"{checkpoints.step_folder(folder.parent, description.step).name}, or remove it"
        )


def _writes(cluster: Cluster | None) -> bool:
    return cluster is None or cluster.is_chief


def _claim(place: Location, identity: dict[str, Any], cluster: Cluster | None) -> None:
    """Makes the folder this training's own, or refuses one that is another's."""
    claim = place / _CLAIM
    former = atomic_files.read_json(claim, "training") if claim.fetch_file() else None
    if former is not None or _writes(cluster):  # else the chief may be making it right now
        atomic_files.require_own_place(place, "training", former, identity)
    if former is None and _writes(cluster):
        atomic_files.write_json(claim.path, identity)
        claim.put_file()
