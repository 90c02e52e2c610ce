"""NPZ files: arrays of NumPy in a zip file (numpy.org/doc/stable/reference/generated/numpy.lib.format.html).

Images are an array uint8 or uint16 [n, height, width] or [n, height, width, 1 or 3], labels one of whole numbers [n] or
[n, 1]. Which is which, and of which split, is told by the arrays' names, as Keras (`x_train`, `y_train`), MedMNIST
(`train_images`, `train_labels`) and others have them; a split may stand in the file's name instead. Arrays of other
names are left out and told. Nothing is unpickled.

An array that is stored is read from the middle; one that is packed only from its start.
"""

import contextlib
import dataclasses
import logging
import math
import re
import struct
import zipfile
from collections.abc import Iterator
from typing import IO, BinaryIO

import numpy as np
from numpy.lib import format as npy

from components import buckets, sources
from components.errors import DataError
from components.preprocess import archives, pixels
from components.preprocess.labels import SPLIT_WORDS
from components.records import ImageShape
from components.sources import SourceFile

log = logging.getLogger(__name__)

_IMAGE_WORDS = {"images", "image", "imgs", "x", "data"}
_LABEL_WORDS = {"labels", "label", "y", "targets"}
_CHUNK_IMAGES = 1000
_CHUNK_BYTES = 16 << 20
_LARGEST_IMAGE = 25_000_000  # pixels
_MOST_IMAGES = 100_000_000  # whose labels, all read at once, still go into memory
_NAMES_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Images:
    """An array of images in a file.

    Attributes:
        file: The file.
        array: The array's name, without `.npy`.
        split: Its split.
        count: Number of images.
        shape: Their shape.
        dtype: Type of the values, as NumPy writes it: `|u1`, `<u2` or `>u2`.
        offset: Where in the file the first image lies, if it is stored; None if it is packed.
        labels: Name of the array of their labels; empty if there is none.
    """

    file: SourceFile
    array: str
    split: str
    count: int
    shape: ImageShape
    dtype: str
    offset: int | None
    labels: str


def list_images(file: SourceFile) -> list[Images]:
    """The arrays of images of a file, by split; tells which others it has.

    Raises:
        DataError: The file is no NPZ file or damaged, its arrays are of another form, or two are for one split.
    """
    images: dict[str, Images] = {}
    labels: dict[str, str] = {}
    others = []
    with _open_npz(file) as (opened, packed), archives.as_data_error(file):
        for name in sorted(packed.namelist()):
            array = name.removesuffix(".npy")
            words = _words(array)
            split = _split_of(words, file)
            if name.endswith(".npy") and words & _LABEL_WORDS:
                if split in labels:
                    raise DataError(f"{file.name} has {labels[split]} and {array} for {split}; keep one of them")
                labels[split] = array
            elif name.endswith(".npy") and words & _IMAGE_WORDS:
                if split in images:
                    raise DataError(f"{file.name} has {images[split].array} and {array} for {split}; keep one of them")
                images[split] = _describe_images(file, opened, packed, array, split)
            else:
                others.append(sources.printable(name))
    if others:
        log.info("left out %d arrays of %s by name: %s", len(others), file.name, ", ".join(others[:_NAMES_SHOWN]))
    if not images:
        raise DataError(
            f"{file.name} has no array of images by name ({', '.join(others) or 'nothing'}); "
            "expected one called images, x or data, and labels or y for their labels, as in x_train and y_train"
        )
    if labels and labels.keys() != images.keys():
        split = min(images.keys() ^ labels.keys())
        has, lacks = ("images", "labels") if split in images else ("labels", "images")
        raise DataError(f"{file.name} has {has} for {split} but no {lacks}; add them, or take all labels away")
    return [dataclasses.replace(found, labels=labels.get(split, "")) for split, found in images.items()]


def read_labels(images: Images) -> np.ndarray:
    """The labels of some images, whole numbers [n].

    Raises:
        DataError: They are not as many whole numbers, or damaged.
    """
    file, array = images.file, images.labels
    with _open_npz(file) as (_, packed), archives.as_data_error(file), packed.open(f"{array}.npy") as opened:
        shape, dtype, _ = _read_header(file, array, opened)
        if dtype.kind not in "iu" or shape not in ((images.count,), (images.count, 1)):
            raise DataError(
                f"{file.name} has {array} of {dtype} {list(shape)}, expected {images.count:,} whole numbers, as "
                f"many as {images.array} has images"
            )
        content = _read(file, array, opened, images.count * dtype.itemsize)
        _require_end(file, array, opened)
    return np.frombuffer(content, dtype)


def read_images(images: Images, start: int, stop: int) -> Iterator[list[bytes]]:
    """Yields images of an array in order, some at a time, each as the bytes [height, width, channels] of 8 bit.

    Values of 16 bit become 8 as in `pixels.of_16_bit`.

    Args:
        images: The array.
        start: The first one; 0 where the array is packed.
        stop: The one after the last; their number where the array is packed.

    Raises:
        DataError: The file is damaged.
    """
    size = bytes_of_image(images)
    dtype = np.dtype(images.dtype)
    at_once = images_at_once(images)
    with contextlib.ExitStack() as stack:
        if images.offset is not None:
            opened: IO[bytes] = stack.enter_context(sources.open_file(images.file.place, images.file.checksum))
            opened.seek(images.offset + start * size)
        else:
            _, packed = stack.enter_context(_open_npz(images.file))
            stack.enter_context(archives.as_data_error(images.file))
            opened = stack.enter_context(packed.open(f"{images.array}.npy"))
            _read_header(images.file, images.array, opened)
        for first in range(start, stop, at_once):
            wanted = min(at_once, stop - first)
            content = _read(images.file, images.array, opened, wanted * size)
            if dtype.itemsize == 2:
                content = pixels.of_16_bit(np.frombuffer(content, dtype)).tobytes()
            length = len(content) // wanted
            yield [content[at : at + length] for at in range(0, len(content), length)]
        if images.offset is None:
            _require_end(images.file, images.array, opened)


def bytes_of_image(images: Images) -> int:
    """Bytes that an image takes in its file."""
    return images.shape.height * images.shape.width * images.shape.channels * np.dtype(images.dtype).itemsize


def images_at_once(images: Images) -> int:
    """How many images are read together."""
    return max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // bytes_of_image(images)))


def _words(name: str) -> set[str]:
    return set(re.findall("[a-z]+", name.lower()))


def _split_of(words: set[str], file: SourceFile) -> str:
    """The split in an array's name, else in its file's; `train` where neither has one."""
    of_file = _words(file.name.rpartition("/")[2])
    return next((SPLIT_WORDS[word] for each in (words, of_file) for word in sorted(each & SPLIT_WORDS.keys())), "train")


@contextlib.contextmanager
def _open_npz(file: SourceFile) -> Iterator[tuple[BinaryIO, zipfile.ZipFile]]:
    with sources.open_file(file.place, file.checksum) as opened:
        with archives.as_data_error(file):
            packed = zipfile.ZipFile(opened)
        for found in packed.infolist():
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{file.name} has {sources.printable(found.filename)} packed by method {found.compress_type}; "
                    "save it again by numpy.savez_compressed"
                )
        yield opened, packed


def _describe_images(file: SourceFile, opened: BinaryIO, packed: zipfile.ZipFile, array: str, split: str) -> Images:
    found = packed.getinfo(f"{array}.npy")
    with packed.open(found) as member:
        dimensions, dtype, header = _read_header(file, array, member)
        if dtype not in (np.uint8, np.dtype("<u2"), np.dtype(">u2")):
            raise DataError(
                f"{file.name} has {array} of {dtype}, expected uint8 from 0 to 255, or uint16; scale it before "
                "it is saved"
            )
        if len(dimensions) not in (3, 4) or (len(dimensions) == 4 and dimensions[3] not in (1, 3)):
            raise DataError(
                f"{file.name} has {array} {list(dimensions)}, expected [n, height, width] or "
                "[n, height, width, 1 or 3], channels last"
            )
        count, shape = dimensions[0], ImageShape(dimensions[1], dimensions[2], (*dimensions, 1)[3])
        if not 0 < shape.height * shape.width <= _LARGEST_IMAGE:
            raise DataError(f"{file.name} has {array} of {shape}, expected 1 to {_LARGEST_IMAGE:,} pixels")
        if not 0 < count <= _MOST_IMAGES:
            raise DataError(f"{file.name} has {count:,} images in {array}, expected 1 to {_MOST_IMAGES:,}")
        size = header + math.prod(dimensions) * dtype.itemsize
        if found.file_size != size:
            raise DataError(f"{file.name} has {array} of {found.file_size:,} bytes, its header says {size:,}")
        stored = found.compress_type == zipfile.ZIP_STORED and not buckets.is_uri(file.place)
        if stored:  # whoever reads from the middle sees no checksum
            while member.read(_CHUNK_BYTES):
                pass
    offset = _offset_of_content(opened, found) + header if stored else None
    return Images(file, array, split, count, shape, dtype.str, offset, "")


def _read_header(file: SourceFile, array: str, opened: IO[bytes]) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape and type of an array, and the number of bytes before its values."""
    version = npy.read_magic(opened)
    if version != (1, 0):  # the others are for names of fields, and have headers of any size
        raise DataError(f"{file.name} has {array} in version {version[0]}.{version[1]} of the format, expected 1.0")
    shape, fortran, dtype = npy.read_array_header_1_0(opened)
    if fortran and len(shape) > 1:
        raise DataError(f"{file.name} has {array} in Fortran's order; save it by numpy.ascontiguousarray")
    return shape, dtype, opened.tell()


def _offset_of_content(opened: BinaryIO, found: zipfile.ZipInfo) -> int:
    """Where the content of a member of a zip file begins (APPNOTE.TXT, 4.3.7)."""
    opened.seek(found.header_offset + 26)
    name, extra = struct.unpack("<HH", opened.read(4))
    return found.header_offset + 30 + name + extra


def _read(file: SourceFile, array: str, opened: IO[bytes], count: int) -> bytes:
    content = opened.read(count)
    if len(content) != count:
        raise DataError(f"{file.name} ends within {array}; copy or save it again")
    return content


def _require_end(file: SourceFile, array: str, opened: IO[bytes]) -> None:
    """Reads to the end, where the checksum is compared."""
    if opened.read(1):
        raise DataError(f"{file.name} goes on after the values of {array} that its header says")
