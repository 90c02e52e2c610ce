"""Estimates of how long stages take: as long as last time under a root, and training by its settings and machine."""

import contextlib
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core.artifacts import training_log
from components.core.artifacts.datasets import ImageShape, Manifest
from components.core.errors import DataError, StageError
from components.core.networks import cost
from components.core.reporting.text import duration
from components.core.storage import atomic_files, location
from components.core.storage.json_values import typed
from pipeline.local import history, processes
from pipeline.local.history import DONE, PastRun
from pipeline.local.values import Unknown

# Of two cores with AVX-512, TensorFlow 2.21, float32: multiplications a second, and seconds of an update beside them.
# An update of the default's networks takes 46 ms there, and one of twice the batch 86 ms.
_RATE, _UPDATE_SECONDS = 1.06e11, 0.0027
# The share of a CPU's rate of products in float32 that a step reaches: 59% on one kind of CPU, 81% on another.
_SHARE_OF_PRODUCTS = 0.7
_START_SECONDS = 15.0  # until the first step
_LONG_SECONDS = 3600.0  # a training that takes longer gets advice
# From components/core/sources and components/preprocess, whose import would make the plan slow.
_SHAPES = {"digits": ImageShape(8, 8, 1), "fashion-mnist": ImageShape(28, 28, 1)}


def of(
    stage: str, inputs: dict[str, Any], runs: Sequence[PastRun], parameters: dict[str, Any]
) -> tuple[float | None, str]:
    """Return the seconds of a stage with these inputs, some of which may be unknown; None if unknown.

    The text says how long a training will take, and how to shorten a long one; it is empty if that is unknown.
    The seconds of a training follow from the newest one on this machine, else from the newest under the root, else
    from how fast this machine multiplies matrices, else from the speed of the machine above.
    """
    if stage != "train":
        tasks = [run.tasks[stage] for run in runs if stage in run.tasks]
        took = [task.seconds for task in tasks if task.state == DONE and task.attempts == 1]
        return (took[-1] if took else None), ""
    if inputs.get("minutes"):
        return _START_SECONDS + 60.0 * float(inputs["minutes"]), ""
    if (image := _image(inputs["dataset"], parameters)) is None:
        return None, ""
    trainings, steps = history.results(runs, "train"), int(inputs["steps"])
    learned = _read_number(_speeds(inputs["accelerator"]), "slowness")
    learned = learned or (_measured(trainings[-1].outputs or {}) if trainings else None)
    # How many times as long as on the machine above a step takes here.
    slowness = learned or _RATE / (_SHARE_OF_PRODUCTS * _product_rate())
    steps_take = steps * _step_seconds(image, inputs) * slowness
    seconds = _START_SECONDS + steps_take
    rate = int(inputs["critic_steps"]) * int(inputs["batch_size"]) * steps / steps_take
    guess = "" if learned else " (a guess until the first training on this machine has ended)"
    shorter = max(1, steps // 10)
    tip = f"; --steps {shorter} takes {duration(seconds * shorter / steps)}" if seconds > _LONG_SECONDS else ""
    return seconds, f"{image.height}x{image.width} at {rate:,.0f} images/s: about {duration(seconds)}{guess}{tip}"


def learn(inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Keep the speed of a training on this machine for later estimates."""
    if slowness := _measured(outputs):
        with contextlib.suppress(OSError):  # it only estimates
            atomic_files.write_json(_speeds(inputs["accelerator"]), {"slowness": slowness})


def total(seconds: Mapping[str, float | None]) -> str:
    """Return the time of several stages in words; empty if that of none is known."""
    unknown = [name for name, value in seconds.items() if value is None]
    known_seconds = [value for value in seconds.values() if value is not None]
    more = f", plus the unknown time of {', '.join(unknown)}" if unknown else ""
    return f"in all about {duration(sum(known_seconds))}{more}" if known_seconds else ""


def _image(dataset: Any, parameters: dict[str, Any]) -> ImageShape | None:
    if not isinstance(dataset, Unknown):
        with contextlib.suppress(DataError, OSError):
            return Manifest.read(dataset).image  # hashes no shard
    default_shape = _SHAPES.get(parameters["source"])
    if not parameters.get("height"):
        return default_shape
    channels = {"gray": 1, "rgb": 3, "rgba": 4}.get(parameters["color"], default_shape.channels if default_shape else 3)
    return ImageShape(parameters["height"], parameters["width"], channels)


def _product_rate() -> float:
    """Return the multiplications a second of products in float32 on all cores, measured once a machine."""
    file = _speeds("products")
    if rate := _read_number(file, "rate"):
        return rate
    program = processes.process_command(["python", "-m", "components.core.networks.products"])
    alone = processes.process_environment({"OPENBLAS_NUM_THREADS": "1"})
    process = subprocess.run(program, env=alone, capture_output=True, text=True)
    if process.returncode:  # no NumPy: this desk submits, and trains nothing itself
        return _RATE / _SHARE_OF_PRODUCTS
    with contextlib.suppress(OSError):
        atomic_files.write_json(file, {"rate": float(process.stdout)})
    return float(process.stdout)


def _speeds(name: str) -> Path:
    """Return this machine's file of speeds, with an accelerator or of products."""
    return location.private("speed") / f"{name}.json"


def _read_number(file: Path, name: str) -> float | None:
    """Return a positive number that was measured before; None if it is absent or damaged."""
    with contextlib.suppress(StageError, OSError, KeyError, TypeError, ValueError):
        return float(typed(float, atomic_files.read_json(file, "speed")[name], name)) or None
    return None


def _measured(outputs: dict[str, Any]) -> float | None:
    """Return by how much a training's steps took longer than estimated; None if its files are lost or damaged."""
    with contextlib.suppress(StageError, OSError, KeyError, ValueError, TypeError, ArithmeticError):
        checkpoint = location.Location.of(outputs["checkpoint_uri"]).path
        description = atomic_files.read_json(checkpoint / "checkpoint.json", "checkpoint")
        rows = training_log.read(checkpoint / training_log.METRICS)
        rate = statistics.median(row["images_per_second"] for row in rows if row["images_per_second"])
        settings = description["settings"]
        images = int(settings["batch_size"]) * int(settings["critic_steps"])
        return images / float(rate) / _step_seconds(ImageShape(**description["network"]["image"]), settings)
    return None


def _step_seconds(image: ImageShape, settings: dict[str, Any]) -> float:
    """Return the seconds of one step on the machine above."""
    names = ("base_filters", "latent_size", "batch_size", "critic_steps")
    filters, latents, batch, critic_steps = (int(settings[name]) for name in names)
    return cost.step(image, filters, latents, batch, critic_steps) / _RATE + (critic_steps + 1) * _UPDATE_SECONDS
