"""Retraining on Fashion-MNIST, as a schedule would start it: more data, nothing new, worse data.

`make prove-retraining` runs it, by `wgan run` as a user runs it: too long for the tests. docs/proofs.md keeps what it
showed. The test images are the official ones throughout; what is new is new among the training images.
"""

import gzip
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from components import sources
from components.preprocess import download
from tests.proofs.stages import arguments

FIRST, MORE = 10_000, 30_000
# Each run trains for 40 seconds or so; what is tested is who wins, not how good a model of so few updates is.
SETTINGS = {
    "steps": 1200,
    "classifier_epochs": 3,
    "start_from": "champion",
    "distance_ratio_limit": 1000,
    "recall_limit": 0,
    "coverage_limit": 0,
    "class_ratio_limit": 0,
    "class_coverage_limit": 0,
}
EXPECTED = [
    ("SUCCEEDED", "PROMOTE", 1),
    ("SUCCEEDED", "PROMOTE", 2),
    ("SKIPPED", None, None),
    ("SUCCEEDED", "REJECT", None),
]


def read_idx(path: Path, header: int) -> bytes:
    """The values of a gzipped IDX file, whose header has so many bytes."""
    return gzip.decompress(path.read_bytes())[header:]


def fill(folder: Path, official: Path, images: np.ndarray, labels: np.ndarray) -> None:
    """Makes a source of these training images, uint8 [n, 28, 28], with the official test images."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"):
        shutil.copyfile(official / name, folder / name)
    count = len(images)
    held = {
        "train-images-idx3-ubyte.gz": struct.pack(">4I", 2051, count, 28, 28) + images.tobytes(),
        "train-labels-idx1-ubyte.gz": struct.pack(">2I", 2049, count) + labels.tobytes(),
    }
    for name, content in held.items():
        (folder / name).write_bytes(gzip.compress(content, compresslevel=1, mtime=0))


def run(source: Path, root: Path, number: int) -> dict[str, Any]:
    """Runs the pipeline and returns its final record."""
    flags = [f"--{name}={value}" for name, value in SETTINGS.items()]
    command = [sys.executable, "-m", "pipeline", "run", f"--source={source}", f"--root={root}", *flags]
    subprocess.run(command, check=True)
    record: dict[str, Any] = json.loads((root / "records" / f"wgan-gp-{number:04d}" / "record.json").read_text())
    return record


def main() -> int:
    """Runs the four and prints a table; 1 if one ended otherwise than it should, else 0."""
    given = arguments(__doc__, "build/proofs/retraining")
    source, root = given.root / "source", given.root / "runs"
    official = Path(given.source)
    if given.source == sources.FASHION_MNIST:
        official = download.fashion_mnist(given.root / "downloads")
    shutil.rmtree(root, ignore_errors=True)
    images = np.frombuffer(read_idx(official / "train-images-idx3-ubyte.gz", 16), np.uint8).reshape(-1, 28, 28)
    labels = np.frombuffer(read_idx(official / "train-labels-idx1-ubyte.gz", 8), np.uint8)
    # What a camera out of order might send: the same garments behind noise.
    noise = np.random.default_rng(0).integers(0, 256, (MORE, 28, 28), np.uint8)
    noisy = np.where(noise < 128, noise, images[:MORE])
    weeks = [
        (f"{FIRST:,} images", images[:FIRST]),
        (f"{MORE:,} images", images[:MORE]),
        ("nothing new", None),
        (f"{MORE:,} noisy images", noisy),
    ]
    rows = []
    for number, (what, content) in enumerate(weeks, start=1):
        if content is not None:
            fill(source, official, content, labels[: len(content)])
        record = run(source, root, number)
        champion = json.loads((root / "registry" / "champion.json").read_text())["version"]
        rows.append((what, record, champion))
    print(f"{'since the last run':22} {'state':10} {'verdict':8} {'champion':>8} {'seconds':>8}  reason")
    for what, record, champion in rows:
        verdict, reason = record["verdict"] or "", record["reason"][:110]
        print(f"{what:22} {record['state']:10} {verdict:8} {champion:8} {record['seconds']:8.1f}  {reason}")
    found = [(record["state"], record["verdict"], record["version"]) for _, record, _ in rows]
    return 0 if found == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(main())
