"""Whole stages killed at seeded instants, each run again until it is done; in the end every byte is as without a kill.

TensorFlow is imported once and never used here: each attempt is a fork of this process, which takes milliseconds to
start, and is a process of its own, killed by SIGKILL. `python -m tests.faults` is such a process.
"""

import dataclasses
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core.artifacts import checkpoints
from components.core.stage import cli
from components.decide.config import DecideConfig
from components.embed.config import EmbedConfig
from components.evaluate.config import EvaluateConfig
from components.export.config import ExportConfig
from components.preprocess.config import PreprocessConfig
from components.publish.config import PublishConfig
from components.train.config import TrainConfig
from tests.faults.counts import Counts
from tests.faults.writers import prepare_first_version, publish_config
from tests.limits import NO_LIMITS

# Small enough that most of an attempt is what all have in common: building and compiling.
TRAINING: dict[str, Any] = {
    "steps": 60,
    "critic_steps": 10,  # so that the log of health has rows as well, one every 20 steps
    "batch_size": 8,
    "base_filters": 2,
    "latent_size": 4,
    "log_every": 5,
    "sample_every": 10,
    "checkpoint_every": 5,
    "keep_checkpoints": 3,
}
# When an attempt is killed: at any time of its life, or as soon as it is seen to do something.
MOMENTS = ("any time", "compiling", "saving", "sampling", "after a checkpoint")
OUTPUT = "OUTPUT"
_KILLS_OF_A_TRAINING = 4
_PATIENCE_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Stage:
    """One command: a stage's name, its configuration class, and its settings."""

    name: str
    config: type
    settings: dict[str, Any]

    def into(self, place: Path) -> "Stage":
        """The same with another place for its result."""
        given = {name: str(value).replace(OUTPUT, str(place)) for name, value in self.settings.items()}
        return dataclasses.replace(self, settings=given)

    def start(self, log: Path) -> int:
        """Starts it in a process of its own and returns its process id."""
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.dup2(file, 1)
                os.dup2(file, 2)
                sys.stdout = sys.stderr = os.fdopen(file, "w", buffering=1)
                code = cli.main(self.name, self.config, [f"--{name}={value}" for name, value in self.settings.items()])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(file)
        return pid

    def run(self, log: Path) -> float:
        """Runs it to its end; returns the seconds that it took."""
        started = time.monotonic()
        code = os.waitstatus_to_exitcode(os.waitpid(self.start(log), 0)[1])
        assert code == 0, log.read_text()
        return time.monotonic() - started


def ended(pid: int) -> int | None:
    """The exit code of a child that has ended, negative for a signal; None while it lives."""
    found, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def kill_when(pid: int, due: Callable[[], bool]) -> int:
    """Kills a child as soon as something is so; returns how it ended, which may have been before."""
    began = time.monotonic()
    while not due():
        code = ended(pid)
        if code is not None:
            return code
        assert time.monotonic() - began < _PATIENCE_SECONDS, "it never came to where it was to be killed"
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def content(place: Path) -> dict[str, bytes]:
    """What a training or an artefact consists of, by path.

    But for what tells how fast it was: TensorBoard's files, and the speed in a log's rows.
    """
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_file() and not name.startswith("tensorboard/"):
            found[name] = _without_speed(path) if name.endswith("metrics.jsonl") else path.read_bytes()
    return found


def _without_speed(path: Path) -> bytes:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return json.dumps([{name: row[name] for name in row if name != "images_per_second"} for row in rows]).encode()


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """The paths whose bytes differ, or that only one has."""
    return sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))


def _moment(name: str, place: Path, log: Path, seconds: float) -> Callable[[], bool]:
    """Whether an attempt has come to a moment; `seconds` after it began, at any time."""
    began = time.monotonic()
    before = checkpoints.steps(place)
    after: list[float] = []

    def compiling() -> bool:
        if not after and "the first block compiles" in log.read_text():
            after.append(time.monotonic())
        return bool(after) and time.monotonic() - after[0] > seconds / 10

    return {
        "any time": lambda: time.monotonic() - began > seconds,
        "compiling": compiling,
        "saving": lambda: any(place.glob(".tmp-step-*")),
        "sampling": lambda: any((place / "samples").glob(".tmp-step-*")),
        "after a checkpoint": lambda: len(set(checkpoints.steps(place)) - set(before)) > 1,
    }[name]


def kill_training(kills: int, chance: random.Random, dataset: Path, folder: Path) -> dict[str, Counts]:
    """Kills trainings until so many kills hit, each training run on until it is done.

    Returns:
        By moment; kills that came too late are tried and not fired. Under "trainings ended", those that were compared.
    """
    counts = {name: Counts() for name in (*MOMENTS, "trainings ended")}
    log, common = folder / "log", {"dataset": dataset, **TRAINING}
    seconds = Stage("train", TrainConfig, {**common, "checkpoints": folder / "reference"}).run(log)
    wanted = content(folder / "reference")
    number = 0
    while (left := kills - sum(counts[moment].fired for moment in MOMENTS)) > 0:
        place = folder / str(number)
        training = Stage("train", TrainConfig, {**common, "checkpoints": place})
        for _ in range(min(left, _KILLS_OF_A_TRAINING)):
            moment = chance.choice(MOMENTS)
            before = max(checkpoints.steps(place), default=0)
            due = _moment(moment, place, log, chance.uniform(0, seconds))
            code = kill_when(training.start(log), due)
            problem = "" if code in (0, -signal.SIGKILL) else f"it ended with {code}: {log.read_text()}"
            counts[moment].add(code == -signal.SIGKILL, problem or _lack_of_progress(place, before))
            if code != -signal.SIGKILL:
                break
        training.run(log)
        wrong = differences(content(place), wanted)
        counts["trainings ended"].add(True, f"training {number}: other bytes in {wrong}" if wrong else "")
        number += 1
    return counts


def _lack_of_progress(place: Path, before: int) -> str:
    """What is wrong if an attempt lived two intervals of checkpoints and left none."""
    rows = place / "metrics.jsonl"
    lines = rows.read_text().splitlines(keepends=True) if rows.exists() else []
    steps = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
    reached, kept = max(steps, default=0), max(checkpoints.steps(place), default=0)
    if reached >= before + 2 * TRAINING["checkpoint_every"] and kept <= before:
        return f"it came from step {before} to {reached} and the newest checkpoint is that of step {kept}"
    return ""


def kill_stages(kills: int, chance: random.Random, stages: list[Stage], folder: Path) -> dict[str, Counts]:
    """Kills stages at any time of their life until so many kills hit each, each run again until it is done.

    Args:
        kills: Kills of each stage.
        chance: Says when.
        stages: Each with the setting `OUTPUT` for where its result goes.
        folder: An empty folder to work in.

    Returns:
        By stage; kills that came too late are tried and not fired.
    """
    counts = {stage.name: Counts() for stage in stages}
    for stage in stages:
        log, count = folder / "log", counts[stage.name]
        reference = stage.into(folder / stage.name / "reference")
        seconds = reference.run(log)
        wanted = content(folder / stage.name / "reference")
        number = 0
        while count.fired < kills:
            assert number < 20 * kills, f"{stage.name} ends before it is killed"
            place = folder / stage.name / str(number)
            due = _moment("any time", place, log, chance.uniform(0, seconds))
            code = kill_when(stage.into(place).start(log), due)
            problem = "" if code in (0, -signal.SIGKILL) else f"it ended with {code}: {log.read_text()}"
            stage.into(place).run(log)
            wrong = differences(content(place), wanted)
            problem = problem or (f"other bytes in {wrong}" if wrong else "")
            count.add(code == -signal.SIGKILL, f"{stage.name} {number}: {problem}" if problem else "")
            number += 1
    return counts


def light_stages(folder: Path) -> list[Stage]:
    """Stages that need no TensorFlow, and inputs for them."""
    prepare_first_version(folder)
    made = dataclasses.asdict(publish_config(folder, 1))
    return [
        Stage("decide", DecideConfig, {"source": "digits", "registry": folder / "registry", "source_index": OUTPUT}),
        Stage("preprocess", PreprocessConfig, {"source": "digits", "dataset": f"{OUTPUT}/dataset"}),
        Stage("publish", PublishConfig, {"model": made["model"], "evaluation": made["evaluation"], "registry": OUTPUT}),
    ]


def heavy_stages(folder: Path, dataset: Path) -> list[Stage]:
    """Stages that need TensorFlow, and inputs for them, which are made here."""
    given = {"dataset": dataset, "checkpoints": folder / "training", **TRAINING}
    Stage("train", TrainConfig, given).run(folder / "log")
    checkpoint = checkpoints.step_folder(folder / "training", TRAINING["steps"])
    embed = Stage("embed", EmbedConfig, {"dataset": dataset, "embedding": OUTPUT, "classifier_epochs": 1})
    embed.into(folder / "embedding").run(folder / "log")
    judged = {"checkpoint": checkpoint, "dataset": dataset, "embedding": folder / "embedding", "evaluation": OUTPUT}
    return [
        embed,
        Stage("evaluate", EvaluateConfig, {**judged, "sample_count": 100, **NO_LIMITS}),
        Stage("export", ExportConfig, {"checkpoint": checkpoint, "model": OUTPUT}),
    ]
