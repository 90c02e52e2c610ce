"""The classifier on Fashion-MNIST: at least 0.91 test accuracy in 10 epochs on 1 replica and on 4.

`make prove-classifier` runs it, by the stages as a user runs them: too long for the tests. docs/proofs.md keeps what it
showed.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

EPOCHS = 10
REPLICAS = (1, 4)
LEAST = 0.91


def stage(name: str, **settings: object) -> None:
    """Runs a stage as a process; raises CalledProcessError if it fails."""
    flags = [f"--{setting}={value}" for setting, value in settings.items()]
    subprocess.run([sys.executable, "-m", f"components.{name}", *flags], check=True)


def accuracy_on(replicas: int, dataset: Path, embedding: Path) -> float:
    """Trains anew on so many virtual CPU devices and returns the share of test images classified correctly."""
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
    """Trains on each number of replicas and prints a table; 1 if an accuracy is too low, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default="fashion-mnist", help="folder of the official files; downloads by default")
    parser.add_argument("--root", type=Path, default=Path("build/proofs"), help="folder for all that is made")
    given = parser.parse_args()
    dataset = given.root / "fashion-mnist"
    stage("preprocess", source=given.source, dataset=dataset, downloads=given.root / "downloads")
    rows = []
    for replicas in REPLICAS:
        started = time.monotonic()
        accuracy = accuracy_on(replicas, dataset, given.root / f"embedding-{replicas}")
        rows.append((replicas, accuracy, time.monotonic() - started))
    print(f"replicas  accuracy after {EPOCHS} epochs  seconds")
    for replicas, accuracy, seconds in rows:
        print(f"{replicas:8}  {accuracy:24.4f}  {seconds:7.0f}")
    return 1 if min(accuracy for _, accuracy, _ in rows) < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
