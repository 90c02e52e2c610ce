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
    from components.preprocess import idx, pixels
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


def fuzz_image(content: bytes) -> None:
    """The image decoder: pixels of the shape asked for, or an `UndecodableImage`."""
    with _only(pixels.UndecodableImage):
        _require(pixels.from_file(content, _SHAPE, "fill").shape == (8, 8, 3))


def fuzz_manifest(content: bytes) -> None:
    """The reader of `dataset.json`: a manifest whose digest can be told, or a `DataError`."""
    place = _file(records.MANIFEST, content)
    with _only(DataError):
        manifest = records.read_manifest(str(place.parent))
        _require(len(manifest.digest) == 64 and records.read_manifest(str(place.parent), manifest.digest) == manifest)


def fuzz_executor_input(content: bytes) -> None:
    """The reader of Kubeflow's executor input: parameters that can be written, or a `ConfigError`."""
    with _only(ConfigError):
        json.dumps(ExecutorInput(content.decode("utf-8", "surrogateescape")).parameters)


def seeds_of_idx() -> Iterator[bytes]:
    """Images, labels, packed and not."""
    images = b"\0\0\x08\3" + struct.pack(">III", 2, 2, 2) + bytes(8)
    labels = b"\0\0\x08\1" + struct.pack(">I", 3) + bytes(3)
    yield from (images, labels, gzip.compress(images, mtime=0), gzip.compress(labels, mtime=0))


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
    records.write_manifest(place.parent, manifest)
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
