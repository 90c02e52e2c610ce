"""Writes sources with the libraries that define their formats, and prints what these read back; runs in .venv-formats.

    .venv-formats/bin/python tests/system/other_writers.py FOLDER

Prints JSON: for each source, named by its path in the folder, the split, sha256 and class of each image, sorted.
"""

import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}

import datasets
import numpy as np
import webdataset
from PIL import Image

CLASSES = ["cat", "dog", "eel"]
COUNTS = {"train": 25, "test": 9}
Records = list[tuple[str, str, str]]


def main(folder: Path) -> None:
    os.environ["HF_HOME"] = str(folder / "cache")
    numbers = datasets.ClassLabel(names=CLASSES)
    writers: dict[str, Callable[[Path], Records]] = {
        "named.parquet": partial(written_as_parquet, label_type=numbers, label_of=lambda number: number % 3),
        "text.parquet": partial(written_as_parquet, label_type=datasets.Value("string"), label_of=class_of),
        "shards.parquet": partial(written_as_parquet, label_type=None, label_of=class_of),
        "webdataset": partial(written_as_tar, ending="cls", label_of=lambda number: number % 3),
        "webdataset-json": partial(
            written_as_tar, ending="json", label_of=lambda number: {"label": class_of(number), "width": 4}
        ),
        "jsonl": image_folder,
    }
    sources = {}
    for name, write in writers.items():
        (folder / name).mkdir()
        sources[name] = sorted(write(folder / name))
    print(json.dumps(sources))


def class_of(number: int) -> str:
    return CLASSES[number % 3]


def images(split: str) -> Iterator[tuple[int, bytes]]:
    generator = np.random.default_rng(COUNTS[split])
    for number in range(COUNTS[split]):
        file = io.BytesIO()
        Image.fromarray(generator.integers(0, 256, (5, 4, 3), np.uint8)).save(file, "PNG")
        yield number, file.getvalue()


def written_as_parquet(location: Path, label_type: Any, label_of: Callable[[int], Any]) -> Records:
    """Write a file for each split, without labels if `label_type` is None, and read it by `datasets`."""
    features = datasets.Features({"image": datasets.Image(), "caption": datasets.Value("string")})
    if label_type is not None:
        features["label"] = label_type
    records = []
    for split in COUNTS:
        rows = []
        for number, content in images(split):
            row = {"image": {"bytes": content, "path": f"{number}.png"}, "caption": "a caption"}
            rows.append(row if label_type is None else {**row, "label": label_of(number)})
        path = location / "data" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(exist_ok=True)
        datasets.Dataset.from_list(rows, features=features).to_parquet(str(path))
        again = datasets.Dataset.from_parquet(str(path), cache_dir=str(location / ".cache"))
        for row in again.cast_column("image", datasets.Image(decode=False)):
            label = "" if label_type is None else row["label"]
            name = again.features["label"].int2str(label) if isinstance(label, int) else label
            records.append((split, _sha256(row["image"]["bytes"]), name))
    return records


def written_as_tar(location: Path, ending: str, label_of: Callable[[int], Any]) -> Records:
    """Write several files for each split, whose samples have the same names, and read them by `webdataset`."""
    records = []
    for split in COUNTS:
        with webdataset.ShardWriter(str(location / f"{split}-%06d.tar"), maxcount=7, verbose=0) as writer:
            for number, content in images(split):
                writer.write({"__key__": f"{number:04}", "png": content, ending: label_of(number), "txt": "words"})
        tars = sorted(map(str, location.glob(f"{split}-*.tar")))
        for sample in webdataset.WebDataset(tars, shardshuffle=False):
            label = json.loads(sample["json"])["label"] if ending == "json" else sample["cls"].decode()
            records.append((split, _sha256(sample["png"]), label))
    return records


def image_folder(location: Path) -> Records:
    """Write images with metadata, and read them by `datasets`."""
    for split in COUNTS:
        (location / split).mkdir()
        rows = []
        for number, content in images(split):
            (location / split / f"{number}.png").write_bytes(content)
            rows.append({"file_name": f"{number}.png", "label": class_of(number)})
        (location / split / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    loaded = datasets.load_dataset("imagefolder", data_dir=str(location), cache_dir=str(location / ".cache"))
    records = []
    for split, rows_read in loaded.cast_column("image", datasets.Image(decode=False)).items():
        for row in rows_read:
            content = row["image"]["bytes"] or Path(row["image"]["path"]).read_bytes()
            records.append((split, _sha256(content), row["label"]))
    return records


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
