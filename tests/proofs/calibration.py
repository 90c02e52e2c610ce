"""Healthy and sabotaged trainings on Fashion-MNIST: the numbers between which the default limits lie.

`make prove NAME=calibration` runs it, by the stages as a user runs them: too long for the tests. docs/evaluation.md has
the results. Existing results are reused.
"""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.artifacts import training_log
from components.train.config import TrainConfig
from components.train.monitoring import limits
from tests.proofs.stages import arguments, command, make_dataset, make_embedding, stage

STEPS, SABOTAGED_STEPS = 8000, 2500
HEALTHY: dict[str, dict[str, Any]] = {f"seed{seed}": {"seed": seed} for seed in range(3)}
SABOTAGED: dict[str, dict[str, Any]] = {
    "lr50": {"critic_learning_rate": 50 * TrainConfig.critic_learning_rate},
    "gp0": {"penalty_weight": 0},
    "dead": {"generator_learning_rate": 1e-6 * TrainConfig.generator_learning_rate},
}
SCORES = (
    "fcd_ratio",
    "untrained_fcd_ratio",
    "fcd_corrected",
    "untrained_fcd_corrected",
    "recall",
    "coverage",
    "class_distance",
    "class_ratio",
    "class_coverage",
    "distinct_share",
    "copy_share",
    "copy_nearness",
)


def train(dataset: Path, location: Path, **settings: Any) -> int:
    """Train as a user does and return the exit code."""
    flags = {"dataset": dataset, "checkpoints": location, "steps": STEPS, "keep_checkpoints": 0, **settings}
    return subprocess.run(command("train", **flags), check=False, stdout=sys.stderr).returncode


def judged(dataset: Path, embedding: Path, training: Path, steps: int, location: Path) -> tuple[str, dict[str, Any]]:
    """Return the verdict on the last checkpoint and its metrics."""
    checkpoint = training / f"step-{steps:010d}"
    stage("evaluate", dataset=dataset, embedding=embedding, checkpoint=checkpoint, evaluation=location)
    verdict = json.loads((location / "verdict.json").read_text())["verdict"]
    return verdict, json.loads((location / "metrics.json").read_text())


def windows(training: Path, steps: int) -> list[dict[str, Any]]:
    """Return the rows of health.jsonl after the warm-up."""
    config = TrainConfig(dataset="-", checkpoints="-", steps=steps)
    rows = training_log.read(training / training_log.HEALTH)
    return [row for row in rows if limits.is_warm(row["step"], config)]


def print_signals(trainings: dict[str, Path]) -> None:
    """Print the lowest and the highest value of each signal in each training."""
    print(f"{'signal':26}" + "".join(f"{name:>22}" for name in trainings))
    for field in dataclasses.fields(limits.Diagnostics):
        cells = []
        for location in trainings.values():
            values = [row[field.name] for row in windows(location, STEPS) if row[field.name] is not None]
            cells.append(f"{min(values):.3g} to {max(values):.3g}")
        print(f"{field.name:26}" + "".join(f"{cell:>22}" for cell in cells))
    for name, location in trainings.items():
        rows = windows(location, STEPS)
        print(f"{name}: {sum(bool(row['warnings']) for row in rows)} of {len(rows)} windows with warnings")


def print_scores(results: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Print the scores with limits, of each training and of real images."""
    real = next(iter(results.values()))[1]["real"]
    print(f"{'score':22}{'real':>10}" + "".join(f"{name:>10}" for name in results))
    for score in SCORES:
        values = [real.get(score), *(numbers["model"][score] for _, numbers in results.values())]
        print(f"{score:22}" + "".join(f"{'-' if value is None else f'{value:.4g}':>10}" for value in values))
    print(f"{'verdict':32}" + "".join(f"{verdict:>10}" for verdict, _ in results.values()))


def main() -> int:
    """Train, judge and print; 1 if a healthy training fails or a sabotaged one passes, else 0."""
    options = arguments(__doc__, "build/calibration")
    dataset = make_dataset(options)
    embedding = make_embedding(options, dataset)
    wrong, results = [], {}
    for name, settings in {**HEALTHY, **SABOTAGED}.items():
        expected = errors.OK if name in HEALTHY else errors.DEFECT
        if train(dataset, options.root / name, **settings) != expected:
            wrong.append(f"{name} did not end with {expected}")
    for name, settings in SABOTAGED.items():
        # The monitor ends them before there is much to judge.
        overrides = {"steps": SABOTAGED_STEPS, "learning_rate_decay": "none", "when_unhealthy": "warn"}
        train(dataset, options.root / f"{name}-unwatched", **settings, **overrides)
    for name in [*HEALTHY, *SABOTAGED]:
        steps = STEPS if name in HEALTHY else SABOTAGED_STEPS
        training = options.root / (name if name in HEALTHY else f"{name}-unwatched")
        results[name] = judged(dataset, embedding, training, steps, options.root / f"{name}-evaluation")
        if results[name][0] != ("PROMOTE" if name in HEALTHY else "REJECT"):
            wrong.append(f"{name} was judged {results[name][0]}")
    print_signals({name: options.root / name for name in [*HEALTHY, *SABOTAGED]})
    print()
    print_scores(results)
    for line in wrong:
        print(f"not as it should be: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
