"""Whole stages hit by a fault at seeded instants, and run until done; in the end every byte is as without a fault.

TensorFlow is imported once and never used here: each attempt is a fork of this process, which starts in milliseconds.
`python -m tests.faults` is such a process.
"""

import dataclasses
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.artifacts import checkpoints
from components.core.stage import cli
from tests.faults import candidates, forks
from tests.faults.counts import Counts
from tests.inputs.limits import NO_LIMITS

# Small enough that building and compiling dominate an attempt.
TRAINING: dict[str, Any] = {
    "steps": 60,
    "critic_steps": 10,  # so that health.jsonl has rows as well, one every 20 steps
    "batch_size": 8,
    "base_filters": 2,
    "latent_size": 4,
    "log_every": 5,
    "sample_every": 10,
    "checkpoint_every": 5,
    "keep_checkpoints": 3,
}
# When an attempt is killed: at any time of its life, or as soon as it does a certain thing.
MOMENTS = ("any time", "compiling", "saving", "sampling", "after a checkpoint")
OUTPUT = "OUTPUT"
_KILLS_OF_A_TRAINING = 4


@dataclasses.dataclass(frozen=True)
class Stage:
    """One command: a stage's name and its settings."""

    name: str
    settings: dict[str, Any]

    def into(self, location: Path) -> "Stage":
        settings = {name: str(value).replace(OUTPUT, str(location)) for name, value in self.settings.items()}
        return dataclasses.replace(self, settings=settings)

    def start(self, log: Path) -> int:
        words = [f"--{name}={value}" for name, value in self.settings.items()]
        return forks.start(lambda: cli.main(self.name, words), log)

    def run(self, log: Path) -> float:
        """Run it to its end; return the seconds that it took."""
        started = time.monotonic()
        code = forks.wait(self.start(log))
        assert code == 0, log.read_text()
        return time.monotonic() - started


class Reference:
    """Stages run without a fault, each with the setting OUTPUT: the expected end of every trial of the first."""

    def __init__(self, folder: Path, *stages: Stage) -> None:
        self._folder, self.log = folder, folder / "log"
        folder.mkdir(parents=True)
        self.seconds, *_ = [stage.into(folder / "reference").run(self.log) for stage in stages]
        self._wanted = content(folder / "reference")
        self._trials = 0

    def location(self) -> Path:
        self._trials += 1
        assert self._trials < 1000, "stages end before their fault happens"
        return self._folder / str(self._trials)

    def problem(self, location: Path) -> str:
        """Return the differences at the end of a trial; empty if none."""
        actual, wanted = content(location), self._wanted
        wrong = sorted(name for name in actual.keys() | wanted.keys() if actual.get(name) != wanted.get(name))
        return f"{location}: other bytes in {wrong}" if wrong else ""


def content(location: Path) -> dict[str, bytes]:
    """Return the content of trainings and artifacts, by path, without their speed."""
    files = {}
    for path in sorted(location.rglob("*")):
        name = path.relative_to(location).as_posix()
        if path.is_file() and "/tensorboard/" not in name:
            files[name] = path.read_bytes()
            if name.endswith("metrics.jsonl"):
                rows = [{**json.loads(line), "images_per_second": 0} for line in path.read_text().splitlines()]
                files[name] = json.dumps(rows).encode()
    return files


def _moment(name: str, training: Path, log: Path, seconds: float) -> Callable[[], bool]:
    """Return a condition for a moment of an attempt; "any time" is so many seconds from now."""
    before = checkpoints.steps(training)
    compiled_long: list[Callable[[], bool]] = []

    def compiling() -> bool:
        if not compiled_long and "compiling the first" in log.read_text():
            compiled_long.append(forks.passed(seconds / 10))
        return any(long() for long in compiled_long)

    return {
        "any time": forks.passed(seconds),
        "compiling": compiling,
        "saving": lambda: any(training.glob(".tmp-step-*")),
        "sampling": lambda: any((training / "samples").glob(".tmp-step-*")),
        "after a checkpoint": lambda: len(set(checkpoints.steps(training)) - set(before)) > 1,
    }[name]


def kill_training(kills: int, chance: random.Random, training: Stage, folder: Path) -> dict[str, Counts]:
    """Kill trainings until so many kills hit, and run each until it is done; count by moment."""
    counts = {name: Counts() for name in (*MOMENTS, "trainings ended")}
    reference = Reference(folder, training)
    (trained,) = (folder / "reference").iterdir()
    while (left := kills - sum(counts[moment].fired for moment in MOMENTS)) > 0:
        location = reference.location()
        attempted = location / trained.name
        for _ in range(min(left, _KILLS_OF_A_TRAINING)):
            moment = chance.choice(MOMENTS)
            before = max(checkpoints.steps(attempted), default=0)
            due = _moment(moment, attempted, reference.log, chance.uniform(0, reference.seconds))
            killed, problem = _killed(training.into(location), reference.log, due)
            counts[moment].add(killed, problem or _lack_of_progress(attempted, before))
            if not killed:
                break
        training.into(location).run(reference.log)
        counts["trainings ended"].add(True, reference.problem(location))
    return counts


def _killed(stage: Stage, log: Path, due: Callable[[], bool], grace: float = 0.0) -> tuple[bool, str]:
    """Kill a stage at a moment, SIGTERM and so many seconds before; return if it lived until then, and a wrong end."""
    process = stage.start(log)
    code, codes = forks.wait_until(process, due), {errors.OK, -signal.SIGKILL}
    is_alive = code is None
    if is_alive and grace:
        codes.add(errors.TERMINATED)
        os.kill(process, signal.SIGTERM)
        code = forks.wait_until(process, forks.passed(grace))
    if code is None:
        os.kill(process, signal.SIGKILL)
        code = forks.wait(process)
    return is_alive, "" if code in codes else f"it ended with {code}: {log.read_text()}"


def _lack_of_progress(training: Path, before: int) -> str:
    """Return what is wrong if an attempt lived two intervals of checkpoints and left none."""
    rows = training / "metrics.jsonl"
    lines = rows.read_text().splitlines(keepends=True) if rows.exists() else []
    steps = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
    reached, kept = max(steps, default=0), max(checkpoints.steps(training), default=0)
    if reached >= before + 2 * TRAINING["checkpoint_every"] and kept <= before:
        return f"it came from step {before} to {reached} and the newest checkpoint is that of step {kept}"
    return ""


def kill_stage(kills: int, chance: random.Random, stage: Stage, folder: Path, grace: float = 0.0) -> Counts:
    """Kill a stage at any time of its life until so many kills hit, and run it each time until it is done.

    SIGTERM comes `grace` seconds before SIGKILL, if any.
    """
    counts, reference = Counts(), Reference(folder, stage)
    while counts.fired < kills:
        location = reference.location()
        due = forks.passed(chance.uniform(0, reference.seconds))
        killed, problem = _killed(stage.into(location), reference.log, due, grace)
        stage.into(location).run(reference.log)
        counts.add(killed, problem or reference.problem(location))
    return counts


def publishing(folder: Path, number: int) -> Stage:
    """Return the publication of the candidate `folder/NUMBER`."""
    candidate = candidates.at(folder / str(number))
    return Stage("publish", {"model": candidate.model, "evaluation": candidate.evaluation, "registry": OUTPUT})


def light_stages(folder: Path) -> list[Stage]:
    """Return stages that need no TensorFlow, for the candidate `folder/1`."""
    return [
        Stage("decide", {"source": "digits", "registry": folder / "registry", "source_index": OUTPUT}),
        Stage("preprocess", {"source": "digits", "dataset": OUTPUT}),
        publishing(folder, 1),
    ]


def heavy_stages(folder: Path, dataset: Path) -> list[Stage]:
    """Make inputs for the stages that need TensorFlow, and return those."""
    folder.mkdir()
    Stage("train", {"dataset": dataset, "checkpoints": folder / "checkpoints", **TRAINING}).run(folder / "log")
    (checkpoint,) = folder.glob(f"checkpoints/*/step-{TRAINING['steps']:010d}")
    embed = Stage("embed", {"dataset": dataset, "embedding": OUTPUT, "classifier_epochs": 1})
    embed.into(folder / "embeddings").run(folder / "log")
    (embedding,) = (folder / "embeddings").iterdir()
    judged = {"checkpoint": checkpoint, "dataset": dataset, "embedding": embedding, "evaluation": OUTPUT}
    return [
        embed,
        Stage("evaluate", {**judged, "sample_count": 100, **NO_LIMITS}),
        Stage("export", {"checkpoint": checkpoint, "model": OUTPUT}),
    ]
