"""Settings of the train stage."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from components.core.artifacts import checkpoint_manifest, datasets
from components.core.settings import Config, InputDigest, Setting, Unkeyed, share_problem, values_in_key
from components.core.stage.hardware import Accelerator, Replicas, Tpu, exact_problem

Conditioning = tuple[str, list[str]]  # `class`, `cluster` or `none`, and the names of the classes or clusters
Checkpoint = tuple[Path, checkpoint_manifest.Manifest] | None  # its folder; None for the start
# From so many training images on, augmentation costs more than it gains: benchmarks/judging/quality.md, "Few images".
FEW_IMAGES = 1000
# Images without labels form a cluster per so many; more clusters would make the generator copy few images.
IMAGES_PER_CLUSTER = 200
# Settings that change no weight, but which steps are kept, when means restart, and whether training continues.
ON_RECORD = ("log_every", "sample_every", "checkpoint_every", "keep_checkpoints", "when_unhealthy", "rollbacks")


class TrainConfig(Config):
    """Train a WGAN-GP on a dataset, on any number of replicas; resume an interrupted training."""

    dataset: Annotated[str, Unkeyed("Folder of the dataset.")]
    checkpoints: Annotated[
        str, Unkeyed("Folder for trainings, with samples and logs; a digest of settings, inputs and code names each.")
    ]
    dataset_digest: Annotated[str, InputDigest("Expected digest of the dataset; any when empty.")] = ""
    initial_checkpoint: Annotated[
        str,
        Unkeyed(
            "Checkpoint (a `step-...` folder) of another training whose networks a new training starts from; random "
            "weights when empty.",
            location=True,
        ),
    ] = ""
    initial_checkpoint_digest: Annotated[str, InputDigest("Digest of initial_checkpoint; computed when empty.")] = ""
    steps: Annotated[int, Setting("Number of generator updates.", at_least=1)] = 10_000
    minutes: Annotated[
        float,
        Setting(
            "Time budget in minutes instead of `steps`: the number of steps that fit is measured at the start and "
            "kept. Start-up and checkpoints are not included. 0: no budget.",
            at_least=0.0,
        ),
    ] = 0.0
    batch_size: Annotated[int, Setting("Images per critic update, over all replicas.", at_least=1)] = 64
    critic_steps: Annotated[int, Setting("Critic updates per generator update.", at_least=1, at_most=100)] = 1
    critic_learning_rate: Annotated[
        float, Setting("Adam's learning rate for the critic. Clusters train at half of it.", above=0.0, at_most=1.0)
    ] = 1.2e-3
    generator_learning_rate: Annotated[
        float, Setting("Adam's learning rate for the generator. Clusters train at half of it.", above=0.0, at_most=1.0)
    ] = 6e-4
    beta_1: Annotated[float, Setting("Adam's beta_1, the decay of the first moment.", at_least=0.0, below=1.0)] = 0.0
    beta_2: Annotated[float, Setting("Adam's beta_2, the decay of the second moment.", at_least=0.0, below=1.0)] = 0.99
    learning_rate_decay: Annotated[
        str,
        Setting(
            "`linear`: both learning rates fall to 0 at the last step. `none`: they stay constant.",
            choices=("none", "linear"),
        ),
    ] = "linear"
    constraint: Annotated[
        str, Setting("Method that keeps the critic 1-Lipschitz.", choices=("gradient_penalty", "weight_clipping"))
    ] = "gradient_penalty"
    penalty_weight: Annotated[float, Setting("Gradient penalty's weight, for pixels in [-1, 1].", at_least=0.0)] = 10.0
    clip_value: Annotated[float, Setting("Largest absolute critic weight under weight_clipping.", above=0.0)] = 0.01
    ema_decay: Annotated[
        float, Setting("Decay per step of the generator's moving average, reached by warm-up.", at_least=0.0, below=1.0)
    ] = 0.999
    latent_size: Annotated[int, Setting("Size of a latent vector.", at_least=1, at_most=4096)] = 32
    base_filters: Annotated[
        int, Setting("Filters at half the image's sides; deeper layers have twice as many.", at_least=1, at_most=1024)
    ] = 32
    generator_normalization: Annotated[
        str, Setting("Batch normalization in the generator, across all replicas.", choices=("batch", "none"))
    ] = "batch"
    conditioning: Annotated[
        str,
        Setting(
            "`class`: the generator draws a requested class and the critic scores by class (projection); every "
            "training image needs a label. `cluster`: the same with clusters of similar images in place of classes. "
            "`none`: neither. `auto`: `class` if all have labels of at least two classes, else `cluster` if there are "
            f"{2 * IMAGES_PER_CLUSTER} images.",
            choices=("auto", "class", "cluster", "none"),
        ),
    ] = "auto"
    augmentation: Annotated[
        str,
        Setting(
            "`geometric`: the critic sees half of all images shifted and half with a rectangle cut out, real and "
            f"generated alike, so that it does not memorize few images. `auto`: below {FEW_IMAGES:,} training images.",
            choices=("auto", "none", "geometric"),
        ),
    ] = "auto"
    precision: Annotated[
        str,
        Setting(
            "Number format of multiplications; `auto` uses bfloat16 on GPUs from Ampere on, and on CPUs with AMX.",
            choices=("auto", "float32", "bfloat16"),
        ),
    ] = "float32"
    reproducibility: Annotated[
        str,
        Setting(
            "`exact`: the same bits on any number of CPU replicas, threads and cores, but slower; batch "
            "normalization is per microbatch. Not on a TPU.",
            choices=("standard", "exact"),
        ),
    ] = "standard"
    virtual_shards: Annotated[int, Setting("Microbatches per batch under `exact`.", at_least=1, at_most=256)] = 8
    seed: Annotated[int, Setting("Seed of initial weights, order of images and noise.", at_least=0, below=2**31)] = 0
    accelerator: Accelerator = "auto"
    tpu: Tpu = ""
    replicas: Replicas = 0
    when_unhealthy: Annotated[
        str,
        Unkeyed(
            "Reaction to a training that will not recover: end it, or only warn.",
            choices=("stop", "warn"),
        ),
    ] = "stop"
    # Decides whether there is a result, not which.
    rollbacks: Annotated[
        int,
        Unkeyed(
            "Largest number of rollbacks after a NaN or infinity; each continues with another noise seed and image "
            "order.",
            at_least=0,
            at_most=100,
        ),
    ] = 3
    log_every: Annotated[int, Unkeyed("Steps between log lines.", at_least=1)] = 50
    sample_every: Annotated[int, Unkeyed("Steps between sample grids; 0: a twentieth of the training.", at_least=0)] = 0
    checkpoint_every: Annotated[int, Unkeyed("Steps between checkpoints.", at_least=1)] = 1000
    keep_checkpoints: Annotated[int, Unkeyed("Number of newest checkpoints to keep; 0: all.", at_least=0)] = 3

    def joint_problems(self) -> Iterator[str]:
        yield share_problem("batch_size", self.batch_size, self.replicas, self.accelerator)
        yield exact_problem(self.reproducibility, self.accelerator)
        shards = self.virtual_shards
        if self.reproducibility == "exact" and self.batch_size % shards:
            yield f"batch_size must be a multiple of virtual_shards, got {self.batch_size} for {shards}"
        elif self.reproducibility == "exact" and self.replicas and shards % self.replicas:
            yield f"virtual_shards must be a multiple of replicas, got {shards} for {self.replicas}"
        if self.initial_checkpoint_digest and not self.initial_checkpoint:
            yield f"initial_checkpoint must be given with its digest, got none for {self.initial_checkpoint_digest}"


@dataclasses.dataclass(frozen=True)
class ResolvedConfig:
    """A training with all that its settings leave to the dataset and the initial checkpoint; made by `run.resolve`."""

    config: TrainConfig  # with the digest of the initial checkpoint, and the augmentation that `auto` chooses
    manifest: datasets.Manifest
    conditioning: Conditioning
    location: str  # path or URI of checkpoints, samples and logs
    folder: Path  # of these on this machine
    initial_checkpoint: Path | None = None  # its folder on this machine

    def steps(self, checkpoint: Checkpoint) -> int:
        """Return the last step; with a time budget, that of a checkpoint if there is one, else it is not known yet."""
        return checkpoint[1].settings["steps"] if checkpoint and self.config.minutes else self.config.steps


def deciding_settings(config: TrainConfig) -> dict[str, Any]:
    """Return the settings that decide the result; for a time budget, the number of steps instead."""
    settings, digest = values_in_key(config), config.initial_checkpoint_digest
    del settings["minutes"]
    return settings | ({"initial_checkpoint_digest": digest} if digest else {})


def sample_period(config: TrainConfig) -> int:
    """Return the steps between sample grids; by default a multiple of 10, so that it cuts no block of steps."""
    return config.sample_every or 10 * -(-config.steps // 200)


def with_augmentation(config: TrainConfig, images: int) -> TrainConfig:
    """Return the settings of a training on so many images, with the augmentation that `auto` chooses."""
    chosen = "geometric" if images < FEW_IMAGES else "none"
    return dataclasses.replace(config, augmentation=chosen) if config.augmentation == "auto" else config
