"""Estimates of how long stages take: as long as last time under a root, and training by its settings."""

import contextlib
import statistics
from pathlib import Path
from typing import Any

from components.core.artifacts import training_log
from components.core.artifacts.datasets import ImageShape, Manifest
from components.core.errors import DataError
from components.core.networks import cost
from components.core.storage import atomic_files
from pipeline.local import past_runs
from pipeline.local.cache import Cache
from pipeline.package.values import Unknown

# Of two cores with AVX-512, TensorFlow 2.21, float32: multiplications a second, and seconds of an update beside them.
# An update of the default's networks takes 46 ms there, and one of twice the batch 86 ms.
_RATE, _UPDATE_SECONDS = 1.06e11, 0.0027
_START_SECONDS = 15.0  # until the first step
# From components/core/sources and components/preprocess, whose import would make the plan slow.
_SHAPES = {"digits": ImageShape(8, 8, 1), "fashion-mnist": ImageShape(28, 28, 1)}


class Estimates:
    """Estimates for one plan."""

    def __init__(self, root: Path, parameters: dict[str, Any]) -> None:
        self._seconds, self._cache, self._parameters = past_runs.seconds_of_stages(root), Cache(root), parameters

    def of(self, stage: str, inputs: dict[str, Any]) -> float | None:
        """Return the seconds of a stage with these inputs, some of which may be unknown; None if unknown.

        Those of a training follow from the speed of the newest one under the root, else from that of the machine above.
        """
        return self._of_training(inputs) if stage == "train" else self._seconds.get(stage)

    def _of_training(self, inputs: dict[str, Any]) -> float | None:
        if inputs.get("minutes"):
            return _START_SECONDS + 60.0 * float(inputs["minutes"])
        image = self._image(inputs["dataset"])
        if image is None:
            return None
        step = _step_seconds(image, inputs)
        with contextlib.suppress(DataError, OSError, KeyError, TypeError):  # there is no training, or it is damaged
            step *= self._slowness()
        return _START_SECONDS + int(inputs["steps"]) * step

    def _slowness(self) -> float:
        """Return by how much the newest training's steps took longer than estimated."""
        newest = self._cache.newest("train")
        if newest is None:
            return 1.0
        checkpoint = Path(newest.outputs["checkpoint_uri"])
        made = atomic_files.read_json(checkpoint / "checkpoint.json", "checkpoint")
        rows = training_log.read(checkpoint / training_log.METRICS)
        rate = statistics.median(row["images_per_second"] for row in rows if row["images_per_second"])
        images = int(made["settings"]["batch_size"]) * int(made["settings"]["critic_steps"])
        return images / float(rate) / _step_seconds(ImageShape(**made["network"]["image"]), made["settings"])

    def _image(self, dataset: Any) -> ImageShape | None:
        """Return the shape of the training images."""
        if not isinstance(dataset, Unknown):
            with contextlib.suppress(DataError, OSError):
                return Manifest.of(dataset).image
        given = self._parameters
        known = _SHAPES.get(given["source"])
        if not given.get("height"):
            return known
        channels = {"gray": 1, "rgb": 3}.get(given["color"], known.channels if known else 3)
        return ImageShape(given["height"], given["width"], channels)


def _step_seconds(image: ImageShape, settings: dict[str, Any]) -> float:
    """Return the seconds of one step on the machine above."""
    filters, latents, batch, critic_steps = (
        int(settings[name]) for name in ("base_filters", "latent_size", "batch_size", "critic_steps")
    )
    return cost.of_step(image, filters, latents, batch, critic_steps) / _RATE + (critic_steps + 1) * _UPDATE_SECONDS


def as_duration(seconds: float) -> str:
    """Return a duration as a plan shows it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
