"""Where images come from: what a source holds, and the fingerprint that tells whether it holds something else now.

A source is `digits`, `fashion-mnist`, or a folder or URI of either IDX files or PNG and JPEG images. Standard library
only for what lies on this machine; a URI is read through Apache Beam, imported where it is needed.
"""

import dataclasses
import hashlib
import importlib.util
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from components import digests
from components.errors import ConfigError, DataError, TransientError

log = logging.getLogger(__name__)

DIGITS = "digits"
FASHION_MNIST = "fashion-mnist"
IDX = "idx"
IMAGES = "images"

# MD5 sums as published with the data set (github.com/zalandoresearch/fashion-mnist).
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_IDX_NAME = re.compile(r"(images|labels).*(idx|ubyte)|(idx|ubyte).*(images|labels)", re.IGNORECASE)
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
_NAMES_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """One file of a source.

    Attributes:
        name: Its path within the source, with `/`, printable whatever bytes the real name has.
        place: Its path or URI.
        bytes: Its size.
    """

    name: str
    place: str
    bytes: int


@dataclasses.dataclass(frozen=True)
class Listing:
    """The files of a source, by name.

    Attributes:
        kind: `IDX` or `IMAGES`.
        files: Those that are read.
        left_out: Names of the others.
    """

    kind: str
    files: list[SourceFile]
    left_out: list[str]


def is_uri(place: str) -> bool:
    """Whether a place is a URI such as gs://bucket/folder rather than a path of this machine."""
    return "://" in place


def list_source(source: str) -> Listing:
    """Lists a folder or URI: its IDX files if there are any at its top, else every PNG and JPEG image in and below it.

    Hidden files and folders do not count.

    Raises:
        DataError: There is no such folder, it holds neither kind, or a link leads out of it.
    """
    found = sorted(_list_uri(source) if is_uri(source) else _list_folder(source), key=lambda file: file.name)
    idx = [file for file in found if "/" not in file.name and _IDX_NAME.search(file.name)]
    images = [file for file in found if file.name.lower().endswith(_IMAGE_SUFFIXES)]
    kind, files = (IDX, idx) if idx else (IMAGES, images)
    read = set(files)
    left_out = [file.name for file in found if file not in read]
    if not files:
        held = f"only {_some(left_out)}" if left_out else "nothing"
        raise DataError(f"source {source} holds {held}, expected IDX files, or PNG or JPEG images")
    return Listing(kind, files, left_out)


def fingerprint(source: str) -> tuple[str, str]:
    """Tells what a source holds now, without decoding it.

    Returns:
        fingerprint: 64 hexadecimal digits over every file's name and content; where the source lies does not count.
            For a URI the storage's own checksums stand for the content; for `fashion-mnist` the published sums.
        summary: One short line for people.

    Raises:
        DataError: As `list_source`.
    """
    if source == DIGITS:
        content = digests.sha256_of_file(digits_file())
        return digests.digest_of({"kind": DIGITS, "sha256": content}), "1,797 digits of scikit-learn"
    if source == FASHION_MNIST:
        return digests.digest_of({"kind": FASHION_MNIST, "md5": FASHION_MNIST_MD5}), "4 official IDX files, 30.9 MB"
    listing = list_source(source)
    if listing.left_out:
        expected = "IDX files" if listing.kind == IDX else "PNG or JPEG images by name"
        log.info("left out %d files that are not %s: %s", len(listing.left_out), expected, _some(listing.left_out))
    files = [[file.name, file.bytes, _content_of(file)] for file in listing.files]
    return digests.digest_of({"kind": listing.kind, "files": files}), _summary(listing)


def digits_file() -> Path:
    """scikit-learn's file of handwritten digits: 65 columns of text, 64 pixels of 0 to 16 and the label; gzipped.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise ConfigError("source digits needs scikit-learn, which is not installed: pip install scikit-learn")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def open_file(place: str) -> BinaryIO:
    """Opens a source's file for reading, as stored: a gzipped one stays gzipped.

    Raises:
        DataError: The file is not there, or may not be read.
    """
    try:
        if not is_uri(place):
            return open(place, "rb")
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        return FileSystems.open(place, compression_type=CompressionTypes.UNCOMPRESSED)
    except FileNotFoundError:
        raise DataError(f"{printable(place)} is gone; the source changed while it was read") from None
    except PermissionError:
        raise DataError(f"{printable(place)} may not be read: permission denied") from None


def printable(name: str) -> str:
    """A file's name as text that can be written anywhere: what is not UTF-8 or not printable becomes an escape."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _list_folder(source: str) -> Iterator[SourceFile]:
    root = Path(source)
    if not root.exists():
        raise DataError(
            f"source {source} does not exist; give a folder or URI of IDX files or of images, "
            f"or `{DIGITS}`, or `{FASHION_MNIST}`"
        )
    if not root.is_dir():
        raise DataError(f"source {source} is a file; give the folder that holds it")
    within = root.resolve()
    for folder, folders, names in os.walk(root, onerror=_raise_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        if links:
            raise DataError(
                f"{printable(str(Path(folder, links[0])))} is a link to a folder; put the folder itself there"
            )
        for name in names:
            path = Path(folder, name)
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(within):
                raise DataError(f"{printable(str(path))} is a link out of the source; put the file itself there")
            if path.is_file():
                yield SourceFile(printable(path.relative_to(root).as_posix()), str(path), path.stat().st_size)


def _raise_unreadable(error: OSError) -> None:
    raise DataError(f"{printable(str(error.filename))} may not be read: {os.strerror(error.errno or 0)}")


def _list_uri(source: str) -> Iterator[SourceFile]:
    from apache_beam.io.filesystem import BeamIOError
    from apache_beam.io.filesystems import FileSystems

    logging.getLogger("apache_beam").setLevel(logging.ERROR)  # it logs the traceback of every attempt
    root = source.rstrip("/") + "/"
    try:
        found = FileSystems.match([root + "**"])[0].metadata_list
    except ValueError as error:
        raise ConfigError(f"source {source} is of no storage that Beam knows here: {error}") from None
    except BeamIOError as error:
        raise TransientError(
            f"source {source} cannot be listed; check its name, the credentials and the network: {error}"
        ) from None
    if not found:
        raise DataError(f"source {source} does not exist or is empty")
    for entry in found:
        name = entry.path.removeprefix(root)
        if not any(part.startswith(".") for part in name.split("/")) and not name.endswith("/"):
            yield SourceFile(name, entry.path, entry.size_in_bytes)


def _content_of(file: SourceFile) -> str:
    if is_uri(file.place):
        from apache_beam.io.filesystems import FileSystems

        return str(FileSystems.checksum(file.place))
    digest = hashlib.sha256()
    with open_file(file.place) as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _summary(listing: Listing) -> str:
    size = sum(file.bytes for file in listing.files)
    what = "IDX files" if listing.kind == IDX else "images"
    return f"{len(listing.files):,} {what}, {size / 1e6:,.1f} MB"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
