"""From which strength on the verdict notices each kind of garbage, by the number of test images.

Garbage is made of images that no network was trained on and that are no test images, or of training images. It is
judged by the functions of the evaluate stage, as in the proof `small_data`. `garbage/results.jsonl` under the root
keeps every verdict. Those that are in it are not made again.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import tables
from components.core.artifacts.evaluations import HOLD, PROMOTE, REJECT
from components.core.metrics import feature_spaces
from components.evaluate.scoring.scores import Reference
from tests.proofs import small_data, stages
from tests.proofs.garbage_kinds import changes
from tests.proofs.garbage_kinds.kinds import KINDS, Kind
from tests.proofs.garbage_kinds.sets import Pictures, everywhere

COUNTS = (200, 1000, 2000, 5000, 10_000)  # test images
DRAWS = 1  # of test images, for each strength and number
SEED = 1
REAL = Kind("other real images", everywhere(changes.same), (0,))  # must be promoted

Row = dict[str, Any]
Cell = tuple[int, int]  # number of test images, and draw


def split(dataset: Path) -> tuple[Pictures, np.ndarray, np.ndarray]:
    """Return what garbage is made of, and other images that no network was trained on, to test with, and labels."""
    train, train_labels = (array[: small_data.SAMPLES] for array in stages.load_split(dataset, "train"))
    parts = [stages.load_split(dataset, name) for name in ("validation", "test")]
    unseen, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.random.default_rng(SEED).permutation(len(unseen))
    test, rest = np.split(order, [min(max(COUNTS), len(unseen) // 2)])
    count = min(small_data.SAMPLES, len(rest))
    return Pictures(unseen[rest], labels[rest], train, train_labels, count), unseen[test], labels[test]


def references(
    embedding: feature_spaces.FeatureSpaces,
    pictures: Pictures,
    test: np.ndarray,
    labels: np.ndarray,
    cells: Iterable[Cell],
) -> dict[Cell, Reference]:
    """Return what to measure by: for each cell new test images, as many training images, and noise."""
    noise = np.random.default_rng(SEED).integers(0, 256, test.shape, np.uint8)
    train, real, noisy = (small_data.see(embedding, images, "images") for images in (pictures.train, test, noise))
    measured = {}
    for count, draw in cells:
        random = np.random.default_rng([SEED, count, draw])
        drawn, rows = (random.permutation(len(seen))[:count] for seen in (train, real))
        sets = train, drawn, small_data.rows_of(real, rows), small_data.rows_of(noisy, np.arange(count))
        asked = labels[rows] if pictures.classes > 1 else None
        measured[count, draw] = small_data.make_reference(embedding, *sets, draw, asked)
    return measured


def run(
    root: Path,
    embedding: feature_spaces.FeatureSpaces,
    pictures: Pictures,
    test: np.ndarray,
    labels: np.ndarray,
    kinds: Sequence[Kind],
    counts: Sequence[int],
) -> None:
    """Judge what is not in the results yet."""
    finished = {(row["kind"], row["strength"], row["images"], row["draw"]) for row in small_data.read_results(root)}
    cells = [(count, draw) for count in counts for draw in range(DRAWS)]
    missing = {
        (kind, strength): wanted
        for kind in kinds
        for strength in kind.strengths
        if (wanted := [cell for cell in cells if (kind.name, strength, *cell) not in finished])
    }
    measured = references(embedding, pictures, test, labels, cells) if missing else {}
    for (kind, strength), wanted in missing.items():
        images, requested = kind.planted(pictures, strength, SEED)
        planted = small_data.see(embedding, images, kind.name)
        for count, draw in wanted:
            order = np.random.default_rng([SEED, count, draw]).permutation(len(requested))
            asked = requested[order] if pictures.classes > 1 else None
            verdict = small_data.verdict_on(measured[count, draw], small_data.rows_of(planted, order), asked)
            row = {"kind": kind.name, "strength": strength, "images": count, "draw": draw, "verdict": verdict.verdict}
            with (root / "results.jsonl").open("a") as file:
                print(json.dumps({**row, "broken": small_data.broken_rules(verdict)}), file=file)
        print(f"{kind.name} {strength:g}", file=sys.stderr, flush=True)


def weakest(kind: Kind, rows: Sequence[Row], noticed: Sequence[str]) -> str:
    """Return the weakest strength from which on all verdicts are among `noticed`; `never` if there is none."""
    weakest_noticed = "never"
    for strength in reversed(kind.strengths):
        if not all(row["verdict"] in noticed for row in rows if row["strength"] == strength):
            break
        weakest_noticed = f"{strength:g}"
    return weakest_noticed


def violations(rows: Sequence[Row], kinds: Sequence[Kind], counts: Sequence[int]) -> list[str]:
    """Print the strengths from which on garbage is noticed; return where it is promoted, or real images are not."""
    table, wrong = [], []
    for kind in kinds:
        cells = []
        for count in counts:
            of_cell = [row for row in rows if row["kind"] == kind.name and row["images"] == count]
            cells.append(" / ".join(weakest(kind, of_cell, noticed) for noticed in ([REJECT], [HOLD, REJECT])))
            for strength in kind.strengths if count >= small_data.CERTIFIED else ():
                verdicts = [row["verdict"] for row in of_cell if row["strength"] == strength]
                promoted = verdicts.count(PROMOTE)
                if promoted < len(verdicts) if kind is REAL else promoted and strength in kind.required:
                    at = f"{kind.name}, {strength:g}"
                    wrong.append(f"{at}: promoted {promoted} of {len(verdicts)} times with {count:,} test images")
        table.append([kind.name, ", ".join(f"{strength:g}" for strength in kind.strengths), *cells])
    columns = ["garbage", "strengths", *(f"{count:,} test images" for count in counts)]
    tables.show("The weakest that is always REJECT / never PROMOTE", columns, table)
    return wrong


def prove(options: argparse.Namespace) -> list[str]:
    root = options.root / "garbage"
    dataset = stages.make_dataset(options, root, validation_fraction=small_data.UNSEEN)
    embedding = feature_spaces.load(stages.make_embedding(root, dataset))
    pictures, test, labels = split(dataset)
    kinds = [REAL, *(kind for kind in KINDS if kind.fits(pictures))]
    counts = [count for count in COUNTS if count <= min(len(test), len(pictures.train))]
    run(root, embedding, pictures, test, labels, kinds, counts)
    return violations(small_data.read_results(root), kinds, counts)
