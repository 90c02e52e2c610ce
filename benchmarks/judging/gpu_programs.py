"""Lower trainings of `quality.py` to programs that `gpu_train.py` runs on a GPU that has JAX and no TensorFlow.

A program makes some generator updates by `WganStep.run_block` as it is, lowered by XLA. Seed, steps and learning rates
are its arguments, so that trainings which differ in nothing else share one. The folder written has:

    jobs.jsonl              a line per training: its program, arguments, and the name of its state
    data/DATASET.npz        images of a training split
    labels/DIGEST.npz       labels of its images
    programs/DIGEST/        program.hlo.pb; program.json: what its arguments and results are
    initial/DIGEST.npz      states that trainings begin with

    python -m benchmarks.judging.gpu_programs --output P --dataset D --steps 75000 --seeds 0,1,2 --candidate ""
    python -m benchmarks.judging.gpu_train --folder P --states W     (on the GPU)
    python -m benchmarks.judging.quality --work W/D --dataset D --steps 75000 --seeds 0,1,2 --candidate "" ...
"""

import argparse
import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.judging.quality import add_flags, candidates_of
from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.networks.gan import NetworkConfig
from components.train.config import TrainConfig
from components.train.labels import choose
from components.train.step import REPORTED, WganStep

_UPDATES = 100  # of one call of a program


def lower(step: WganStep, config: TrainConfig, network: NetworkConfig, count: int, output: Path) -> None:
    """Write the program of a step for `count` training images. The step cannot be used afterwards."""
    step._halved = False  # it serves the threads of a CPU only

    def program(*given: tf.Tensor) -> dict[str, tf.Tensor]:
        *arrays, order, seed, steps, critic_rate, generator_rate = given
        # The step reads seed, steps and rates as numbers; here they are tensors, so that one program serves all.
        step._config = SimpleNamespace(**{**vars(config), "seed": seed, "steps": steps})  # type: ignore[assignment]
        step._critic_adam.learning_rate, step._generator_adam.learning_rate = critic_rate, generator_rate
        rows: dict[str, tf.Tensor] = step.run_block(*(tf.gather(array, order) for array in arrays))
        return rows

    image, has_labels = network.image, network.classes > 0
    specs = [tf.TensorSpec([count, image.height, image.width, image.channels], tf.uint8)]
    specs += [tf.TensorSpec([count], tf.int32)] if has_labels else []
    specs += [tf.TensorSpec([_UPDATES, config.critic_steps, config.batch_size], tf.int32), tf.TensorSpec([], tf.int64)]
    specs += [tf.TensorSpec([], tf.float32)] * 3
    function = tf.function(program, jit_compile=True, input_signature=specs)
    lowered: Any = function.experimental_get_compiler_ir(*specs)
    variables = {id(variable.handle): name for name, variable in step.state().items()}
    captured = [variables.get(id(handle), "") for handle in function.get_concrete_function().captured_inputs]
    about = {"labels": has_labels, "state": captured, "rows": sorted(REPORTED), "updates": _UPDATES}
    about |= {"critic_steps": config.critic_steps, "batch_size": config.batch_size}
    output.mkdir(parents=True)
    (output / "program.hlo.pb").write_bytes(lowered(stage="hlo_serialized"))
    (output / "program.json").write_text(json.dumps(about), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", required=True, type=Path, help="Folder of programs, to which this adds.")
    add_flags(parser)
    given = parser.parse_args()
    manifest = datasets.Manifest.of(given.dataset, "")
    images, classes = dataset_reader.load_split(given.dataset, manifest, "train")
    data = _write(given.output / "data", {"images": images}, Path(given.dataset).name)
    for run in candidates_of(given, manifest):
        config = run.config
        labels = choose(config, manifest, [(images, classes)])
        network, step = run.make_step(manifest.image, labels)
        initial = _write(given.output / "initial", step.state_arrays())
        rates = {"critic_rate": config.critic_learning_rate, "generator_rate": config.generator_learning_rate}
        alike = dataclasses.replace(config, seed=0, steps=1, critic_learning_rate=1.0, generator_learning_rate=1.0)
        program = hashlib.sha256(f"{alike} {network} {len(images)}".encode()).hexdigest()[:12]
        if not (given.output / "programs" / program).exists():
            lower(step, config, network, len(images), given.output / "programs" / program)
        job = {"program": program, "initial": initial, "data": data, "images": run.train_images}
        job["labels"] = _write(given.output / "labels", {"labels": labels.of_splits[0]})
        job["state"] = f"{Path(given.dataset).name}/{run.file_stem}.npz"
        with (given.output / "jobs.jsonl").open("a", encoding="utf-8") as jobs:
            jobs.write(json.dumps({**job, "seed": run.seed, "steps": run.steps, **rates}) + "\n")
        print(f"{job['state']}: program {program}", flush=True)


def _write(folder: Path, arrays: Mapping[str, np.ndarray], stem: str = "") -> str:
    """Write arrays into a folder unless they are there, by default named by their content; return the file's name."""
    stem = stem or hashlib.sha256(b"".join(array.tobytes() for array in arrays.values())).hexdigest()[:12]
    file = folder / f"{stem}.npz"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.name


if __name__ == "__main__":
    main()
