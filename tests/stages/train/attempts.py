"""Attempts at trainings, each in a fork of `tests.programs`, with faults at the n-th call of a function."""

import hashlib
import io
import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util.tensor_util import make_ndarray

from components.core.artifacts import checkpoints, training_log
from components.core.storage import digests
from tests import programs

# Where a fault can be planted: module, class (or none), function.
PHASES = {
    "load": ("components.core.data.dataset_reader", "", "open_split"),
    "compile": ("components.train.step", "WganStep", "_one_step"),
    "block": ("components.train.batches", "ReadAhead", "block"),
    "window": ("components.train.monitoring.monitor", "Monitor", "end_window"),
    "row": ("components.train.monitoring.metrics_writer", "MetricsWriter", "write_row"),
    "samples": ("components.train.monitoring.metrics_writer", "MetricsWriter", "write_samples"),
    "save": ("components.core.storage.array_files", "", "write_arrays"),
    "saved": ("components.core.artifacts.checkpoints", "", "keep"),
    "going back": ("components.core.artifacts.checkpoints", "", "remove_after"),
}


# Settings of a training without a penalty whose critic does not recover after step 600.
SICK: dict[str, Any] = {"penalty_weight": 0, "critic_learning_rate": 0.05, "generator_learning_rate": 1.2e-3}
SICK |= {"steps": 5000, "batch_size": 4, "critic_steps": 1}
SICK |= {"log_every": 1000, "sample_every": 5000, "checkpoint_every": 100}


def run_all(attempts: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Make attempts one after another; return the exit code of each, below 0 for a signal, and its output.

    Each has the `flags` of the train stage; maybe a `plan`, a list of [phase, call, signals...], and `poison`, a list
    of [variable that becomes infinite, before which step, up to how many rollbacks].
    """
    done = []
    for options in attempts:
        arguments = options["flags"], options.get("plan", []), options.get("poison", [])
        with programs.Program(attempt, *arguments) as program:
            _, log = program.communicate()
        assert program.returncode is not None
        done.append((program.returncode, log))
    return done


def flags(dataset: Path | str, folder: Path | str, **settings: object) -> list[str]:
    return [f"--{name}={value}" for name, value in {"dataset": dataset, "checkpoints": folder, **settings}.items()]


def training_in(folder: Path) -> Path:
    """Return the folder of the only training in a folder of trainings."""
    (training,) = folder.iterdir()
    return training


def left_by(folder: Path) -> dict[str, Any]:
    """Return everything that a training leaves but its speed, which varies; digests of arrays and files."""
    newest = checkpoints.newest(folder)
    assert newest is not None
    metrics = training_log.read(folder / training_log.METRICS)
    return {
        "step": newest[1].step,
        "state": {
            name: hashlib.sha256(array.tobytes()).hexdigest()
            for name, array in checkpoints.load_state(newest[0]).items()
        },
        "metrics": [{name: value for name, value in row.items() if name != "images_per_second"} for row in metrics],
        "health": training_log.read(folder / training_log.HEALTH),
        "samples": {path.name: digests.sha256_of_file(path) for path in (folder / "samples").iterdir()},
        "curves": curves_of(folder),
    }


def curves_of(folder: Path) -> dict[str, list[tuple[int, Any]]]:
    """Return what TensorBoard reads of a training but its speed: (step, value) by tag; digests of images."""
    events = event_accumulator.EventAccumulator(str(folder / "tensorboard"), {event_accumulator.TENSORS: 0})
    events.Reload()
    tags = [tag for tag in events.Tags()["tensors"] if tag != "images_per_second"]
    return {tag: [(event.step, _value(event.tensor_proto)) for event in events.Tensors(tag)] for tag in tags}


def _value(tensor: Any) -> Any:
    """Return a number, or the digest of an image's pixels, which stand behind width and height."""
    if not tensor.string_val:
        return make_ndarray(tensor).item()
    with Image.open(io.BytesIO(tensor.string_val[2])) as image:
        return hashlib.sha256(image.convert("RGB").tobytes()).hexdigest()


def attempt(flags: list[str], plan: list[list[Any]], poison: list[list[Any]]) -> None:
    from components.core.stage import cli
    from components.train import batches, loop

    for phase, call, *signals in plan:
        _plant(phase, call, signals)
    if poison:
        build, block = loop.WganStep, batches.ReadAhead.block
        built: list[Any] = []

        def remembered(*arguments: Any) -> Any:
            built.append(build(*arguments))
            return built[-1]

        def poisoned(self: Any, place: batches.Place, following: batches.Place) -> Any:
            for name, step, most in poison:
                if place.first_step <= step < place.first_step + place.steps and place.rollbacks <= most:
                    variable = built[0].state()[name]
                    variable.assign(variable * float("inf"))
                    _say(f"poisoned: {name} before step {place.first_step + 1}, {place.rollbacks} rollbacks")
            return block(self, place, following)

        loop.WganStep = remembered  # type: ignore[misc, assignment]
        batches.ReadAhead.block = poisoned  # type: ignore[method-assign]
    sys.exit(cli.main("train", flags))


def _plant(phase: str, call: int, signals: list[int]) -> None:
    module, owner, name = PHASES[phase]
    holder: Any = getattr(sys.modules[module], owner) if owner else sys.modules[module]
    original, calls = getattr(holder, name), 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            for number in signals:
                _say(f"signal {number} at {phase} {call}")
                os.kill(os.getpid(), number)
        return original(*arguments, **options)

    setattr(holder, name, counted)


def _say(fault: str) -> None:
    os.write(2, f"planted: {fault}\n".encode())
