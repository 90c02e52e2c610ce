"""Healthy and sabotaged trainings on Fashion-MNIST: the numbers between which the default limits lie.

A healthy training must succeed and be promoted, a sabotaged one must be stopped, and rejected if nobody stops it.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.lib import tables
from components.core import errors
from components.core.artifacts import checkpoints, training_log
from components.core.stage import cli
from components.train.config import TrainConfig
from components.train.monitoring import limits
from components.train.run import resolve
from tests.proofs.stages import command, make_dataset, make_embedding, stage

STEPS, SABOTAGED_STEPS = 8000, 2500
HEALTHY: dict[str, dict[str, Any]] = {f"seed{seed}": {"seed": seed} for seed in range(3)}
SABOTAGED: dict[str, dict[str, Any]] = {
    "lr50": {"critic_learning_rate": 50 * TrainConfig.critic_learning_rate},
    "gp0": {"penalty_weight": 0},
    "dead": {"generator_learning_rate": 1e-6 * TrainConfig.generator_learning_rate},
}
SCORES = [f"{space}fcd_{score}" for score in ("ratio", "corrected") for space in ("", "untrained_")]
SCORES += ["recall", "coverage", "class_distance", "class_ratio", "class_coverage"]
SCORES += ["distinct_share", "copy_share", "copy_nearness"]


def train(root: Path, dataset: Path, **settings: Any) -> tuple[Path, int]:
    """Train as a user does; return the training's folder, also of a failed one, and the exit code."""
    flags = {"dataset": str(dataset), "checkpoints": str(root / "checkpoints"), "steps": STEPS, **settings}
    code = subprocess.run(command("train", keep_checkpoints=0, **flags), check=False, stdout=sys.stderr).returncode
    return resolve(cli.build(TrainConfig, flags)).folder, code


def judged(root: Path, dataset: Path, embedding: Path, checkpoint: Path) -> tuple[str, dict[str, Any]]:
    inputs = {"dataset": dataset, "embedding": embedding, "checkpoint": checkpoint}
    location = Path(stage("evaluate", evaluation=root / "evaluations", **inputs)["evaluation_uri"])
    verdict = json.loads((location / "verdict.json").read_text())["verdict"]
    return verdict, json.loads((location / "metrics.json").read_text())


def show_signals(trainings: dict[str, Path]) -> None:
    """Print the lowest and the highest value of each signal in each training, after the warm-up."""
    config = TrainConfig(dataset="-", checkpoints="-", steps=STEPS)
    every = {name: training_log.read(location / training_log.HEALTH) for name, location in trainings.items()}
    logs = {name: [row for row in log if limits.is_warm(row["step"], config)] for name, log in every.items()}
    rows = []
    for field in dataclasses.fields(limits.Diagnostics):
        values = [[row[field.name] for row in log if row[field.name] is not None] for log in logs.values()]
        rows.append([field.name, *(f"{min(series):.3g} to {max(series):.3g}" for series in values)])
    warned = [f"{sum(bool(row['warnings']) for row in log)} of {len(log)}" for log in logs.values()]
    tables.show("Signals", ["signal", *trainings], [*rows, ["windows with warnings", *warned]])


def show_scores(results: dict[str, tuple[str, dict[str, Any]]]) -> None:
    real = next(iter(results.values()))[1]["real"]
    rows = [["verdict", "", *(verdict for verdict, _ in results.values())]]
    for score in SCORES:
        values = [real.get(score), *(numbers["model"][score] for _, numbers in results.values())]
        rows.append([score, *("-" if value is None else f"{value:.4g}" for value in values)])
    tables.show("Scores", ["score", "real", *results], rows)


def prove(options: argparse.Namespace) -> list[str]:
    root = options.root
    dataset = make_dataset(options, root)
    embedding = make_embedding(root, dataset)
    wrong, trainings, results = [], {}, {}
    for name, settings in {**HEALTHY, **SABOTAGED}.items():
        healthy = name in HEALTHY
        trainings[name], code = train(root, dataset, **settings)
        if code != (errors.OK if healthy else errors.DEFECT):
            wrong.append(f"{name} ended with {code}")
        training, steps = trainings[name], STEPS
        if not healthy:  # the monitor ends it before there is much to judge
            steps = SABOTAGED_STEPS
            unwatched = {"steps": steps, "learning_rate_decay": "none", "when_unhealthy": "warn"}
            training, _ = train(root, dataset, **settings, **unwatched)
        results[name] = judged(root, dataset, embedding, checkpoints.step_folder(training, steps))
        if results[name][0] != ("PROMOTE" if healthy else "REJECT"):
            wrong.append(f"{name} was judged {results[name][0]}")
    show_signals(trainings)
    show_scores(results)
    return wrong
