"""Stages killed, stopped and ended as Kubeflow ends them; prints the counts as JSON.

python -m tests.faults --trainings 8 --light 4 --seed 0
"""

import argparse
import importlib
import json
import random
import tempfile
from pathlib import Path

from components.core.artifacts.datasets import ImageShape
from components.train.config import TrainConfig
from tests.conftest import write_dataset
from tests.faults.counts import Counts
from tests.faults.kill_chain import end_trainings
from tests.faults.kills import OUTPUT, TRAINING, Stage, heavy_stages, kill_stages, kill_training, light_stages
from tests.faults.zombies import publish_late, wake_late

_SHORT = {**TRAINING, "steps": 20}  # for what is not about how far a training comes


def main() -> None:
    """Does as often as asked for what the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=int, default=0, help="Kills of trainings.")
    parser.add_argument("--light", type=int, default=0, help="Kills of each stage without TensorFlow.")
    parser.add_argument("--heavy", type=int, default=0, help="Kills of each other stage.")
    parser.add_argument("--zombies", type=int, default=0, help="Late awakenings of each stage.")
    parser.add_argument("--pods", type=int, default=0, help="Trainings ended as Kubeflow ends a Pod.")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found: dict[str, dict[str, Counts]] = {"kills": {}, "zombies": {}, "pods": {}}
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(given.seed)
        for each in ("kills", "trainings", "inputs", "zombies", "late", "pods"):
            (folder / each).mkdir()
        counts = {"train": 60, "validation": 10, "test": 40}
        dataset = write_dataset(folder / "dataset", ImageShape(8, 8, 1), counts, 2)
        training = Stage("train", TrainConfig, {"dataset": dataset, "checkpoints": OUTPUT, **_SHORT})
        importlib.import_module("components.preprocess.beam.pipeline")
        light = light_stages(folder / "inputs")
        if given.light:
            found["kills"] |= kill_stages(given.light, chance, light, folder / "kills")
        if given.zombies:
            # Decide is left out: it keeps nothing that another process of it would read.
            found["zombies"] |= wake_late(light[1:], given.zombies, chance, folder / "zombies")
            found["zombies"]["publish, then the next version"] = publish_late(
                light[2], given.zombies, chance, folder / "late"
            )
        # Only now, so that forks of what needs no TensorFlow are quicker.
        for module in ("train.loop", *(("embed.artefact", "evaluate.make", "export.run") if given.heavy else ())):
            importlib.import_module(f"components.{module}")
        if given.trainings:
            by_moment = kill_training(given.trainings, chance, dataset, folder / "trainings")
            found["kills"] |= {f"train, {moment}": count for moment, count in by_moment.items()}
        if given.zombies:
            found["zombies"] |= wake_late([training], given.zombies, chance, folder / "zombies")
        if given.pods:
            ended = end_trainings(training, given.pods, chance, folder / "pods")
            found["pods"] = {} if ended is None else {"train": ended}
        if given.heavy:
            heavy = heavy_stages(folder / "inputs", dataset)
            found["kills"] |= kill_stages(given.heavy, chance, heavy, folder / "kills")
    as_json = {part: {kind: each.to_json() for kind, each in kinds.items()} for part, kinds in found.items()}
    print(json.dumps(as_json))


if __name__ == "__main__":
    main()
