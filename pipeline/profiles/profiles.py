"""Hardware profiles: the resources of each stage on a target. Ours are in profiles.yaml; a user's file adds others."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.core import settings
from components.core.errors import ConfigError
from components.train.config import TrainConfig

if TYPE_CHECKING:
    from pipeline.profiles.kubernetes_hardware import KubernetesStage
    from pipeline.profiles.vertex_hardware import VertexStage

KFP, VERTEX = "kfp", "vertex"
TARGETS = (KFP, VERTEX)
TRAIN, OTHERS = "train", "others"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Profile:
    """Hardware of every stage on one target."""

    name: str
    target: str  # kfp or vertex
    stages: "Mapping[str, KubernetesStage | VertexStage]"  # all of components.core.stages
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # defaults of the pipeline's, typed
    service_account: str = ""  # of the package's runs; empty for the target's default
    network: str = ""  # to peer Vertex jobs with; empty for none
    encryption_key: str = ""  # of Cloud KMS, for runs on Vertex; empty for Google's own
    train_image: str = "cpu"  # a key of container_images.TRAIN_IMAGES, for the hardware of train's image
    accelerator: str = TrainConfig.accelerator  # the defaults of train's settings
    replicas: int = TrainConfig.replicas

    @property
    def embeds_as_it_trains(self) -> bool:
        """Whether embed, whose image is for CPUs and which has one pod, takes the settings of train's hardware."""
        return self.accelerator == TrainConfig.accelerator


def choose(profiles: Mapping[tuple[str, str], Profile], name: str, target: str) -> Profile:
    """Return the profile of a name for a target."""
    if (name, target) in profiles:
        return profiles[name, target]
    if targets := [other_target for profile_name, other_target in profiles if profile_name == name]:
        raise ConfigError(f"profile {name} has nothing for target {target}, only for {', '.join(targets)}")
    names = dict.fromkeys(profile_name for profile_name, _ in profiles)
    raise ConfigError(f"profile {name!r} is unknown{settings.suggestion(name, names)} (--profiles FILE adds your own)")
