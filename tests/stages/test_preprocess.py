"""The whole stage, with real sources, read back by TensorFlow's own reader and compared with NumPy."""

import contextlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from components.core import errors
from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import dataset_reader, pixels
from components.core.errors import DataError
from components.core.stage import cli
from components.decide import run as decide
from components.decide.config import DecideConfig
from components.preprocess import run as preprocess
from components.preprocess.beam import pipeline
from components.preprocess.config import PreprocessConfig
from tests.inputs.sources import framed_example, write_images
from tests.system.runners.conftest import content


def run(source: Path | str, dataset: Path | str, **settings: Any) -> dict[str, Any]:
    return preprocess.run(PreprocessConfig(source=str(source), dataset=str(dataset), **settings)).parameters


def made(source: Path | str, dataset: Path, **settings: Any) -> Path:
    """Run the stage, and return the dataset's folder."""
    return Path(run(source, dataset, **settings)["dataset_uri"])


def load(dataset: Path | str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    manifest = datasets.Manifest.of(str(dataset))
    return {split: dataset_reader.load_split(Path(dataset), manifest, split) for split in datasets.SPLITS}


def rows(images: np.ndarray, labels: np.ndarray) -> list[bytes]:
    return sorted(image.tobytes() + bytes([label]) for image, label in zip(images, labels, strict=True))


def test_idx_files(idx_folder: Path, numbers: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    images, labels = numbers
    result = run(idx_folder, tmp_path / "dataset", images_per_shard=100)
    splits = load(result["dataset_uri"])
    as_labels = np.searchsorted([2, 3, 7], labels)
    assert rows(*splits["test"]) == rows(images[300:], as_labels[300:])
    both = [np.concatenate(parts) for parts in zip(splits["train"], splits["validation"], strict=True)]
    assert rows(*both) == rows(images[:300], as_labels[:300])

    manifest = datasets.Manifest.of(result["dataset_uri"], result["dataset_digest"])
    assert manifest.classes == ["2", "3", "7"]
    assert len(manifest.splits["train"].shards) == 3
    for name, (_, split_labels) in splits.items():
        assert manifest.splits[name].class_counts == np.bincount(split_labels, minlength=3).tolist()
    train, validation = manifest.splits["train"].records, manifest.splits["validation"].records
    assert result["summary"] == (f"{train} train, {validation} validation, 100 test images of 6x5x1 in 3 classes")
    listed = {shard.file for split in manifest.splits.values() for shard in split.shards} | {datasets.MANIFEST}
    assert content(Path(result["dataset_uri"])).keys() == listed


def test_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    oracle = load_digits()
    dataset = made("digits", tmp_path)
    splits = load(dataset)
    images, labels = (np.concatenate([split[part] for split in splits.values()]) for part in (0, 1))
    assert rows(images, labels) == rows(np.rint(oracle.images * 255 / 16 + 1e-9).astype(np.uint8), oracle.target)
    assert datasets.Manifest.of(dataset).classes == [str(digit) for digit in range(10)]


def test_images_without_classes_in_gray(tmp_path: Path) -> None:
    write_images(tmp_path / "flat", 60, ())
    result = run(tmp_path / "flat", tmp_path / "unlabeled", color="gray")
    assert "images of 64x64x1" in result["summary"]
    assert "classes" not in result["summary"]
    for _, labels in load(result["dataset_uri"]).values():
        assert (labels == datasets.NO_LABEL).all()


def shards_and_members(folder: Path) -> dict[str, str]:
    """Return every file of a dataset but its manifest, which has the kind of the source."""
    return {name: sha256 for name, sha256 in content(folder).items() if name != datasets.MANIFEST}


def test_one_set_of_images_in_every_format_makes_the_same_shards(
    idx_folder: Path, numbers: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    images, labels = numbers
    settings: dict[str, Any] = {"images_per_shard": 100, "resize": "pad", "height": 8, "width": 8}
    from_idx = made(idx_folder, tmp_path / "datasets", **settings)
    arrays = {"x_train": images[:300], "y_train": labels[:300], "x_test": images[300:], "y_test": labels[300:]}
    np.savez_compressed(tmp_path / "x.npz", allow_pickle=False, **arrays)
    from_npz = made(tmp_path / "x.npz", tmp_path / "datasets", **settings)
    assert shards_and_members(from_npz) == shards_and_members(from_idx)
    manifest = datasets.Manifest.of(from_npz)
    assert (manifest.source["kind"], manifest.preprocessing["resize"]) == ("npz", "pad")
    assert manifest.classes == ["2", "3", "7"]


def test_one_set_of_image_files_in_every_packing_makes_the_same_shards(tmp_path: Path) -> None:
    source = tmp_path / "pets"
    write_images(source / "train", 60, seed=1)
    write_images(source / "test", 20, seed=2)
    (source / "train" / "cats" / "page.png").write_bytes(b"<html>")
    from_folder = made(source, tmp_path / "datasets", height=8, width=8, bad_images_limit=0.1)
    files = sorted(path for path in source.rglob("*") if path.is_file())
    shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path, "pets")
    shutil.make_archive(str(tmp_path / "b"), "gztar", source)
    (tmp_path / "records").mkdir()
    for split in ("train", "test"):
        within = [path for path in files if path.parts[-3] == split]
        examples = [framed_example(path.read_bytes(), int(path.parent.name == "dogs")) for path in within]
        (tmp_path / "records" / f"{split}.tfrecord").write_bytes(b"".join(examples))
    rows = [f"{path.name},{path.parent.name},{path.parts[-3]}" for path in files]
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in files:
        shutil.copy(path, flat / path.name)
    (flat / "labels.csv").write_text("\n".join(["file,label,split", *rows]))
    for name, kind in (("a.zip", "archives"), ("b.tar.gz", "archives"), ("records", "tfrecord"), ("flat", "images")):
        dataset = made(tmp_path / name, tmp_path / "datasets", height=8, width=8, bad_images_limit=0.1)
        aside = preprocess.QUARANTINE  # names of images differ
        expected = {**shards_and_members(from_folder), aside: content(dataset)[aside]}
        assert shards_and_members(dataset) == expected
        manifest = datasets.Manifest.of(str(dataset))
        assert (manifest.source["kind"], manifest.quarantine["count"]) == (kind, 1)
        assert manifest.classes == (["0", "1"] if name == "records" else ["cats", "dogs"])


@pytest.mark.parametrize("packed", [False, True])
def test_dark_images_of_16_bits_are_noticed_beside_bright_ones_of_8(
    packed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, random = tmp_path / "mixed", np.random.default_rng(0)
    source.mkdir()
    dark, bright = random.integers(0, 4096, (20, 6, 6), np.uint16), random.integers(0, 256, (20, 6, 6), np.uint8)
    if packed:
        np.savez(source / "x.npz", x_train=bright, x_test=dark)
    else:
        for number, image in enumerate([*dark, *bright]):
            Image.fromarray(image).save(source / f"{number}.png")
    made(source, tmp_path / "datasets", height=6, width=6, color="gray")
    assert "the brightest pixel of 16-bit images is 16 of 255" in caplog.text
    caplog.clear()
    made(source, tmp_path / "datasets", height=6, width=6, color="gray", white_level=4095)
    assert "of 255" not in caplog.text


@pytest.mark.parametrize(
    ("kind", "white", "brightest", "proposed"),
    [("u1", 1, 1, (1, 255)), ("<u2", 4095, 16, (16, 4095)), ("png", 4095, 16, (16, 4095)), ("<u2", 1, 0, (1, 1))],
)
def test_dark_images_are_noticed_and_a_white_level_for_them_proposed(
    kind: str, white: int, brightest: int, proposed: tuple[int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    images = np.random.default_rng(0).integers(0, white + 1, (40, 6, 6))
    source = tmp_path / "dark"
    source.mkdir()
    if kind == "png":
        for number, image in enumerate(images.astype(np.uint16)):
            Image.fromarray(image).save(source / f"{number}.png")
    else:
        np.savez(source / "x.npz", images=images.astype(kind))
    size: dict[str, Any] = {"height": 6, "width": 6, "color": "gray"}
    with contextlib.suppress(DataError):  # if all are black, they are one image and come to one split
        made(source, tmp_path / "datasets", **size)
    (line,) = (message for message in caplog.messages if "of 255" in message)
    assert [*map(int, re.findall(r"\d+", line))] == [brightest, 255, proposed[0], 16, proposed[1]]
    caplog.clear()
    splits = load(made(source, tmp_path / "datasets", white_level=white, **size))
    assert "of 255" not in caplog.text
    expected = np.rint(images / white * 255).astype(np.uint8)
    assert sorted(image.tobytes() for split in splits.values() for image in split[0]) == sorted(map(bytes, expected))


def test_images_with_alpha_become_a_dataset_of_four_channels(tmp_path: Path) -> None:
    generator, source = np.random.default_rng(0), tmp_path / "stickers"
    source.mkdir()
    for number, mode in enumerate(["RGBA", "LA", "RGB", "L"] * 15):
        image = Image.fromarray(generator.integers(0, 256, (9, 7, 4), np.uint8)).convert(mode)
        image.save(source / f"{number}.png")
    dataset = made(source, tmp_path / "datasets", height=6, width=6, color="rgba", background="#102030")
    manifest = datasets.Manifest.of(dataset)
    assert manifest.image == ImageShape(6, 6, 4)
    assert manifest.preprocessing.items() >= {"color": "rgba", "background": "#102030", "white_level": 0}.items()
    files = (path.read_bytes() for path in source.iterdir())
    expected = [pixels.from_file(file, manifest.image, "fill", ("#102030", 0)).pixels for file in files]
    assert sorted(bytes(image) for images, _ in load(dataset).values() for image in images) == sorted(expected)


@pytest.mark.parametrize("background", ["MEAN", "#12345", "red", ""])
def test_a_background_that_is_no_color_is_refused(background: str) -> None:
    with pytest.raises(errors.ConfigError, match="background"):
        PreprocessConfig(source="digits", dataset="-", background=background)


def test_fashion_mnist_is_known_by_its_content(fashion_mnist: Path) -> None:
    from components.preprocess.formats.idx import FASHION_MNIST_CLASSES
    from components.preprocess.formats.survey import survey

    source = survey(str(fashion_mnist))
    assert source.classes == [*FASHION_MNIST_CLASSES]
    assert source.counts == {"train": 60_000, "test": 10_000}


def test_results_in_the_source_are_no_images_for_any_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_images(tmp_path, 40)
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")
    outputs = []
    for sheet in ("1.png", "2.png"):
        config = DecideConfig(source=".", results="runs", registry="runs/registry", source_index="runs/fingerprints")
        decided = decide.run(config).parameters["source_fingerprint"]
        options = {"results": "runs", "source_fingerprint": decided, "height": 8, "width": 8}
        outputs.append(run(".", "runs/datasets", **options))
        Path("runs", "latest").mkdir(exist_ok=True)
        Image.new("L", (9, 9)).save(Path("runs", "latest", sheet))
    assert outputs[0] == outputs[1]
    assert datasets.Manifest.of(outputs[0]["dataset_uri"]).classes == ["cats", "dogs"]
    assert len([line for line in caplog.messages if line.startswith("left runs ")]) == 1


def test_a_source_that_changed_since_it_was_fingerprinted(idx_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="abc and is "):
        run(idx_folder, tmp_path / "dataset", source_fingerprint="abc")


@pytest.mark.parametrize("options", ["", "--direct_num_workers=2 --direct_running_mode=multi_threading"])
def test_damage_found_within_beam_reaches_the_user_without_a_traceback(
    idx_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], options: str
) -> None:
    packed = idx_folder / "train-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-100])
    flags = [f"--source={idx_folder}", f"--dataset={tmp_path}", f"--beam_options={options}"]
    assert cli.main("preprocess", flags) == errors.BAD_DATA
    assert "train-images-idx3-ubyte.gz is damaged" in caplog.text
    assert "Traceback" not in caplog.text + capfd.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["idx"]


def test_a_disk_that_takes_no_more(idx_folder: Path, tmp_path: Path) -> None:
    flags = [f"--source={idx_folder}", f"--dataset={tmp_path}"]
    # Without -B Python would cut the compiled modules that it writes, and later processes could not import them.
    stage = [sys.executable, "-B", "-m", "components", "preprocess", *flags]
    command = ["bash", "-c", 'ulimit -f 8; exec "$@"', "bash", *stage]  # KiB
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 75
    assert f"File too large: {tmp_path}" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["idx"]


def test_images_in_two_splits_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_images(tmp_path / "pets" / "train", 60, seed=1)
    write_images(tmp_path / "pets" / "test", 20, seed=2)
    twice = tmp_path / "pets" / "train" / "cats" / "1-0.JPG"
    (tmp_path / "pets" / "test" / "dogs" / "copy.jpg").write_bytes(twice.read_bytes())
    Image.open(tmp_path / "pets" / "train" / "dogs" / "1-1.png").save(tmp_path / "pets" / "test" / "dogs" / "again.png")
    dataset = made(tmp_path / "pets", tmp_path / "datasets", height=8, width=8)
    leaks = datasets.Manifest.of(dataset).source["leaks"]
    assert (leaks["exact"], leaks["near"], leaks["compared"], leaks["near_of"]) == (2, 0, ["test"], 22)
    assert "2 of 22 test images " in caplog.text
    splits = load(dataset)
    for leak in leaks["first"]:  # one shard each
        assert np.array_equal(splits["test"][0][leak["record"]], splits["train"][0][leak["train_record"]])


def test_images_that_lose_much_to_cropping_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(pipeline, "_CHUNK_IMAGES", 10)  # several chunks, each of several images
    source = tmp_path / "source"
    source.mkdir()
    for index in range(40):
        Image.new("L", (9, 8) if index % 5 else (20, 8), index).save(source / f"{index:02d}.png")
    Image.new("L", (8, 40), 77).save(source / "tall.png")
    shape = {"height": 8, "width": 8}
    caplog.set_level("WARNING")
    filled = made(source, tmp_path / "datasets", **shape)
    (line,) = [line for line in caplog.messages if "resize" in line]
    assert "9 of 41" in line
    fitted = made(source, tmp_path / "datasets", **shape, resize="fit")
    assert "cropped" not in datasets.Manifest.of(fitted).made_with
    assert datasets.Manifest.of(filled).made_with["cropped"] == {"images": 9, "of": 41}  # it stays beside the other
