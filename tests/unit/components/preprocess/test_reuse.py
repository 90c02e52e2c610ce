"""Reusing earlier datasets: the dataset equals one made from scratch, to the byte."""

import itertools
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import files, source_listing
from components.core.sources.files import SourceFile
from components.core.storage import buckets, digests
from components.core.storage.location import Location
from components.preprocess import reuse
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from components.preprocess.decode import pool
from components.preprocess.formats.survey import ImagesPart
from tests.fakes.gcs.server import Server
from tests.inputs.sources import make_rows, picture, plan

pytestmark = pytest.mark.slow

SHAPE = ImageShape(8, 8, 3)
COLORS: pixels.Colors = ("white", 0)
SIZE = {"height": 8, "width": 8}


def write(folder: Path, numbers: range | list[int]) -> None:
    for number in numbers:
        path = folder / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(number))


def run(source: Path | str, dataset: Path | str, **settings: Any) -> dict[str, Any]:
    options = {**SIZE, "bad_images_limit": 1.0, "images_per_shard": 20, **settings}
    return preprocess.run(PreprocessConfig(source=str(source), dataset=str(dataset), **options)).parameters


def content(folder: Path | str) -> dict[str, str]:
    paths = [path for path in Path(folder).iterdir() if path.name != datasets.MANIFEST]
    files = {path.name: digests.sha256_of_file(path) for path in paths}
    return {**files, "digest": datasets.Manifest.of(str(folder)).digest}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the pictures 0 to 59 in its folder `pets`, and their dataset, `datasets/first`."""
    folder = tmp_path_factory.mktemp("first")
    write(folder / "pets", range(60))
    Path(run(folder / "pets", folder / "datasets")["dataset_uri"]).rename(folder / "datasets" / "first")
    return folder


@pytest.fixture
def kept(first: Path, tmp_path: Path) -> Path:
    """A folder of datasets, a copy of the first one in it, beside a copy of its pictures, `pets`."""
    shutil.copytree(first / "pets", tmp_path / "pets")
    shutil.copytree(first / "datasets", tmp_path / "datasets")
    return tmp_path / "datasets"


def change(source: Path, chance: random.Random) -> None:
    files = sorted(source.rglob("*.png"))
    for path in chance.sample(files, min(12, len(files) // 2)):
        action = chance.choice(["remove", "rename", "label", "double", "replace", "damage"])
        if action == "remove":
            path.unlink()
        elif action == "rename":
            path.rename(path.with_name(f"renamed-{path.name}"))
        elif action == "label":
            other = source / chance.choice("abcd")
            other.mkdir(exist_ok=True)
            path.rename(other / path.name)
        elif action == "double":
            other = source / chance.choice("abcd")
            other.mkdir(exist_ok=True)
            shutil.copyfile(path, other / f"double-{path.name}")
        else:
            path.write_bytes(picture(chance.randrange(1000)) if action == "replace" else b"no image")
    saved_again = [int(path.stem) + 10_000 for path in files if path.stem.isdigit() and int(path.stem) % 7 != 6]
    write(source, [chance.randrange(1000) for _ in range(chance.randrange(12))] + saved_again[:4])
    for number in range(10):  # a class of fewer images may have none to train on, and be refused
        (source / "d").mkdir(exist_ok=True)
        (source / "d" / f"new-{number}.png").write_bytes(picture(1000 + number))


@pytest.mark.parametrize("seed", [4, 5])
def test_any_change_gives_the_dataset_made_from_scratch(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    source, index, earlier = tmp_path / "pets", tmp_path / "index", tmp_path / "datasets"
    write(source, range(50))
    seen: set[bytes] = set()
    for generation in range(4):
        settings = {
            "images_per_shard": (20, 20, 9, 100)[generation],
            "test_fraction": (0.1, 0.1, 0.3, 0.1)[generation],
            "beam_options": ("", "", "--direct_num_workers=2 --direct_running_mode=multi_threading", "")[generation],
            "seed": (0, 0, 0, 5)[generation],
        }
        index_setting: dict[str, str] = {"source_index": str(index)} if generation % 2 else {}
        outputs = run(source, earlier, previous_datasets=str(earlier), **index_setting, **settings)
        scratch = run(source, tmp_path / "scratch", **settings)["dataset_uri"]
        assert content(outputs["dataset_uri"]) == content(scratch)
        reusable = [path for path in source.rglob("*.png") if path.read_bytes() in seen]
        manifest = datasets.Manifest.of(outputs["dataset_uri"], outputs["dataset_digest"])
        assert manifest.quarantine == datasets.Manifest.of(scratch).quarantine
        assert manifest.made_with.get("reused", {}).get("images", 0) == len(reusable)
        assert (f"{len(reusable)} reused" in outputs["summary"]) == bool(reusable)
        assert bool(reusable) == bool(generation)
        seen |= {image for path in source.rglob("*.png") if b"no image" not in (image := path.read_bytes())}
        change(source, chance)


def test_what_is_known_is_not_read_and_what_was_decoded_is_not_decoded(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, decoded = [], []
    open_file, decode_all = files.open_file, pool.decode_all

    def noting_open(file: files.SourceFile, buffering: int) -> BinaryIO:
        opened.append(Path(file.location).name)
        return open_file(file, buffering=buffering)

    def noting_decode(batches: Iterable[tuple[Any, list[bytes]]], *words: Any) -> Any:
        for tag, contents in batches:
            decoded.extend(contents)
            yield from decode_all([(tag, contents)], *words)

    source, index = tmp_path / "pets", str(tmp_path / "index")
    write(source, [100, 101])
    for path in source.rglob("*.png"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    time.sleep(0.02)  # a tick of the file system's clock
    fingerprint = source_listing.contents(str(source), index).fingerprint
    monkeypatch.setattr(files, "open_file", noting_open)
    monkeypatch.setattr(pool, "decode_all", noting_decode)
    undecodable = {path.name for path in source.rglob("*.png") if b"no image" in path.read_bytes()}
    assert len(undecodable) == 8
    settings = {"source_index": index, "source_fingerprint": fingerprint}
    second = run(source, kept, previous_datasets=str(kept), **settings)["dataset_uri"]
    assert sorted(opened) == sorted({"100.png", "101.png"} | undecodable)
    assert len(decoded) == len(opened)
    opened.clear()
    decoded.clear()
    third = run(source, kept, previous_datasets=str(kept), seed=1)["dataset_uri"]
    assert len(opened) == 62 + len(undecodable)  # hashed; unknown images are read again
    assert len(decoded) == len(undecodable)
    assert datasets.Manifest.of(third).made_with["reused"] == {"images": 54, "datasets": [Path(second).name]}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "cut": lambda path: os.truncate(path, 100),
    "empty": lambda path: os.truncate(path, 0),
    "gone": lambda path: path.unlink(),
    "exchanged": lambda path: shutil.copyfile(path.with_name(f"train-00001-of-00003{path.suffix}"), path),
}


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *itertools.product(["train-00000-of-00003.tfrecord", "train-00000-of-00003.members"], DAMAGE),
        (datasets.MANIFEST, "flipped"),
        (datasets.MANIFEST, "cut"),
    ],
)
def test_damage_is_reported_and_changes_nothing(
    kept: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: str
) -> None:
    expected = content(kept / "first")
    DAMAGE[damage](kept / "first" / name)
    outputs = run(tmp_path / "pets", kept, previous_datasets=str(kept))
    assert content(outputs["dataset_uri"]) == expected
    assert ("reused" in outputs["summary"]) == (name != datasets.MANIFEST)
    warnings = [record.getMessage() for record in caplog.records if record.name.endswith((".reuse", ".run"))]
    assert any(str((kept / "first" / name).with_suffix("")) in line for line in warnings), warnings
    assert not [line for line in warnings if "\n" in line]


def test_datasets_that_have_nothing_to_offer(
    kept: Path, tmp_path: Path, idx_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (kept / "first").rename(kept / ".tmp-first")
    run(idx_folder, kept, height=0, width=0, previous_datasets=str(kept))
    assert not list(kept.glob("[!.]*/*.members"))
    larger = run(tmp_path / "pets", kept, height=9, width=9)["dataset_uri"]
    with caplog.at_level(logging.INFO):
        second = run(tmp_path / "pets", kept, previous_datasets=str(kept))["dataset_uri"]
        third = run(tmp_path / "pets", tmp_path / "third", previous_datasets=str(tmp_path / "nowhere"))["dataset_uri"]
    assert caplog.text.count("skipped /") == 1
    assert f"skipped {larger}: " in caplog.text
    assert caplog.text.count("60 images: 60 new, 0 reused\n") == 2
    assert content(second) == content(kept / ".tmp-first") == content(third)


def test_sources_and_datasets_in_a_bucket(
    kept: Path, tmp_path: Path, bucket: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """On another machine each time; the dataset equals that of a folder."""
    write(tmp_path / "pets", range(60, 66))
    for path in (tmp_path / "pets").rglob("*.png"):
        buckets.create(f"gs://b/pets/{path.relative_to(tmp_path / 'pets').as_posix()}", path)
    scratch = run(tmp_path / "pets", tmp_path / "from scratch")
    first = run(kept.parent / "pets", "gs://b/datasets")
    assert first["dataset_digest"] == scratch["dataset_digest"]
    caplog.set_level(logging.INFO)
    for source in (tmp_path / "pets", "gs://b/pets"):
        shutil.rmtree(Location.of("gs://b").path)
        outputs = run(source, "gs://b/datasets", previous_datasets="gs://b/datasets", seed=1)
        assert f"66 images: 9 new, 57 reused from {Path(first['dataset_uri']).name}" in caplog.text
        caplog.clear()
        again = content(run(source, tmp_path / "again", seed=1)["dataset_uri"])
        assert outputs["dataset_digest"] == again["digest"]
        assert content(Location.of(outputs["dataset_uri"]).require(datasets.MANIFEST, "dataset").path) == again
        Location.of(outputs["dataset_uri"]).remove()
        shutil.rmtree(tmp_path / "again")


def test_a_file_that_changed_since_it_was_fingerprinted(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(picture(0))
    file = SourceFile("a/0.png", str(tmp_path / "0.png"), len(picture(0)), checksum="0" * 64)
    with pytest.raises(DataError, match=r"^a/0\.png changed since"):
        make_rows([ImagesPart(((file, "train", 0),))], plan(stored=None, image=SHAPE), tmp_path)


def test_decoding_is_of_all_that_decides_pixels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import PIL

    usual = reuse.decoding(SHAPE, "fill", COLORS)
    assert usual == reuse.decoding(SHAPE, "fill", COLORS)
    assert len(usual) == 32
    others = {reuse.decoding(SHAPE, "fit", COLORS), reuse.decoding(ImageShape(8, 9, 3), "fill", COLORS)}
    others |= {reuse.decoding(SHAPE, "fill", colors) for colors in (("black", 0), ("white", 1))}
    monkeypatch.setattr(PIL, "__version__", "1.2.3")
    others.add(reuse.decoding(SHAPE, "fill", COLORS))
    changed = tmp_path / "pixels.py"
    changed.write_text(Path(pixels.__file__).read_text() + "\n")
    monkeypatch.setattr(pixels, "__file__", str(changed))
    others.add(reuse.decoding(SHAPE, "fill", COLORS))
    assert len(others - {usual}) == 6
