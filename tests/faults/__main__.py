"""Stages killed, stopped and ended as Kubeflow ends them; prints the counts as JSON.

python -m tests.faults --trainings 8 --light 4 --heavy 0 --zombies 1 --pods 1 --seed 0

How often trainings, each stage without TensorFlow and each other stage are killed; how often each stage wakes late, and
a training ends as Kubeflow ends a Pod.
"""

import argparse
import dataclasses
import importlib
import json
import random
import tempfile
from pathlib import Path

from components.core.artifacts.datasets import ImageShape
from tests.conftest import write_dataset
from tests.faults import candidates
from tests.faults.counts import Counts
from tests.faults.stages import kills
from tests.faults.stages.kills import OUTPUT, TRAINING, Stage, kill_stage
from tests.faults.stages.zombies import wake_late

# Seconds. Kubeflow's emissary hands SIGTERM on to the launcher and the stage. The launcher dies; the emissary notices,
# and ends, and the kernel kills everything left.
GRACE_OF_A_POD = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("trainings", "light", "heavy", "zombies", "pods", "seed"):
        parser.add_argument(f"--{name}", type=int, default=0)
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
        first, second = (kills.publishing(folder / "candidates", number) for number in (1, 2))
        light = kills.light_stages(folder / "candidates")

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
            by_moment = kills.kill_training(options.trainings, chance, training, folder / "trainings")
            results["kills"] |= {f"train, {moment}": count for moment, count in by_moment.items()}
        if options.zombies:
            wake("train", short)
        if options.pods:
            results["pods"] = {"train": kill_stage(options.pods, chance, short, folder / "pods", GRACE_OF_A_POD)}
        if options.heavy:
            kill(kills.heavy_stages(folder / "inputs", dataset), options.heavy)
    print(json.dumps(results, default=dataclasses.asdict))


if __name__ == "__main__":
    main()
