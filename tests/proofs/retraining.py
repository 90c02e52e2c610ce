"""Retraining on Fashion-MNIST, as a schedule would start it: more data, nothing new, worse data.

`make prove NAME=retraining` runs it, by `wgan run` as a user runs it: too long for the tests.
docs/verification.md keeps what it showed.
The test images are the same throughout, some of the official ones; what is new is new among those to train on.
"""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from components.core.sources import source_listing
from components.preprocess import download
from tests.inputs.sources import idx
from tests.proofs.stages import arguments
from tests.system import whole_runs

FIRST, MORE, TEST = 3_000, 12_000, 1_500
# Each run trains for 40 seconds or so; the test is who wins, not how good a model of so few updates is.
SETTINGS = {
    "steps": 1200,
    "classifier_epochs": 3,
    "start_from": "champion",
    "distance_limit": 1000,
    "recall_limit": 0,
    "coverage_limit": 0,
    "class_ratio_limit": 0,
    "class_coverage_limit": 0,
    "class_distance_limit": 1,
    "uncertified": "judge",
}
EXPECTED = [
    ("SUCCEEDED", "PROMOTE", 1),
    ("SUCCEEDED", "PROMOTE", 2),
    ("SKIPPED", None, None),
    ("SUCCEEDED", "REJECT", None),
]


def read_split(official: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the official images of a split, `train` or `t10k`, uint8 [n, 28, 28], and their labels, uint8 [n]."""
    images = gzip.decompress((official / f"{split}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((official / f"{split}-labels-idx1-ubyte.gz").read_bytes())[8:]
    return np.frombuffer(images, np.uint8).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8)


def fill(folder: Path, split: str, images: np.ndarray, labels: np.ndarray) -> None:
    """Make these the images of a split, `train` or `t10k`: uint8 [n, 28, 28], and [n]."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
        (folder / f"{split}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values), compresslevel=1, mtime=0))


def run(source: Path, root: Path, number: int) -> dict[str, Any]:
    """Run the pipeline and return its final record."""
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "pipeline", "run", f"--source={source}", f"--root={root}", *flags]
    subprocess.run(command, check=True)
    return whole_runs.record_of(root, number)


def main() -> int:
    """Run the four and print a table; 1 if one ended otherwise than it should, else 0."""
    options = arguments(__doc__, "build/proofs/retraining")
    source, root = options.root / "source", options.root / "runs"
    official = Path(options.source)
    if options.source == source_listing.FASHION_MNIST:
        official = download.fashion_mnist(Path("build/proofs/downloads"))
    shutil.rmtree(options.root, ignore_errors=True)
    images, labels = read_split(official, "train")
    test_images, test_labels = read_split(official, "t10k")
    fill(source, "t10k", test_images[:TEST], test_labels[:TEST])
    # Images that a broken camera might send: the same garments behind noise.
    noise = np.random.default_rng(0).integers(0, 256, (MORE, 28, 28), np.uint8)
    noisy = np.where(noise < 128, noise, images[:MORE])
    weeks = [
        (f"{FIRST:,} images", images[:FIRST]),
        (f"{MORE:,} images", images[:MORE]),
        ("nothing new", None),
        (f"{MORE:,} noisy images", noisy),
    ]
    rows = []
    for number, (change, content) in enumerate(weeks, start=1):
        if content is not None:
            fill(source, "train", content, labels[: len(content)])
        record = run(source, root, number)
        champion = json.loads((root / "registry" / "champion.json").read_text())["version"]
        rows.append((change, record, champion))
    print(f"{'since the last run':22} {'state':10} {'verdict':8} {'champion':>8} {'seconds':>8}  reason")
    for change, record, champion in rows:
        verdict, reason = record["verdict"] or "", record["reason"][:110]
        print(f"{change:22} {record['state']:10} {verdict:8} {champion:8} {record['seconds']:8.1f}  {reason}")
    outcomes = [(record["state"], record["verdict"], record["version"]) for _, record, _ in rows]
    return 0 if outcomes == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main())
