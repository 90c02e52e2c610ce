"""Time to quality: train the default on Fashion-MNIST, and score its checkpoints by the evaluate stage's distance.

python -m tests.proofs.gpu.quality gpu|cpu DATASET STEPS EPOCHS FOLDER
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

from components.core.artifacts import checkpoints
from components.evaluate.report import scores_table

_SCORES = 5  # checkpoints to score


def stage(name: str, *flags: str, **settings: object) -> float:
    """Run a stage, and return its seconds, its start included."""
    started = time.monotonic()
    given = [f"--{key}={value}" for key, value in settings.items()]
    command = [sys.executable, "-m", f"components.{name}", *flags, *given]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return time.monotonic() - started


def main() -> None:
    """Print the distance after each checkpoint, with the seconds since the training's process started, as JSON."""
    device, dataset, steps, epochs, root = sys.argv[1:]
    folder = Path(root)
    on = {"dataset": dataset, "accelerator": device}
    embedding, training = folder / "embedding", folder / "checkpoints"
    embed_seconds = stage("embed", embedding=embedding, classifier_epochs=epochs, **on)
    shutil.rmtree(training, ignore_errors=True)  # of an earlier attempt, which a stage would resume
    began = time.time()
    every = int(steps) // _SCORES
    train_seconds = stage("train", checkpoints=training, steps=steps, checkpoint_every=every, keep_checkpoints=0, **on)
    evaluate_seconds = stage(
        "evaluate", "--all-checkpoints", checkpoints=training, dataset=dataset, embedding=embedding
    )
    rows = []
    for row in scores_table.read(training):
        written = (checkpoints.step_folder(training, row.step) / checkpoints.MANIFEST).stat().st_mtime
        rows.append({"step": row.step, "seconds": round(written - began, 1), "fcd": row.distance})
    seconds = {"embed": embed_seconds, "train": train_seconds, "evaluate": evaluate_seconds}
    print(json.dumps({"checkpoints": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
