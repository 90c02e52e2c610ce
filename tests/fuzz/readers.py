"""Readers of untrusted bytes: each ends in a result, or in its one error with a printable line.

test_readers.py damages their seeds and writes arbitrary bytes; `python -m tests.fuzz` lets coverage guide the bytes.
"""

import bz2
import functools
import gzip
import io
import math
import operator
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image, PngImagePlugin

from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.data import pixels
from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile
from components.preprocess.formats import archives, label_files, survey
from components.preprocess.formats.labels import BY_NAME
from components.preprocess.formats.survey import Original
from tests.faults.damage.image_cases import CASES
from tests.inputs.formats import mat, npz, parquet, tarred, zipped
from tests.inputs.sources import framed, framed_example

_SHAPE = ImageShape(8, 8, 3)


class Reader(NamedTuple):
    """The reader of one kind of file."""

    read: Callable[[Path, bytes], Any]  # may write below the folder; asserts the invariants of every result
    seeds: Callable[[], Iterable[bytes]]  # whole files
    # Whether a damaged file may be read as the second value, if the whole one was the first.
    faithful: Callable[[Any, Any], bool] = lambda whole, damaged: True
    error: type[Exception] = DataError  # raised for an invalid file


def outcome(reader: Reader, folder: Path, content: bytes) -> Any:
    """Return the result, or None if the reader refuses the content with a message."""
    try:
        return reader.read(folder, content)
    except reader.error as error:
        logged = str(error)
    assert logged.isprintable()
    assert " at 0x" not in logged
    return None


def _file(folder: Path, name: str, content: bytes) -> SourceFile:
    (folder / name).write_bytes(content)
    return SourceFile(name, str(folder / name), len(content))


def _have_same_sizes(whole: list[bytes], damaged: list[bytes]) -> bool:
    return [*map(len, damaged)] == [*map(len, whole)]


def _read_stacks(kind: str, files: list[SourceFile]) -> list[Original]:
    """Return as many images as were counted, of the header's shape, with the labels that the survey lists."""
    surveyed = survey._survey_stacks("x", kind, files, BY_NAME)
    originals = [original for part in surveyed.parts for original in survey.read(part)]
    assert len(originals) == sum(surveyed.counts.values())
    labels = {*range(len(surveyed.classes))} or {datasets.NO_LABEL}
    assert {original.label for original in originals} == labels
    lengths = {len(original.content) for original in originals}
    assert surveyed.stored is None or lengths in ({surveyed.stored.size}, {2 * surveyed.stored.size})  # of 16 bits
    return originals


def read_stack(kind: str, name: str, folder: Path, content: bytes) -> Any:
    """Return images alone: a damaged name may leave out their labels."""
    return [original.content for original in _read_stacks(kind, [_file(folder, name, content)])]


def read_idx(folder: Path, content: bytes) -> Any:
    """Return images, or three labels."""
    file = _file(folder, "x-images-idx3-ubyte", content)
    try:
        return [original.content for original in _read_stacks(source_listing.IDX, [file])]
    except DataError:
        images = _file(folder, "y-images-idx3-ubyte", _idx(3, 1, 1))
        labels = _file(folder, "y-labels-idx1-ubyte", content)
        return [bytes(original.label for original in _read_stacks(source_listing.IDX, [images, labels]))]


def _idx(*dimensions: int) -> bytes:
    header = bytes([0, 0, 8, len(dimensions)]) + struct.pack(f">{len(dimensions)}I", *dimensions)
    return header + bytes(math.prod(dimensions))


def read_archive(folder: Path, content: bytes) -> Any:
    file = _file(folder, "x", content)
    members, _ = archives.list_members(file)
    images = list(archives.read_members(file, members))
    assert [len(image) for image in images] == [min(member.bytes, pixels.LARGEST_FILE + 1) for member in members]
    return images


def read_example(folder: Path, content: bytes) -> Any:
    """Read a `tf.train.Example` in a file with right checksums, which no mutation achieves."""
    return read_stack(source_listing.TFRECORDS, "x", folder, framed(content))


def read_labels(name: str, folder: Path, content: bytes) -> Any:
    """Read a table of printable names, or of none."""
    table = label_files.read([name], lambda _: content, BY_NAME, [])
    rows = table.rows if table else {}
    assert all(name.isprintable() and str(row.label).isprintable() for name, row in rows.items())
    return rows


def read_image(folder: Path, content: bytes) -> Any:
    decoded = pixels.from_file(content, _SHAPE, "fill").pixels
    assert len(decoded) == 8 * 8 * 3
    return decoded


_gzipped = functools.partial(gzip.compress, mtime=0)
_PIXELS, _KINDS = np.arange(8, dtype=np.uint8).reshape(2, 2, 2), np.arange(2)
_MEMBERS = {"a/é.png": b"one", "b/2.png": b"two" * 9, "labels.csv": b"file,label\n"}  # one needs a pax header
_TAR = tarred(_MEMBERS, tarfile.PAX_FORMAT)[:-2048]  # without padding
_RECORDS = b"".join(framed_example(b"\xff\xd8\xff", label) for label in (0, 1))


def seeds_of_parquet() -> Iterator[bytes]:
    """Yield files of two rows: bytes and numbers, uncompressed; structs and text, compressed."""
    yield parquet(None, "none", image=[b"\xff\xd8\xff", b"\xff\xd8\xffb"], label=[0, 1])
    structs = [{"bytes": b"\xff\xd8\xff", "path": None}, {"bytes": b"", "path": "a"}]
    yield parquet(image=structs, label=["a", "b"])


def seeds_of_image() -> Iterator[bytes]:
    words = PngImagePlugin.PngInfo()
    words.add_text("key", "text", zip=True)
    words.add_itxt("key", "text", zip=True)
    turned = Image.Exif()
    turned[0x0112] = 6
    for mode, kind in (("P", "PNG"), ("RGBA", "PNG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGB", "WEBP")):
        file = io.BytesIO()
        image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).convert(mode)
        image.save(file, kind, exif=turned, pnginfo=words, progressive=mode == "L")
        yield file.getvalue()


def _stack(kind: str, name: str, seeds: Callable[[], Iterable[bytes]], **others: Any) -> Reader:
    return Reader(functools.partial(read_stack, kind, name), seeds, **others)


def _labels(name: str, *seeds: bytes) -> Reader:
    return Reader(functools.partial(read_labels, name), lambda: seeds)


READERS = {
    "idx": Reader(
        read_idx,
        lambda: (pack(_idx(*sides)) for pack in (bytes, _gzipped) for sides in ([2, 2, 2], [3])),
        _have_same_sizes,
    ),
    "npz": _stack(
        source_listing.ARRAYS,
        "x.npz",
        lambda: (npz(kind == "u2", x_train=np.zeros((2, 2, 2), kind), y_train=_KINDS) for kind in ("u1", "u2")),
        faithful=operator.eq,
    ),
    "mat": _stack(
        source_listing.MATLAB,
        "x.mat",
        lambda: (mat(compressed, X=_PIXELS.transpose(1, 2, 0), y=_KINDS) for compressed in (False, True)),
    ),
    "cifar": _stack(
        source_listing.CIFAR,
        "data_batch_1",
        lambda: (
            pickle.dumps({b"data": np.arange(6144, dtype=np.uint8).reshape(2, 3072), b"labels": labels}, protocol=2)
            for labels in ([0, 1], _KINDS)
        ),
    ),
    "pixel_table": _stack(
        source_listing.PIXEL_TABLES,
        "x.csv",
        lambda: (b"label,pixel0,pixel1,pixel2,pixel3\n3,0,1,2,255\n4,9,9,9,9\n", b"1,0,1,2,3\n0,4,5,6,7\n"),
    ),
    # A flip in a zip file's directory may hide a member. One in the content of a plain tar file is not noticed.
    "zip": Reader(
        read_archive,
        lambda: (zipped(_MEMBERS, method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)),
        lambda whole, damaged: set(damaged) <= set(whole),
    ),
    "tar": Reader(read_archive, lambda: (_TAR,), _have_same_sizes),
    "packed_tar": Reader(read_archive, lambda: (_gzipped(_TAR), bz2.compress(_TAR)), operator.eq),
    "tfrecord": _stack(
        source_listing.TFRECORDS,
        "x.tfrecord",
        lambda: (_RECORDS, _gzipped(_RECORDS)),
        faithful=lambda whole, damaged: damaged == whole[: len(damaged)],  # a cut between two records is no damage
    ),
    "example": Reader(
        read_example,
        lambda: (
            framed_example(image, label)[12:-4] for image, label in ((b"\x89PNG\r\n\x1a\n", 3), (b"\xff\xd8\xff", -1))
        ),
    ),
    # Values have no checksums, and a flip in a schema may rename a column.
    "parquet": _stack(source_listing.PARQUET, "x.parquet", seeds_of_parquet),
    "labels": _labels("labels.csv", b"file,label\na.png,cat\n", b'file,label,split\n"a, b.png",,test\n'),
    "stylegan": _labels("dataset.json", b'{"labels": [["a/1.png", 3], ["b.png", 0]]}', b'{"labels": null}'),
    "metadata.jsonl": _labels("metadata.jsonl", b'{"file_name": "a", "label": 1}\n{"file_name": "b", "label": "c"}'),
    "metadata.csv": _labels("metadata.csv", b'file_name,text,label\na.png,"a, b",1\n'),
    "image": Reader(read_image, seeds_of_image, error=pixels.UndecodableImage),
    # Without chunks that a decoder may ignore.
    "png": Reader(
        read_image,
        lambda: (CASES[name].make() for name in CASES if name.startswith(("PNG, 8 bit", "PNG, 16 bit", "PNG, 1 bit"))),
        lambda whole, damaged: False,
        pixels.UndecodableImage,
    ),
}
