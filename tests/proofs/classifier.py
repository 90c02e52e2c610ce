"""The classifier on Fashion-MNIST: at least 0.91 test accuracy in 10 epochs on 1 replica and on 4.

`make prove NAME=classifier` runs it, by the stages as a user runs them: too long for the tests. docs/verification.md
has the results.
"""

import json
import shutil
import sys
import time
from pathlib import Path

from tests.proofs.stages import arguments, make_dataset, stage

EPOCHS = 10
REPLICAS = (1, 4)
LEAST = 0.91


def accuracy_on(replicas: int, dataset: Path, embedding: Path) -> float:
    """Train anew on so many virtual CPU devices and return the share of test images classified correctly."""
    shutil.rmtree(embedding, ignore_errors=True)
    stage(
        "embed",
        dataset=dataset,
        embedding=embedding,
        classifier_epochs=EPOCHS,
        accelerator="cpu",
        replicas=replicas,
    )
    return float(json.loads((embedding / "embedding.json").read_text())["test_accuracy"])


def main() -> int:
    """Train on each number of replicas and print a table; 1 if an accuracy is too low, else 0."""
    options = arguments(__doc__, "build/proofs")
    dataset = make_dataset(options)
    rows = []
    for replicas in REPLICAS:
        started = time.monotonic()
        accuracy = accuracy_on(replicas, dataset, options.root / f"embedding-{replicas}")
        rows.append((replicas, accuracy, time.monotonic() - started))
    print(f"replicas  accuracy after {EPOCHS} epochs  seconds")
    for replicas, accuracy, seconds in rows:
        print(f"{replicas:8}  {accuracy:24.4f}  {seconds:7.0f}")
    return 1 if min(accuracy for _, accuracy, _ in rows) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
