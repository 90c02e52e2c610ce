"""What `make prove-gpu` runs with TensorFlow, each part in a process: a function that prints its findings as JSON.

python -m tests.proofs.gpu.parts machine|replicas|bits|quality gpu|cpu ...
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.core.artifacts import checkpoints
from components.core.artifacts.datasets import ImageShape
from components.selfcheck import checks
from components.train.config import TrainConfig
from components.train.second_order import in_float64
from components.train.step import network_of
from tests.proofs.stages import stage

LOCK = Path(__file__).parents[3] / "requirements/train-gpu.txt"
_PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
_MEBIBYTES = 4096  # of each virtual GPU
_TOLERANCE = 1e-9  # of the selfcheck in float64
_SCORES = 5  # checkpoints to score


def other_versions(lock: str) -> dict[str, str]:
    """Return the packages whose installed version is not that of the lock, with this version or `missing`."""

    def installed(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "missing"

    return {name: installed(name) for name, version in _PIN.findall(lock) if installed(name) != version}


def machine(device: str) -> bool:
    """Name the GPU, the driver and the libraries; fail if a library is not of the train-gpu image's version."""
    if device == "cpu":
        print(json.dumps({"tensorflow": tf.__version__}))
        return True
    (gpu, *_) = tf.config.list_physical_devices("GPU")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    others = other_versions(LOCK.read_text("utf-8"))
    facts = {
        "tensorflow": tf.__version__,
        "build": dict(tf.sysconfig.get_build_info()),
        "device": tf.config.experimental.get_device_details(gpu),
        "driver": subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip(),
        "not_of_the_image": others,
    }
    print(json.dumps(facts))
    return not others


def replicas(device: str) -> bool:
    """Compare one replica with two as the selfcheck does, on two virtual devices of one GPU: standard and exact."""
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    on_gpu = device == "gpu"
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=_MEBIBYTES if on_gpu else None)
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices(device.upper())[0], [limit] * 2)
    one = tf.distribute.OneDeviceStrategy(f"/{device}:0")
    many = tf.distribute.MirroredStrategy([f"/{device}:0", f"/{device}:1"])
    rows = []
    for mode in ("standard", "exact"):
        if mode == "exact" and on_gpu:
            tf.config.experimental.enable_op_determinism()
        size: Any = {} if on_gpu else {"base_filters": 4, "latent_size": 8}
        config = TrainConfig(dataset="none", checkpoints="none", batch_size=16, reproducibility=mode, **size)
        network = network_of(config, ImageShape(28, 28, 1), classes=10)
        subject = checks.Subject(config=config, network=network, one=one, many=many, tolerance=_TOLERANCE)
        with in_float64():
            results = [*checks.check_step(subject), checks.check_losses(subject)]
        rows += [[mode, result.check, result.outcome, result.detail] for result in results]
    for row in rows:
        print(*row, sep="; ", flush=True)
    print(json.dumps(rows))
    return all(outcome != checks.FAILED for _, _, outcome, _ in rows)


def bits(device: str, dataset: str, steps: str) -> bool:
    """Train twice, and a second half again: under `exact` all give the same bits; standard promises none on a GPU."""

    def digests(mode: str) -> dict[str, str]:
        settings = {"dataset": dataset, "reproducibility": mode, "accelerator": device, "replicas": 1, "log_every": 10}
        settings |= {"steps": steps, "checkpoint_every": int(steps) // 2}
        made = {}
        for name, training in (("straight", "first"), ("again", "second"), ("resumed", "second")):
            checkpoint = stage("train", checkpoints=Path(folder, mode, training), **settings)["checkpoint_uri"]
            made[f"{mode}-{name}"] = checkpoints.Manifest.of(checkpoint).state_sha256
            shutil.rmtree(checkpoint)  # the same command resumes at the one before
        return made

    workers = 2 if (os.cpu_count() or 1) > 2 else 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        exact, standard = pool.map(digests, ("exact", "standard"))
    same = {"exact": len(set(exact.values())) == 1, "standard": len(set(standard.values())) == 1}
    print(json.dumps({"same_bits": same, "digests": exact | standard}))
    return same["exact"]


def quality(device: str, dataset: str, steps: str, epochs: str) -> bool:
    """Train the default, and print the distance of each checkpoint, with the seconds since the training began."""
    folder, seconds = Path("build/gpu") / device / "quality", {"embed": 0.0, "train": 0.0, "evaluate": 0.0}

    def timed(name: str, output: str, **settings: object) -> Path:
        started = time.monotonic()
        outputs = stage(name, **settings)
        seconds[name] += time.monotonic() - started
        return Path(outputs[output])

    on = {"dataset": dataset, "accelerator": device}
    embeddings, trainings, evaluations = (folder / name for name in ("embeddings", "checkpoints", "evaluations"))
    embedding = timed("embed", "embedding_uri", embedding=embeddings, classifier_epochs=epochs, **on)
    for earlier in (trainings, evaluations):  # attempts, which a stage would resume
        shutil.rmtree(earlier, ignore_errors=True)
    began = time.time()
    kept = {"checkpoint_every": int(steps) // _SCORES, "keep_checkpoints": 0}
    training = timed("train", "checkpoint_uri", checkpoints=trainings, steps=steps, **kept, **on).parent
    rows = []
    for step in checkpoints.steps(training):
        checkpoint = checkpoints.step_folder(training, step)
        inputs = {"checkpoint": checkpoint, "dataset": dataset, "embedding": embedding}
        location = timed("evaluate", "evaluation_uri", evaluation=evaluations, **inputs)
        written = (checkpoint / checkpoints.MANIFEST).stat().st_mtime
        scores = json.loads((location / "metrics.json").read_text())["model"]
        rows.append({"step": step, "seconds": round(written - began, 1), "fcd": scores["fcd"]})
    print(json.dumps({"checkpoints": rows, "seconds": seconds}))
    return True


PARTS: dict[str, Callable[..., bool]] = {"machine": machine, "replicas": replicas, "bits": bits, "quality": quality}

if __name__ == "__main__":
    sys.exit(not PARTS[sys.argv[1]](*sys.argv[2:]))
