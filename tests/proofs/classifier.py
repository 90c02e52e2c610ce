"""The classifier on Fashion-MNIST: at least 0.91 test accuracy in 10 epochs on 1 replica and on 4."""

import argparse
import json
import shutil
import time

from benchmarks.lib import tables
from tests.proofs.stages import make_dataset, stage

EPOCHS, REPLICAS, LEAST = 10, (1, 4), 0.91


def prove(options: argparse.Namespace) -> list[str]:
    dataset = make_dataset(options, options.root)
    rows, wrong = [], []
    for replicas in REPLICAS:
        embedding, started = options.root / f"embedding-{replicas}", time.monotonic()
        shutil.rmtree(embedding, ignore_errors=True)
        locations = {"dataset": dataset, "embedding": embedding}
        stage("embed", classifier_epochs=EPOCHS, accelerator="cpu", replicas=replicas, **locations)
        accuracy = float(json.loads((embedding / "embedding.json").read_text())["test_accuracy"])
        rows.append([str(replicas), f"{accuracy:.4f}", f"{time.monotonic() - started:.0f}"])
        if accuracy < LEAST:
            wrong.append(f"accuracy {accuracy:.4f} on {replicas} replicas")
    tables.show("Classifier", ["replicas", f"accuracy after {EPOCHS} epochs", "seconds"], rows)
    return wrong
