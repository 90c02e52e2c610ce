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
from tests.conftest import write_dataset
from tests.faults import candidates
from tests.faults.counts import Counts
from tests.faults.stages.kills import (
    OUTPUT,
    TRAINING,
    Stage,
    heavy_stages,
    kill_stage,
    kill_training,
    light_stages,
    publishing,
)
from tests.faults.stages.zombies import wake_late

# Seconds. Kubeflow's emissary hands SIGTERM on to the launcher and the stage. The launcher dies; the emissary notices,
# and ends, and the kernel kills everything left.
GRACE_OF_A_POD = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainings", type=int, default=0, help="Kills of trainings.")
    parser.add_argument("--light", type=int, default=0, help="Kills of each stage without TensorFlow.")
    parser.add_argument("--heavy", type=int, default=0, help="Kills of each other stage.")
    parser.add_argument("--zombies", type=int, default=0, help="Late awakenings of each stage.")
    parser.add_argument("--pods", type=int, default=0, help="Trainings ended as Kubeflow ends a Pod.")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    results: dict[str, dict[str, Counts]] = {"kills": {}, "zombies": {}, "pods": {}}
    with tempfile.TemporaryDirectory() as name:
        folder, chance = Path(name), random.Random(options.seed)
        counts = {"train": 60, "validation": 10, "test": 40}
        dataset = write_dataset(folder / "dataset", ImageShape(8, 8, 1), counts, 2)
        training = Stage("train", {"dataset": dataset, "checkpoints": OUTPUT, **TRAINING})
        # Parts that do not depend on the progress of a training.
        short = Stage("train", {**training.settings, "steps": 20})
        importlib.import_module("components.preprocess.beam.pipeline")
        candidates.prepare(folder / "candidates", 2, 0)
        first, second = (publishing(folder / "candidates", number) for number in (1, 2))
        light = light_stages(folder / "candidates")

        def kill(stages: list[Stage], often: int) -> None:
            for stage in stages:
                results["kills"][stage.name] = kill_stage(often, chance, stage, folder / "kills" / stage.name)

        def wake(name: str, *stages: Stage) -> None:
            results["zombies"][name] = wake_late(options.zombies, chance, folder / "zombies" / name, *stages)

        if options.light:
            kill(light, options.light)
        if options.zombies:
            # Decide is left out: it keeps nothing that another of its processes would read.
            for stage in light[1:]:
                wake(stage.name, stage)
            wake("publish, then the next version", first, second)
        # Imported now, so that earlier forks, which need no TensorFlow, are quicker.
        for module in ("train.loop", *(("embed.artifact", "evaluate.make", "export.make") if options.heavy else ())):
            importlib.import_module(f"components.{module}")
        if options.trainings:
            by_moment = kill_training(options.trainings, chance, training, folder / "trainings")
            results["kills"] |= {f"train, {moment}": count for moment, count in by_moment.items()}
        if options.zombies:
            wake("train", short)
        if options.pods:
            results["pods"] = {"train": kill_stage(options.pods, chance, short, folder / "pods", GRACE_OF_A_POD)}
        if options.heavy:
            kill(heavy_stages(folder / "inputs", dataset), options.heavy)
    print(
        json.dumps({part: {kind: count.to_json() for kind, count in kinds.items()} for part, kinds in results.items()})
    )


if __name__ == "__main__":
    main()
