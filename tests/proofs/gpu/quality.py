"""Time to quality: train the default on Fashion-MNIST, and evaluate each of its checkpoints.

python -m tests.proofs.gpu.quality gpu|cpu DATASET STEPS EPOCHS
"""

import json
import shutil
import sys
import time
from pathlib import Path

from components.core.artifacts import checkpoints
from tests.proofs.stages import stage

_SCORES = 5  # checkpoints to score


def seconds_of(name: str, **settings: object) -> float:
    """Run a stage, and return its seconds, its start included."""
    started = time.monotonic()
    stage(name, **settings)
    return time.monotonic() - started


def main() -> None:
    """Print the distance after each checkpoint, with the seconds since the training's process started, as JSON."""
    device, dataset, steps, epochs = sys.argv[1:]
    folder = Path("build/gpu") / device / "quality"
    on = {"dataset": dataset, "accelerator": device}
    embedding, training, evaluations = (folder / name for name in ("embedding", "checkpoints", "evaluations"))
    embed_seconds = seconds_of("embed", embedding=embedding, classifier_epochs=epochs, **on)
    for earlier in (training, evaluations):  # attempts, which a stage would resume
        shutil.rmtree(earlier, ignore_errors=True)
    began = time.time()
    every = int(steps) // _SCORES
    train_seconds = seconds_of(
        "train", checkpoints=training, steps=steps, checkpoint_every=every, keep_checkpoints=0, **on
    )
    evaluate_seconds, rows = 0.0, []
    for step in checkpoints.steps(training):
        checkpoint, location = checkpoints.step_folder(training, step), evaluations / str(step)
        settings = {"checkpoint": checkpoint, "dataset": dataset, "embedding": embedding, "evaluation": location}
        evaluate_seconds += seconds_of("evaluate", **settings)
        written = (checkpoint / checkpoints.MANIFEST).stat().st_mtime
        scores = json.loads((location / "metrics.json").read_text())["model"]
        rows.append({"step": step, "seconds": round(written - began, 1), "fcd": scores["fcd"]})
    seconds = {"embed": embed_seconds, "train": train_seconds, "evaluate": evaluate_seconds}
    print(json.dumps({"checkpoints": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
