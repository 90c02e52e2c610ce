"""Settings of the selfcheck command: those of a training that decide its step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, get_origin, get_type_hints

from components.core.settings import Config, Setting, share_problem
from components.core.stage.hardware import exact_problem
from components.train.config import TrainConfig


def _as_in_training(config: type) -> type:
    """Give each field without a `Setting` that of the training's field of the same name."""
    hints = get_type_hints(TrainConfig, include_extras=True)
    config.__annotations__ = {
        name: kind if get_origin(kind) is Annotated else hints[name] for name, kind in config.__annotations__.items()
    }
    return config


@dataclass(frozen=True, kw_only=True)
@_as_in_training
class SelfcheckConfig(Config):
    """Prove on this machine that training with these settings is exact; under 90 seconds with the defaults."""

    height: Annotated[int, Setting("Image height in pixels.", at_least=1, at_most=1024)] = 28
    width: Annotated[int, Setting("Image width in pixels.", at_least=1, at_most=1024)] = 28
    channels: Annotated[int, Setting("Channels of an image: 1 gray, 3 RGB.", at_least=1, at_most=4)] = 1
    batch_size: Annotated[int, Setting("Images per critic update, over all replicas.", at_least=2)] = 16
    critic_steps: int = TrainConfig.critic_steps
    constraint: str = TrainConfig.constraint
    penalty_weight: float = TrainConfig.penalty_weight
    latent_size: int = TrainConfig.latent_size
    base_filters: int = TrainConfig.base_filters
    generator_normalization: str = TrainConfig.generator_normalization
    conditioning: str = TrainConfig.conditioning
    classes: Annotated[int, Setting("Number of classes under conditioning `class`.", at_least=1)] = 10
    augmentation: str = TrainConfig.augmentation
    reproducibility: str = TrainConfig.reproducibility
    virtual_shards: int = TrainConfig.virtual_shards
    seed: int = TrainConfig.seed
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
