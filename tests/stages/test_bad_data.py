"""Bad input, as in docs/sources-and-datasets.md: pixels of image files, memory of bombs, whole sources."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.core.artifacts import datasets
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.storage import digests
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.faults.damage.image_cases import CASES, NOISE, blank_png, chunk, png, saved
from tests.inputs import color_profiles

_MEMORY = """
import pathlib, re, sys
from components.core.data import pixels
from components.core.artifacts.datasets import ImageShape
for path in sys.argv[1:]:
    content = pathlib.Path(path).read_bytes()
    try:
        pixels.from_file(content, ImageShape(64, 64, 3), "fill")
        pixels.from_file(content, ImageShape(64, 64, 4), "fill", ("mean", 0))
        verdict = "used"
    except pixels.UndecodableImage as error:
        verdict = str(error)
    most = re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text()).group(1)
    print(int(most) >> 10, pathlib.Path(path).name, verdict)
"""


@pytest.mark.slow
def test_no_image_file_takes_512_mebibytes_to_decode(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    largest = {
        "cmyk": saved(Image.new("CMYK", (7000, 7000)), "JPEG", progressive=True, subsampling=0, exif=turned),
        "gray16": blank_png(5000, 0, 16),
        "alpha16": blank_png(5000, 6, 16, chunk(b"eXIf", turned.tobytes()[6:])),
        "palette": blank_png(5000, 3, 8, chunk(b"PLTE", bytes(768)), chunk(b"tRNS", bytes(256))),
        "webp": saved(
            Image.effect_noise((5000, 5000), 4).convert("RGBA"),
            "WEBP",
            lossless=True,
            method=0,
            exif=turned,
            icc_profile=color_profiles.profile(color_profiles.DISPLAY_P3),
        ),
    }
    names = [name for name in CASES if "300 MB" in name or " of " in name]
    names.remove("WebP of 16383x16383")  # refused by the limit of the decoder's process
    bombs = {name: CASES[name].make() for name in names}
    assert len(bombs) == 9
    for name, content in {**bombs, **largest}.items():
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in (*bombs, *largest)]
    done = subprocess.run([sys.executable, "-c", _MEMORY, *paths], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    used = [line.rsplit(" ", 1)[1] == "used" for line in lines]
    assert used == ["300 MB" in name for name in bombs] + [True] * len(largest)
    most = [int(line.split()[0]) for line in lines]
    assert most[len(bombs) - 1] < 200  # MiB: only headers are read, and 64 MiB of a file
    assert 200 < most[-1] < 512


# Whole sources.


def run(source: Path, dataset: Path, **settings: Any) -> datasets.Manifest:
    options = {"height": 6, "width": 6, **settings}
    made = preprocess.run(PreprocessConfig(source=str(source), dataset=str(dataset), **options))
    return datasets.Manifest.of(str(made.parameters["dataset_uri"]))


def write(path: Path, seed: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = png(np.random.default_rng(seed).integers(0, 256, (6, 6, 3), np.uint8), 2)
    path.write_bytes(content)
    return content


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for number in range(40):
        write(tmp_path / "pets" / f"{number}.png", 400 + number)
    return tmp_path / "pets"


def test_the_whole_quarantine_is_listed_and_belongs_to_the_digest(
    pets: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {f"bad-{number:03}.png": b"no image %d" % number for number in range(110)}
    for name, content in bad.items():
        (pets / name).write_bytes(content)
    manifest = run(pets, tmp_path / "dataset", bad_images_limit=0.8)
    (dataset,) = (tmp_path / "dataset").iterdir()
    listed = dataset / preprocess.QUARANTINE
    assert f"{listed.name} in {listed.parent} lists all" in caplog.text
    entries = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [entry["name"] for entry in entries] == sorted(bad)
    assert all(entry["sha256"] == digests.sha256_of_file(pets / entry["name"]) for entry in entries)
    assert "b'no image'" in entries[7]["reason"]
    assert manifest.quarantine["count"] == 110
    assert manifest.quarantine["entries"] == entries[:100]
    about = {"file": listed.name, "bytes": listed.stat().st_size, "sha256": digests.sha256_of_file(listed)}
    assert manifest.quarantine["list"] == about
    assert run(pets, tmp_path / "dataset", bad_images_limit=0.8) == manifest  # complete
    for damaged in (listed, dataset / "test-00000-of-00001.tfrecord"):
        whole = damaged.read_bytes()
        os.truncate(damaged, 100)
        assert run(pets, tmp_path / "dataset", bad_images_limit=0.8) == manifest  # made again
        assert damaged.read_bytes() == whole
    with pytest.raises(DataError, match=r"(?s)110 of 150 .* 0\.7 .*bad-000\.png"):
        run(pets, tmp_path / "dataset", bad_images_limit=0.7)
    assert [*(tmp_path / "dataset").iterdir()] == [dataset]


def test_however_many_images_there_are_no_more_than_so_many_are_quarantined(
    pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preprocess, "MOST_QUARANTINED", 2)
    for number in range(2):
        (pets / f"bad-{number}.png").write_bytes(b"")
    assert run(pets, tmp_path / "dataset", bad_images_limit=0.5).quarantine["count"] == 2
    (pets / "bad-3.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"3 of 43 .* 2 "):
        run(pets, tmp_path / "other", bad_images_limit=0.5)
    assert not [*(tmp_path / "other").iterdir()]


def test_images_of_the_same_pixels_and_contradicting_labels_are_counted_and_stay_in_one_split(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "pets"
    for number in range(60):
        write(source / "ab"[number % 2] / f"{number}.png", number)
    assert run(source, tmp_path / "clean").source.items() >= {"duplicates": 0, "contradictions": 0}.items()
    for number, copy in ((0, "a/copy-0.png"), (0, "a/copy-1.png"), (0, "a/copy-2.png"), (2, "b/contradiction.png")):
        Image.open(source / "a" / f"{number}.png").save(source / copy)  # other bytes
    write(source / "a" / "copy-2.png", 0)
    manifest = run(source, tmp_path / "dataset")
    assert manifest.source.items() >= {"images": 64, "duplicates": 4, "contradictions": 1}.items()
    assert sum(split.records for split in manifest.splits.values()) == 64
    assert manifest.source["leaks"]["exact"] == 0
    assert any(digests.sha256_of_file(source / name) in caplog.text for name in ("a/2.png", "b/contradiction.png"))


def test_one_image_and_classes_without_images(pets: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "one" / "x.png", 0)
    with pytest.raises(DataError, match=r"\d train, \d validation, \d test"):
        run(tmp_path / "one", tmp_path / "dataset")
    (tmp_path / "two" / "b").mkdir(parents=True)
    (tmp_path / "two" / "b" / "x.png").write_bytes(b"")
    pets.rename(tmp_path / "two" / "a")
    with pytest.raises(DataError, match=r"such as b \(0 train, 0 validation, 0 test"):
        run(tmp_path / "two", tmp_path / "dataset", bad_images_limit=0.5)
    source = tmp_path / "three"
    for number in range(40):
        write(source / "train" / "ab"[number % 2] / f"{number}.png", number)
        write(source / "test" / "abc"[number % 3] / f"{number}.png", 100 + number)
    (source / "train" / "c" / "below").mkdir(parents=True)
    with pytest.raises(DataError, match=r"1 of 3 classes, such as c \(0 train, 0 validation, 13 test"):
        run(source, tmp_path / "dataset")
    assert "train/c" in caplog.text
    assert not [*(tmp_path / "dataset").iterdir()]


def test_a_file_too_large_is_quarantined_and_never_read(pets: Path, tmp_path: Path) -> None:
    huge = pets / "huge.png"
    huge.write_bytes(png(NOISE, 2))
    os.truncate(huge, 40 << 30)  # sparse: it takes no space
    counters = Path("/proc/self/io")  # the first line counts the bytes read, by any system call
    before = int(counters.read_text().split()[1])
    fingerprint = source_listing.contents(str(pets)).fingerprint
    manifest = run(pets, tmp_path / "dataset", bad_images_limit=0.5)
    assert int(counters.read_text().split()[1]) - before < pixels.LARGEST_FILE
    (entry,) = manifest.quarantine["entries"]
    assert (entry["name"], entry["sha256"]) == ("huge.png", "")
    assert manifest.source["fingerprint"] == fingerprint

    index = str(tmp_path / "index")
    assert [source_listing.contents(str(pets), index).fingerprint for _ in range(2)] == [fingerprint] * 2
    modified = huge.stat().st_mtime_ns
    later = {fingerprint}
    for size, time in ((40 << 30, modified + 1), ((40 << 30) + 1, modified + 1)):
        os.truncate(huge, size)
        os.utime(huge, ns=(modified, time))
        later.add(source_listing.contents(str(pets), index).fingerprint)
    assert len(later) == 3
    os.truncate(huge, 40 << 30)
    os.utime(huge, ns=(modified, modified))
    assert source_listing.contents(str(pets), index).fingerprint == fingerprint


def test_the_largest_file_that_is_read_and_the_smallest_that_is_not(pets: Path, tmp_path: Path) -> None:
    for name, size in (("read.png", pixels.LARGEST_FILE), ("unread.png", pixels.LARGEST_FILE + 1)):
        (pets / name).write_bytes(b"")
        os.truncate(pets / name, size)
    entries = run(pets, tmp_path / "dataset", bad_images_limit=0.5).quarantine["entries"]
    names_and_digests = [(entry["name"], entry["sha256"]) for entry in entries]
    assert names_and_digests == [("read.png", digests.sha256_of_file(pets / "read.png")), ("unread.png", "")]
