"""What the selfcheck command can be told: the settings of a training that decide its step."""

from dataclasses import dataclass
from typing import Annotated

from components.hardware import exact_problem
from components.settings import Setting, require_valid, share_problem
from components.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class SelfcheckConfig:
    """Proves on this machine that training with these settings is exact, in under 90 seconds with the defaults."""

    height: Annotated[int, Setting("Image height in pixels.", at_least=1, at_most=1024)] = 28
    width: Annotated[int, Setting("Image width in pixels.", at_least=1, at_most=1024)] = 28
    channels: Annotated[int, Setting("Channels of an image: 1 grey, 3 RGB.", at_least=1, at_most=4)] = 1
    batch_size: Annotated[int, Setting("Images per critic update, over all replicas.", at_least=2)] = 16
    critic_steps: Annotated[int, Setting("Critic updates per generator update.", at_least=1, at_most=100)] = (
        TrainConfig.critic_steps
    )
    constraint: Annotated[
        str, Setting("How the critic is kept 1-Lipschitz.", choices=("gradient_penalty", "weight_clipping"))
    ] = TrainConfig.constraint
    penalty_weight: Annotated[float, Setting("Weight of the gradient penalty.", at_least=0.0)] = (
        TrainConfig.penalty_weight
    )
    latent_size: Annotated[int, Setting("Numbers in a latent vector.", at_least=1, at_most=4096)] = (
        TrainConfig.latent_size
    )
    base_filters: Annotated[int, Setting("Filters of the layers nearest to the image.", at_least=1, at_most=1024)] = (
        TrainConfig.base_filters
    )
    critic_normalization: Annotated[str, Setting("Layer normalisation in the critic.", choices=("none", "layer"))] = (
        TrainConfig.critic_normalization
    )
    generator_normalization: Annotated[
        str, Setting("Batch normalisation in the generator.", choices=("batch", "none"))
    ] = TrainConfig.generator_normalization
    conditioning: Annotated[
        str, Setting("`class`: networks that take labels, drawn at random.", choices=("none", "class"))
    ] = TrainConfig.conditioning
    classes: Annotated[int, Setting("Classes under conditioning `class`.", at_least=1)] = 10
    reproducibility: Annotated[
        str, Setting("`exact`: replica counts must agree bit for bit.", choices=("standard", "exact"))
    ] = TrainConfig.reproducibility
    virtual_shards: Annotated[
        int, Setting("Equal parts of a batch that are computed apart under `exact`.", at_least=1, at_most=256)
    ] = TrainConfig.virtual_shards
    seed: Annotated[int, Setting("Decides weights, images and noise.", at_least=0, below=2**31)] = TrainConfig.seed
    accelerator: Annotated[str, Setting("Hardware to check.", choices=("auto", "tpu", "gpu", "cpu"))] = (
        TrainConfig.accelerator
    )
    replicas: Annotated[
        int,
        Setting(
            "Replicas to compare with one; 0 takes all there are, on a CPU two virtual ones.", at_least=0, at_most=64
        ),
    ] = 0

    def __post_init__(self) -> None:
        require_valid(
            self,
            share_problem("batch_size", self.batch_size, self.replicas, self.accelerator),
            exact_problem(self.reproducibility, self.accelerator),
        )
