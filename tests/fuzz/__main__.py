"""Coverage-guided fuzzing of what reads bytes of strangers: each target takes any bytes and must end in a result or in
the one error that says why not, in one printable line.

    python -m tests.fuzz TARGET [seconds]

in the environment of requirements/fuzz.txt; `make fuzz` runs them all. What was found to reach new code is kept below
`build/fuzz` and is where the next run begins; what breaks a target is written there too, and told.
"""

import gzip
import io
import random
import re
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import atheris

# JSON is read in Python, so that coverage shows how far into it something got; C shows nothing.
for _name in [name for name in sys.modules if name.split(".")[0] == "json"]:
    del sys.modules[_name]
sys.modules["_json"] = None  # type: ignore[assignment]
with atheris.instrument_imports(include=["components", "PIL", "json"]):
    import json

    from components import records
    from components.errors import ConfigError, DataError
    from components.executor import ExecutorInput
    from components.preprocess import archives, idx, labels, npz, pixels, tfrecords
    from components.records import ImageShape
    from components.sources import SourceFile

BUILD = Path(__file__).parents[2] / "build" / "fuzz"
_SECONDS = 60
_LONGEST = 4096  # bytes
_SHAPE = ImageShape(8, 8, 3)


def fuzz_idx(content: bytes) -> None:
    """The IDX parser: as many values as the header says, or a `DataError`."""
    place = _file("idx", content)
    file = SourceFile("x-images-idx3-ubyte", str(place), len(content))
    with _only(DataError):
        count, shape = idx.describe_images(file)
        found = [image for images in idx.read_images(file) for image in images]
        size = shape.height * shape.width * shape.channels
        _require(len(found) == count and all(len(image) == size for image in found))
    with _only(DataError):
        _require(idx.count_labels(file) == len(idx.read_labels(file)))


def fuzz_npz(content: bytes) -> None:
    """The NPZ parser: as many images as the header says, or a `DataError`."""
    file = SourceFile("x.npz", str(_file("npz", content)), len(content))
    with _only(DataError):
        for images in npz.list_images(file):
            found = [image for some in npz.read_images(images, 0, images.count) for image in some]
            _require(len(found) == images.count)
            _require(not images.labels or len(npz.read_labels(images)) == images.count)


def fuzz_archive(content: bytes) -> None:
    """The readers of archives: as many bytes of each image as it is said to have, or a `DataError`."""
    file = SourceFile("x", str(_file("archive", content)), len(content))
    with _only(DataError):
        members, _ = archives.list_members(file)
        found = list(archives.read_members(file, members))
        _require([len(each) for each in found] == [min(each.bytes, pixels.LARGEST_FILE + 1) for each in members])


def fuzz_tfrecord(content: bytes) -> None:
    """The reader of TFRecord files: what is listed is what is read, or a `DataError`."""
    file = SourceFile("x.tfrecord", str(_file("tfrecord", content)), len(content))
    with _only(DataError):
        entries = tfrecords.list_examples(file)
        found = tfrecords.read_examples(tfrecords.Examples(file, 0, 0, len(entries)))
        _require([each.label for each in found] == [each.label for each in entries])


def fuzz_example(content: bytes) -> None:
    """The reader of `tf.train.Example`: an example, or why there is none. No mutation gets checksums right."""
    fuzz_tfrecord(b"".join(records.frame([content])))


def fuzz_labels(content: bytes) -> None:
    """The reader of `labels.csv`: a table, or a `DataError`."""
    with _only(DataError):
        _require(all(name.isprintable() for name in labels.parsed_table("labels.csv", content)))


def fuzz_image(content: bytes) -> None:
    """The image decoder: pixels of the shape asked for, or an `UndecodableImage`."""
    with _only(pixels.UndecodableImage):
        _require(len(pixels.from_file(content, _SHAPE, "fill")) == 8 * 8 * 3)


def fuzz_manifest(content: bytes) -> None:
    """The reader of `dataset.json`: a manifest whose digest can be told, or a `DataError`."""
    place = _file(records.MANIFEST, content)
    with _only(DataError):
        manifest = records.Manifest.of(str(place.parent))
        _require(len(manifest.digest) == 64 and records.Manifest.of(str(place.parent), manifest.digest) == manifest)


def fuzz_executor_input(content: bytes) -> None:
    """The reader of Kubeflow's executor input: parameters that can be written, or a `ConfigError`."""
    with _only(ConfigError):
        json.dumps(ExecutorInput(content.decode("utf-8", "surrogateescape")).parameters)


def seeds_of_idx() -> Iterator[bytes]:
    """Images, labels, packed and not."""
    images = b"\0\0\x08\3" + struct.pack(">III", 2, 2, 2) + bytes(8)
    labels = b"\0\0\x08\1" + struct.pack(">I", 3) + bytes(3)
    yield from (images, labels, gzip.compress(images, mtime=0), gzip.compress(labels, mtime=0))


def seeds_of_npz() -> Iterator[bytes]:
    """Images with labels, stored and packed, of 8 and of 16 bit."""
    import numpy as np

    for save, kind in ((np.savez, np.uint8), (np.savez_compressed, np.uint16)):
        file = io.BytesIO()
        save(file, x_train=np.zeros((2, 2, 2), kind), y_train=np.arange(2))
        yield file.getvalue()


def seeds_of_archive() -> Iterator[bytes]:
    """Two images and a table as zip, tar and packed tar."""
    members = {"a/1.png": b"one", "b/2.png": b"two" * 9, "labels.csv": b"file,label\n"}
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with tarfile.open(fileobj=tarred, mode="w", format=tarfile.PAX_FORMAT) as archive_of_tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), 0.5  # which needs a header of pax
            archive_of_tar.addfile(entry, io.BytesIO(content))
    yield from (zipped.getvalue(), tarred.getvalue()[:4096], gzip.compress(tarred.getvalue(), mtime=0))


def seeds_of_tfrecord() -> Iterator[bytes]:
    """A file of two records, packed and not."""
    content = b"".join(records.frame(seeds_of_example()))
    yield from (content, gzip.compress(content, mtime=0))


def seeds_of_example() -> Iterator[bytes]:
    """Examples with and without a label."""
    yield records.encode_example(b"\x89PNG\r\n\x1a\n", 3)
    yield records.encode_example(b"\xff\xd8\xff", -1)


def seeds_of_labels() -> Iterator[bytes]:
    """With splits and without."""
    yield from (b"file,label\na.png,cat\n", b'file,label,split\n"a, b.png",,test\n')


def seeds_of_image() -> Iterator[bytes]:
    """PNG, JPEG and WebP files of every mode, and what they may carry beside pixels."""
    from PIL import Image, PngImagePlugin

    chance = random.Random(0)
    words = PngImagePlugin.PngInfo()
    words.add_text("key", "text", zip=True)
    words.add_itxt("key", "text", zip=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"):
        side = 4
        size = len(Image.new(mode, (side, side)).tobytes())
        image = Image.frombytes(mode, (side, side), chance.randbytes(size))
        for kind in ("JPEG",) if mode == "CMYK" else ("PNG",) if mode not in ("L", "RGB") else ("PNG", "JPEG", "WEBP"):
            file = io.BytesIO()
            options = {"pnginfo": words} if kind == "PNG" else {"progressive": mode == "L"}
            image.save(file, kind, exif=turned, **options)
            yield file.getvalue()


def seeds_of_manifest() -> Iterator[bytes]:
    """The description of a small dataset, with a seal and without."""
    shard = records.Shard("train-00000-of-00001.tfrecord", 1, 60, "0" * 64)
    manifest = records.Manifest(
        image=ImageShape(2, 2, 1),
        classes=["a"],
        splits={split: records.Split(1, [1], [shard]) for split in records.SPLITS},
        statistics={"mean": 1.5, "std": 2.0},
        source={"kind": "images"},
        preprocessing={"seed": 1},
        quarantine={"count": 0},
    )
    yield json.dumps(manifest.to_json()).encode()
    place = _file(records.MANIFEST, b"")
    manifest.write(place.parent)
    yield place.read_bytes()


def seeds_of_executor_input() -> Iterator[bytes]:
    """A message as Kubeflow's launcher passes it."""
    parameters = {"steps": 3.0, "source": "digits", "held": [1, {"a": None}], "pipelinechannel--x": "y"}
    outputs = {
        "parameters": {"summary": {"outputFile": "/tmp/summary"}},  # noqa: S108 - nothing is written
        "artifacts": {"metrics": {"artifacts": [{"name": "m", "uri": "gs://a/b", "metadata": {"a": 1}}]}},
        "outputFile": "/tmp/output.json",  # noqa: S108
    }
    yield json.dumps({"inputs": {"parameterValues": parameters}, "outputs": outputs}).encode()


TARGETS: dict[str, tuple[Callable[[bytes], None], Callable[[], Iterator[bytes]]]] = {
    "idx": (fuzz_idx, seeds_of_idx),
    "npz": (fuzz_npz, seeds_of_npz),
    "archive": (fuzz_archive, seeds_of_archive),
    "tfrecord": (fuzz_tfrecord, seeds_of_tfrecord),
    "example": (fuzz_example, seeds_of_example),
    "labels": (fuzz_labels, seeds_of_labels),
    "image": (fuzz_image, seeds_of_image),
    "manifest": (fuzz_manifest, seeds_of_manifest),
    "executor_input": (fuzz_executor_input, seeds_of_executor_input),
}


class _only:
    """Lets one kind of error pass, if its message is one printable line; every other one breaks the target."""

    def __init__(self, kind: type[Exception]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if kind is None or not issubclass(kind, self._kind):
            return False
        _require(str(error).isprintable())
        return True


def _require(held: bool) -> None:
    if not held:
        raise AssertionError


def _file(name: str, content: bytes) -> Path:
    place = BUILD / "now" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


def main() -> None:
    """Fuzzes one target for so many seconds, from its seeds and from what earlier runs found."""
    sys.setrecursionlimit(400)  # JSON nested too deep is reached within the longest input
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in TARGETS:
        raise SystemExit(f"usage: python -m tests.fuzz {'|'.join(TARGETS)} [seconds]")
    name, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else _SECONDS
    target, seeds = TARGETS[name]
    corpus = BUILD / name
    corpus.mkdir(parents=True, exist_ok=True)
    words: set[bytes] = set()
    for number, content in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(content)
        words.update(re.findall(rb'"\w+"', content))
    dictionary = BUILD / f"{name}.words"
    dictionary.write_bytes(b"".join(b'"%b"\n' % word.replace(b'"', b'\\"') for word in sorted(words)))
    options = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-artifact_prefix={BUILD}/{name}-", "-timeout=20"]
    options += [f"-dict={dictionary}"] if words else []
    atheris.Setup([sys.argv[0], *options, "-rss_limit_mb=1024", "-print_final_stats=1", str(corpus)], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
