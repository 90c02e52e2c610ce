"""Settings of the selfcheck command: those of a training that decide its step."""

from collections.abc import Iterator
from typing import Annotated

from components.core.settings import Config, Setting, fields_of, share_problem
from components.core.stage.hardware import exact_problem
from components.train.config import TrainConfig

_TRAINING = {field.name: field.setting for field in fields_of(TrainConfig)}


class SelfcheckConfig(Config):
    """Prove on this machine that training with these settings is exact; under 90 seconds with the defaults."""

    height: Annotated[int, Setting("Image height in pixels.", at_least=1, at_most=1024)] = 28
    width: Annotated[int, Setting("Image width in pixels.", at_least=1, at_most=1024)] = 28
    channels: Annotated[int, Setting("Channels of an image: 1 gray, 3 RGB.", at_least=1, at_most=4)] = 1
    batch_size: Annotated[int, Setting("Images per critic update, over all replicas.", at_least=2)] = 16
    critic_steps: Annotated[int, _TRAINING["critic_steps"]] = TrainConfig.critic_steps
    constraint: Annotated[str, _TRAINING["constraint"]] = TrainConfig.constraint
    penalty_weight: Annotated[float, _TRAINING["penalty_weight"]] = TrainConfig.penalty_weight
    latent_size: Annotated[int, _TRAINING["latent_size"]] = TrainConfig.latent_size
    base_filters: Annotated[int, _TRAINING["base_filters"]] = TrainConfig.base_filters
    generator_normalization: Annotated[str, _TRAINING["generator_normalization"]] = TrainConfig.generator_normalization
    conditioning: Annotated[str, _TRAINING["conditioning"]] = TrainConfig.conditioning
    classes: Annotated[int, Setting("Number of classes under conditioning `class`.", at_least=1)] = 10
    augmentation: Annotated[str, _TRAINING["augmentation"]] = TrainConfig.augmentation
    reproducibility: Annotated[str, _TRAINING["reproducibility"]] = TrainConfig.reproducibility
    virtual_shards: Annotated[int, _TRAINING["virtual_shards"]] = TrainConfig.virtual_shards
    seed: Annotated[int, _TRAINING["seed"]] = TrainConfig.seed
    accelerator: Annotated[str, Setting("Hardware to check.", choices=("auto", "tpu", "gpu", "cpu"))] = "auto"
    replicas: Annotated[
        int,
        Setting(
            "Number of replicas to compare with one; 0: all devices, or two virtual ones on a CPU.",
            at_least=0,
            at_most=64,
        ),
    ] = 0

    def joint_problems(self) -> Iterator[str]:
        yield share_problem("batch_size", self.batch_size, self.replicas, self.accelerator)
        yield exact_problem(self.reproducibility, self.accelerator)
