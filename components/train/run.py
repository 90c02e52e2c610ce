"""The train stage: read the dataset, find the newest checkpoint, and train from there."""

import contextlib
import dataclasses
import logging

from components.core.artifacts import checkpoints, datasets
from components.core.distributed.cluster import cluster_for
from components.core.errors import ConfigError, DataError
from components.core.stage import cache_key
from components.core.stage.executor import StageResult
from components.core.storage import atomic_files
from components.core.storage.location import Location
from components.train import tf_job, uploads
from components.train.config import ResolvedConfig, TrainConfig, with_augmentation
from components.train.labels import conditioning_of, label_features

log = logging.getLogger(__name__)


def run(config: TrainConfig) -> StageResult:
    """Train up to `config.steps`, from the newest checkpoint if there is one, else from the initial one if given.

    Of several workers all run this, and all return what the chief wrote. If the package asks for workers in pods of
    their own, this process starts them and waits.

    Raises:
        ConfigError: Labels are missing, the initial checkpoint is of other networks, the hardware is missing, or
            `TF_CONFIG` is malformed.
        DataError: The dataset, or the initial checkpoint where it is needed, is missing or damaged.
        TrainingDiverged: A loss or gradient is no longer finite.
        TransientError: Another worker did not come, or is gone; or the bucket or the cluster cannot be reached.
        Superseded: Another process trains in the same folder of a bucket, with other bits.
    """
    job = tf_job.requested()
    cluster = None if job else cluster_for(config.accelerator)
    writes = not job and (cluster is None or cluster.is_chief)
    resolved = resolve(config)
    location = Location.of(resolved.location)
    uploads.fetch(location)
    if config.initial_checkpoint and not checkpoints.steps(resolved.folder):
        require_fitting(resolved)
    with atomic_files.only_one(resolved.folder) if writes else contextlib.nullcontext():
        checkpoint = checkpoints.newest(resolved.folder)
        step, steps = -1 if checkpoint is None else checkpoint[1].step, resolved.steps(checkpoint)
        if writes:
            checkpoints.remove_after(resolved.folder, step)  # they are damaged
        if step == steps:
            log.info("train: already complete at %s", location)
            if writes:  # what an interrupted process left on this machine
                uploads.send_all(location, config.keep_checkpoints)
        elif job:
            # Its workers resolve the settings themselves, as they were given.
            tf_job.train(job, config, resolved.location)
            uploads.fetch(location)
            steps = resolved.steps(checkpoints.newest(resolved.folder))
        else:
            if writes:
                location.require_writable()
            dataset = datasets.fetch(config.dataset, resolved.manifest.shards("train", "validation"))
            log.info("train: loading TensorFlow")
            from components.train.loop import train  # here, so that a complete training needs no TensorFlow

            steps = train(resolved, dataset, checkpoint, cluster)
    folder = checkpoints.step_folder(location, steps)
    if not writes:
        folder.require(checkpoints.MANIFEST, "checkpoint")
    outputs = {"checkpoint_uri": folder.uri, "checkpoint_digest": checkpoints.Manifest.of(folder).digest}
    summary = f"{steps:,} steps of {config.critic_steps} x {config.batch_size} images"
    return StageResult(parameters={**outputs, "summary": summary}, reused=step == steps)


def resolve(config: TrainConfig) -> ResolvedConfig:
    """Find all that the settings leave to the dataset and the initial checkpoint, and log it; raise as `run` does."""
    manifest = datasets.Manifest.fetch(config.dataset, config.dataset_digest, whole=False)
    split = manifest.splits["train"]
    images, unlabeled = split.records, split.unlabeled
    kind, names = conditioning_of(config, manifest)
    chosen = {
        "class": f"the generator draws each of {len(names)} classes",
        "cluster": "the generator draws clusters of similar images, at half of both learning rates",
        "none": "the generator takes no class",
    }[kind]
    few = f"{unlabeled:,} of {images:,} training images have no label" if unlabeled else "there is only one"
    log.info("train: %s%s", chosen, f", as {few}" if config.conditioning == "auto" and kind != "class" else "")
    if config.initial_checkpoint and not config.initial_checkpoint_digest:
        # In the settings, so that a training with its own checkpoints resumes when the initial one is gone.
        remedy = "; if it is gone, a training that it started resumes with initial_checkpoint_digest"
        config = dataclasses.replace(config, initial_checkpoint_digest=_describe_initial(config, remedy).digest)
    parts = cache_key.key_parts("train", config, dataset_digest=manifest.digest)
    location = Location.of(config.checkpoints) / cache_key.key_of(parts)
    initial = Location.of(config.initial_checkpoint).path if config.initial_checkpoint else None
    why = f", as there are {images:,}" if config.augmentation == "auto" else ""
    config = with_augmentation(config, images)
    if config.augmentation != "none":
        log.info("train: the critic sees shifted and cut images (augmentation geometric)%s", why)
    return ResolvedConfig(config, manifest, (kind, names), location.uri, location.path, initial)


def require_fitting(resolved: ResolvedConfig) -> None:
    """Raise a `ConfigError` that names every difference if the initial checkpoint is of other networks or classes."""
    from components.core.networks.gan import NetworkConfig
    from components.train.step import network_of  # here, so that other errors are reported without TensorFlow

    config, image, (kind, names) = resolved.config, resolved.manifest.image, resolved.conditioning
    checkpoint = _describe_initial(config)
    initial = {**vars(NetworkConfig.from_json(checkpoint.network)), "conditioning": checkpoint.conditioning}
    new = {**vars(network_of(config, image, len(names), label_features(kind))), "conditioning": kind}
    # Without labels any classes will do; clusters are those of the initial checkpoint.
    is_by_class = checkpoint.conditioning == kind == "class"
    initial["classes"], new["classes"] = (checkpoint.classes, names) if is_by_class else ([], [])
    differing = [f"{name} is {initial[name]} there and {new[name]} here" for name in new if new[name] != initial[name]]
    if differing:
        raise ConfigError(
            f"initial_checkpoint {config.initial_checkpoint} cannot begin this training: {'; '.join(differing)}; give "
            "the settings and the kind of images that it was trained with, or no initial_checkpoint"
        )


def _describe_initial(config: TrainConfig, remedy: str = "") -> checkpoints.Manifest:
    try:
        return checkpoints.Manifest.fetch(config.initial_checkpoint, config.initial_checkpoint_digest)
    except DataError as error:
        raise DataError(f"initial_checkpoint must be a whole step-NNNNNNNNNN folder: {error}{remedy}") from None
