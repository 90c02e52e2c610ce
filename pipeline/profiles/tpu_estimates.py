"""What the TPU compiler says of a training on the chips of a profile: a table that `make prove-tpu` writes.

The table is of the default networks on v5e chips, by batch size and image shape. Nothing of it was executed.
"""

import importlib.resources
import logging
from collections.abc import Mapping
from typing import Any

import yaml

from components.core.errors import ConfigError
from components.train.config import TrainConfig
from pipeline.profiles.kubernetes_hardware import TPU_ACCELERATOR, V5E
from pipeline.profiles.profiles import TRAIN, Profile

log = logging.getLogger("pipeline")

_TABLE = "tpu_estimates.yaml"
_CHANNELS = {"gray": 1, "rgb": 3}
_SIZES = ("batch_size", "height", "width", "channels")
# What decides networks and updates beside these, the precision and the number of critic updates.
_NETWORKS = (
    *("base_filters", "latent_size", "constraint", "generator_normalization"),
    *("augmentation", "reproducibility"),
)


def report(profile: Profile, parameters: Mapping[str, Any]) -> None:
    """Log what a training with these parameters of the pipeline needs on each chip of a profile, if it has v5e chips.

    Raises:
        ConfigError: The compiler refused as many images on a chip, for want of memory.
    """
    if not _has_v5e(profile):
        return
    asked = {**parameters, "channels": _CHANNELS.get(parameters["color"], 0)}
    rows = [row for row in _rows() if row["precision"] == asked["precision"]]
    per_chip = {**asked, "batch_size": asked["batch_size"] / profile.replicas}
    for row in rows:
        if "refused" in row and all(row[name] <= per_chip[name] for name in _SIZES):
            raise ConfigError(
                f"batch_size {asked['batch_size']} is too large for {profile.replicas} chips of profile "
                f"{profile.name}: the TPU compiler refused {_shape(row)} on one; set a smaller batch_size, or images"
            )
    if any(asked[name] != getattr(TrainConfig, name) for name in _NETWORKS):
        return
    # Without a size, what the source has is unknown: the first row is of Fashion-MNIST.
    enough = [
        row
        for row in rows
        if "updates" in row and row["replicas"] == profile.replicas and all(row[name] >= asked[name] for name in _SIZES)
    ]
    if enough:
        log.info("%s; compiled by the TPU compiler, never executed", _needs(enough[0], asked["critic_steps"]))


def comments() -> str:
    """Return the table's lines of both profiles' chips for `wgan profiles`, as comments of YAML."""
    found = [_needs(row, TrainConfig.critic_steps) for row in _rows() if "updates" in row and row["replicas"] > 1]
    title = "What v5e chips need for the default networks, compiled by the TPU compiler, never executed:"
    return "".join(f"# {line}\n" for line in (title, *found))


def _needs(row: Mapping[str, Any], critic_steps: int) -> str:
    """Return what a row says of a step: so many critic updates and a generator update."""
    critic, generator = row["updates"]["critic"], row["updates"]["generator"]
    step = {name: critic_steps * critic[name] + generator[name] for name in critic}
    return (
        f"{_shape(row)} on {row['replicas']} chips: {max(critic['memory'], generator['memory']) / 1e6:,.0f} MB of "
        f"15.75 GB a chip; a step has {step['gflop']:.1f} GFLOP, {step['all_reduces']} all-reduces of "
        f"{step['all_reduce_bytes'] / 1e6:.1f} MB, {step['kilocycles']:,} thousand cycles"
    )


def _shape(row: Mapping[str, Any]) -> str:
    return f"batch_size {row['batch_size']} of {row['height']}x{row['width']}x{row['channels']}"


def _has_v5e(profile: Profile) -> bool:
    on_kubernetes = getattr(profile.stages[TRAIN], "node_selectors", {})  # Vertex has no other chips
    return profile.train_image == "tpu" and on_kubernetes.get(TPU_ACCELERATOR, V5E) == V5E


def _rows() -> list[dict[str, Any]]:
    """Return the rows of the default networks, the smallest first."""
    text = importlib.resources.files("pipeline.profiles").joinpath(_TABLE).read_bytes()
    rows = [row for row in yaml.safe_load(text) if not row["variant"]]
    return sorted(rows, key=lambda row: [row[name] for name in ("height", "channels", "batch_size")])
