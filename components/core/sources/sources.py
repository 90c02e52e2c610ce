"""Where images come from: what a source holds, and the fingerprint that tells whether it holds something else now.

A source is `digits`, `fashion-mnist`, or files of one kind (`_KINDS`): a folder of them, a glob, or one file, on this
machine or in a bucket (gs://). Standard library only for what lies on this machine.
"""

import dataclasses
import fnmatch
import functools
import hashlib
import heapq
import importlib.util
import itertools
import logging
import operator
import os
import re
import stat
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from components.core.errors import ConfigError, DataError
from components.core.sources import hashing
from components.core.sources.index import SourceIndex, stamp_of
from components.core.sources.long_lists import LongList, in_order
from components.core.storage import buckets, digests

log = logging.getLogger(__name__)

DIGITS = "digits"
FASHION_MNIST = "fashion-mnist"
IDX = "idx"
IMAGES = "images"
TFRECORDS = "tfrecord"
ARRAYS = "npz"
ARCHIVES = "archives"
LABELS = "labels.csv"  # at the top of a source of images or archives, what they show

# MD5 sums as published with the data set (github.com/zalandoresearch/fashion-mnist).
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_IDX_NAME = re.compile(r"(images|labels).*(idx|ubyte)|(idx|ubyte).*(images|labels)", re.IGNORECASE)
_TFRECORD_NAME = re.compile(r"\.tfrec(ords?)?(-\d+-of-\d+)?(\.gz)?$", re.IGNORECASE)
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2")
_UNREADABLE_SUFFIXES = (".gz", ".bz2", ".xz", ".txz", ".zst", ".7z", ".rar")
_WILDCARD = re.compile(r"[*?\[]")
_NAMES_SHOWN = 3
_READ_AT_ONCE = 1 << 20
_TOLD_AT_ONCE = 500  # files of which a fingerprint is made
_SECONDS_BETWEEN_LINES = 5


class SourceFile(NamedTuple):
    """One file of a source.

    Attributes:
        name: Its path within the source, with `/`, printable whatever bytes the real name has.
        place: Its path, or gs://BUCKET/NAME.
        bytes: Its size.
        stamp: The `source_index.stamp_of` a file of this machine; empty in a bucket, and once the checksum is known.
        checksum: What stands for its content: the sha256 of a file of this machine, what the storage says of one in a
            bucket; empty where that is not known yet. For an image that is too large, a digest of size and time.
    """

    name: str
    place: str
    bytes: int
    stamp: str = ""
    checksum: str = ""

    @property
    def sha256(self) -> str:
        """sha256 of the content, 64 hexadecimal digits; empty where it is not known."""
        return "" if buckets.is_uri(self.place) else self.checksum


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of source: its name, what its files are called, which names they have, whether one alone is a source."""

    name: str
    plural: str
    is_name: Callable[[str], bool]
    alone: bool = True


# In the order in which they are looked for: the first of which there is a file is the kind of the source.
_KINDS = (
    _Kind(IDX, "IDX files", lambda name: "/" not in name and bool(_IDX_NAME.search(name)), alone=False),
    _Kind(IMAGES, "PNG, JPEG or WebP images", lambda name: is_image_name(name), alone=False),
    _Kind(TFRECORDS, "TFRecord files", lambda name: bool(_TFRECORD_NAME.search(name))),
    _Kind(ARRAYS, "NPZ files", lambda name: name.lower().endswith(".npz")),
    _Kind(ARCHIVES, "archives (zip, tar, tar.gz, tar.bz2)", lambda name: name.lower().endswith(_ARCHIVE_SUFFIXES)),
)


@dataclasses.dataclass(frozen=True)
class Listing:
    """The files of a source, by name.

    Attributes:
        kind: `IDX`, `IMAGES`, `TFRECORDS`, `ARRAYS` or `ARCHIVES`.
        files: Those that are read.
        left_out: Names of the others.
        labels: The file `labels.csv` of a source of images or archives; None if there is none.
    """

    kind: str
    files: LongList[SourceFile]
    left_out: LongList[str]
    labels: SourceFile | None = None


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a source holds, as far as it can be told without decoding it.

    Attributes:
        fingerprint: 64 hexadecimal digits over every file's name and content; where the source lies does not count.
        summary: One short line for people.
        listing: Its files, with their checksums; None for `digits` and `fashion-mnist`.
    """

    fingerprint: str
    summary: str
    listing: Listing | None = None


def is_image_name(name: str) -> bool:
    """Whether a file is taken for an image by its name."""
    return name.lower().endswith(_IMAGE_SUFFIXES)


def list_source(source: str) -> Listing:
    """Lists a folder, a glob or one file: what there is of the first kind of `_KINDS` that there is.

    Hidden files and folders do not count.

    Args:
        source: Which. In a glob `*` and `?` stay within a name, `[...]` is one of some characters, `**` is any folders;
            names are those below the last folder before the first of them.

    Raises:
        ConfigError: It is a URI of another scheme than gs://.
        DataError: There is no such place, it holds no kind, or a link leads out of it.
    """
    if "://" in source and not buckets.is_uri(source):
        raise ConfigError(
            f"source must be a folder or file of this machine or of a bucket, {buckets.SCHEME}BUCKET/FOLDER, or "
            f"`{DIGITS}`, or `{FASHION_MNIST}`, got {source}; copy it to one of these"
        )
    place, pattern = _split_glob(source)
    kinds = _KindsSeen()
    found = in_order(kinds.seen(_listed(place, pattern)), key=operator.attrgetter("name"), make=SourceFile._make)
    kind = kinds.first()
    if kind is None:
        names = LongList(file.name for file in found)
        held = f"only {_some(names)}" if len(names) else "nothing"
        packed = any(name.lower().endswith(_UNREADABLE_SUFFIXES) for name in names)
        remedy = "; unpack what is packed" if packed else ""
        expected = ", or ".join(kind.plural for kind in _KINDS)
        raise DataError(f"source {source} holds {held}, expected {expected}{remedy}")
    listing = Listing(kind.name, LongList(make=SourceFile._make), LongList())
    before = ""
    for file in found:
        if file.name == before:
            raise DataError(
                f"source {source} holds two files whose names are both written {before}; rename one of them"
            )
        before = file.name
        if kind.is_name(file.name):
            listing.files.append(file)
        elif file.name == LABELS and kind.name in (IMAGES, ARCHIVES):
            listing = dataclasses.replace(listing, labels=file)
        else:
            listing.left_out.append(file.name)
    return listing


def _listed(place: str, pattern: list[str]) -> Iterator[SourceFile]:
    files = _list_bucket(place) if buckets.is_uri(place) else _list_path(place)
    return (file for file in files if not pattern or _matches(file.name.split("/"), pattern))


class _KindsSeen:
    """Tells of which kinds files are, as they come by in whatever order."""

    def __init__(self) -> None:
        self._first = len(_KINDS)

    def seen(self, files: Iterable[SourceFile]) -> Iterator[SourceFile]:
        """Yields the files."""
        for file in files:
            for number in range(self._first):
                if _KINDS[number].is_name(file.name):
                    self._first = number
                    break
            yield file

    def first(self) -> _Kind | None:
        """The first kind of `_KINDS` that a file was of."""
        return _KINDS[self._first] if self._first < len(_KINDS) else None


def _split_glob(source: str) -> tuple[str, list[str]]:
    """The folder before a glob, and the glob's parts; none where the source is no glob."""
    if not _WILDCARD.search(source) or (not buckets.is_uri(source) and Path(source).exists()):
        return source, []
    parts = source.split("/")
    first = next(number for number, part in enumerate(parts) if _WILDCARD.search(part))
    return "/".join(parts[:first]) or ("/" if source.startswith("/") else "."), parts[first:]


def _matches(name: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "**":
        return _matches(name, pattern[1:]) or (bool(name) and _matches(name[1:], pattern))
    return bool(name) and fnmatch.fnmatchcase(name[0], pattern[0]) and _matches(name[1:], pattern[1:])


def fingerprint(source: str, index: str = "") -> tuple[str, str]:
    """Fingerprint and summary of `contents`."""
    found = contents(source, index)
    return found.fingerprint, found.summary


def contents(source: str, index: str = "") -> Contents:
    """Tells what a source holds now, without decoding it.

    In a bucket the checksums of the storage stand for the content; for `fashion-mnist` the published sums.

    Args:
        source: A source.
        index: Folder that keeps what was read of sources on this machine, so that only files that changed since are
            read (see `components.core.sources.index`); empty for none. What is returned does not depend on it.

    Raises:
        ConfigError, DataError: As `list_source`.
    """
    if source == DIGITS:
        content = digests.sha256_of_file(digits_file())
        return Contents(digests.digest_of({"kind": DIGITS, "sha256": content}), "1,797 digits of scikit-learn")
    if source == FASHION_MNIST:
        found = digests.digest_of({"kind": FASHION_MNIST, "md5": FASHION_MNIST_MD5})
        return Contents(found, "4 official IDX files, 30.9 MB")
    listing = list_source(source)
    if len(listing.left_out):
        expected = _plural(listing.kind)
        log.info(
            "left out %d files that are not %s by name: %s", len(listing.left_out), expected, _some(listing.left_out)
        )
    listed = heapq.merge(listing.files, [listing.labels] if listing.labels else [], key=lambda file: file.name)
    at_most = hashing.LARGEST_IMAGE_FILE if listing.kind == IMAGES else sys.maxsize
    checked = listed if buckets.is_uri(source) else _with_sha256(source, listed, index, at_most)
    # What `digests.digest_of` makes of the whole, which would not fit in memory.
    digest = hashlib.sha256(b'{"files":[')
    files, labels, between, size = LongList(make=SourceFile._make), None, b"", 0
    while some := [*itertools.islice(checked, _TOLD_AT_ONCE)]:
        told = digests.canonical_json([[file.name, file.bytes, file.checksum] for file in some])
        digest.update(between + told[1:-1])
        between = b","
        for file in some:
            if listing.labels is not None and file.name == LABELS:
                labels = file
            else:
                files.append(file)
                size += file.bytes
    digest.update(b'],"kind":%b}' % digests.canonical_json(listing.kind))
    what = {IMAGES: "images", ARCHIVES: "archives"}.get(listing.kind, _plural(listing.kind))
    summary = f"{len(files):,} {what}, {size / 1e6:,.1f} MB"
    return Contents(digest.hexdigest(), summary, dataclasses.replace(listing, files=files, labels=labels))


def digits_file() -> Path:
    """scikit-learn's file of handwritten digits: 65 columns of text, 64 pixels of 0 to 16 and the label; gzipped.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise ConfigError("source digits needs scikit-learn, which is not installed: pip install scikit-learn")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def open_file(place: str, checksum: str = "") -> BinaryIO:
    """Opens a source's file for reading, as stored: a gzipped one stays gzipped.

    Args:
        place: The file's path, or gs://BUCKET/NAME.
        checksum: What a bucket said of its content when it was listed; empty if that is not known. Of a path it is not
            looked at.

    Raises:
        DataError: The file is not there, is another by now, or may not be read.
    """
    try:
        return _open_object(place, checksum) if buckets.is_uri(place) else os.fdopen(_open_regular(place), "rb")
    except (FileNotFoundError, PermissionError) as error:
        raise _refused(place, error) from None


def _refused(place: str, error: OSError) -> DataError:
    if isinstance(error, PermissionError):
        return DataError(f"{printable(place)} may not be read: permission denied")
    return DataError(f"{printable(place)} is gone; the source changed while it was read")


def _open_object(uri: str, checksum: str) -> BinaryIO:
    """A copy of an object, which is gone when it is closed."""
    handle, path = tempfile.mkstemp()
    os.close(handle)
    try:
        buckets.download(uri, Path(path))
        if checksum and buckets.checksum_of_file(Path(path)) != checksum:
            raise DataError(f"{printable(uri)} changed since the source was fingerprinted; fingerprint it again")
        return open(path, "rb")
    finally:
        Path(path).unlink()


def _open_regular(place: str) -> int:
    """The handle of a file. Does not wait for what may have come in its place, such as a pipe that nobody writes to."""
    handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise FileNotFoundError(place)


def printable(name: str) -> str:
    """A file's name as text that can be written anywhere: what is not UTF-8 or not printable becomes an escape."""
    if name.isprintable():
        return name
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _list_path(source: str) -> Iterator[SourceFile]:
    root = Path(source)
    if not root.exists():
        raise DataError(
            f"source {source} does not exist; give a folder or a glob of images, or of IDX, NPZ or TFRecord "
            f"files, or an archive, or `{DIGITS}`, or `{FASHION_MNIST}`"
        )
    if root.is_dir():
        return _list_folder(source)
    return iter([_list_file(source)])


def _list_file(source: str) -> SourceFile:
    name = Path(source).name
    if not Path(source).is_file():
        raise DataError(f"source {source} is neither a folder nor a file")
    if not _is_source_alone(name):
        packed = name.lower().endswith(_UNREADABLE_SUFFIXES)
        remedy = "unpack it and give the folder" if packed else "give the folder that holds it"
        raise DataError(f"source {source} is a file; {remedy}")
    found = Path(source).stat()
    return SourceFile(printable(name), source, found.st_size, stamp_of(found))


def _is_source_alone(name: str) -> bool:
    return any(kind.alone and kind.is_name(name) for kind in _KINDS)


def _list_folder(source: str) -> Iterator[SourceFile]:
    root = Path(source)
    within = root.resolve()
    written: dict[str, str] = {}  # folders by how their names are written
    no_files: list[str] = []
    for folder, folders, names in os.walk(root, onerror=_raise_unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        if links:
            raise DataError(
                f"{printable(str(Path(folder, links[0])))} is a link to a folder; put the folder itself there"
            )
        # Text rather than paths: there may be a million files.
        here, prefix = _with_slash(Path(folder)), _with_slash(Path(folder).relative_to(root))
        shown = printable(prefix)
        if written.setdefault(shown, prefix) != prefix:
            raise DataError(
                f"source {source} holds two folders whose names are both written {shown}; rename one of them"
            )
        for name in names:
            if name.startswith("."):
                continue
            place = here + name
            try:
                found = os.lstat(place)
                if stat.S_ISLNK(found.st_mode):
                    if not Path(os.path.realpath(place)).is_relative_to(within):
                        raise DataError(f"{printable(place)} is a link out of the source; put the file itself there")
                    found = Path(place).stat()
            except FileNotFoundError:
                continue
            except OSError as error:  # a link that leads to itself, a name that is too long
                raise DataError(f"{printable(place)} cannot be followed: {os.strerror(error.errno or 0)}") from None
            if stat.S_ISREG(found.st_mode):
                yield SourceFile(printable(prefix + name), place, found.st_size, stamp_of(found))
            else:
                no_files.append(printable(prefix + name))
    if no_files:
        log.warning("left out %d that are pipes, sockets or devices: %s", len(no_files), _some(no_files))


def _with_slash(folder: Path) -> str:
    return "" if folder == Path() else f"{folder}/".replace("//", "/")


def _raise_unreadable(error: OSError) -> None:
    raise DataError(f"{printable(str(error.filename))} may not be read: {os.strerror(error.errno or 0)}")


def _list_bucket(source: str) -> Iterator[SourceFile]:
    uri, empty = source.rstrip("/"), True
    for file in itertools.chain(_list_object(uri) if _is_source_alone(uri) else [], _list_below(uri)):
        empty = False
        if not any(part.startswith(".") for part in file.name.split("/")) and not file.name.endswith("/"):
            yield file
    if empty:
        raise DataError(f"source {source} does not exist or is empty")


def _list_below(uri: str) -> Iterator[SourceFile]:
    """Lists a folder of a bucket with its checksums: a request for each 1,000 objects."""
    progress = _progress("listed")
    for number, stored in enumerate(buckets.each_below(uri), 1):
        name = printable(stored.uri.removeprefix(f"{uri}/"))
        yield SourceFile(name, stored.uri, stored.bytes, checksum=stored.crc32c)
        progress(number)


def _list_object(uri: str) -> Iterator[SourceFile]:
    """The object of just this URI, if there is one."""
    stored = buckets.stat(uri)
    if stored is not None:
        yield SourceFile(printable(uri.rpartition("/")[2]), uri, stored.bytes, checksum=stored.crc32c)


def _with_sha256(source: str, files: Iterable[SourceFile], index: str, at_most: int) -> Iterator[SourceFile]:
    """Files with their sha256, in place of a stamp: it has served then, and travels to no worker.

    Files of more than `at_most` bytes are not read: size and time of modification stand for their content.
    """
    seen, progress, count, files_read = SourceIndex(index, source), _progress("read"), 0, 0
    begun: deque[tuple[SourceFile, bool]] = deque()

    def known() -> Iterator[hashing.File]:
        for file in files:
            large = file.bytes > at_most
            sha256 = _digest_of_stamp(file) if large else seen.known(file.name, file.stamp)
            begun.append((file, bool(sha256)))
            yield hashing.File(file.place, file.bytes, sha256)

    for sha256 in hashing.hashed(known(), sha256_of_path):
        file, was_known = begun.popleft()
        count += 1
        if not was_known:
            files_read += 1
            progress(files_read)
        seen.keep(file.name, file.stamp, sha256)
        yield SourceFile(file.name, file.place, file.bytes, checksum=sha256)
    seen.write(files_read)
    if index:
        log.info("read %s of %s files; the others did not change since", f"{files_read:,}", f"{count:,}")


def _digest_of_stamp(file: SourceFile) -> str:
    size, modified = file.stamp.split()[:2]
    return hashlib.sha256(f"not read: {size} bytes, modified at {modified}".encode()).hexdigest()


def sha256_of_path(place: str, size: int) -> str:
    """sha256 (64 hexadecimal digits) of what is at a path or in a bucket, of any size.

    Args:
        place: Where.
        size: Its bytes, as far as is known.

    Raises:
        DataError: As `open_file`.
    """
    digest = hashlib.sha256()
    for block in _blocks(place, "", min(size + 1, _READ_AT_ONCE)):
        digest.update(block)
    return digest.hexdigest()


def content_of(file: SourceFile, at_most: int) -> bytes:
    """What a file of a source holds, or some more bytes of it than are asked for.

    Raises:
        DataError: As `open_file`.
    """
    found: list[bytes] = []
    for block in _blocks(file.place, file.checksum, min(file.bytes + 1, at_most)):
        found.append(block)
        at_most -= len(block)
        if at_most <= 0:
            break
    return found[0] if len(found) == 1 else b"".join(found)


def _blocks(place: str, checksum: str, at_once: int) -> Iterator[bytes]:
    """A file's content, so many bytes first, for which room is made: of a small file best one more than it has."""
    if buckets.is_uri(place):
        with open_file(place, checksum) as opened:
            yield from _read(opened.read, at_once)
        return
    # Without a Python file around the handle, which takes as long as a small file itself.
    try:
        handle = _open_regular(place)
    except (FileNotFoundError, PermissionError) as error:
        raise _refused(place, error) from None
    try:
        yield from _read(functools.partial(os.read, handle), at_once)
    finally:
        os.close(handle)


def _read(read: Callable[[int], bytes], at_once: int) -> Iterator[bytes]:
    while True:
        block = read(at_once)
        yield block
        if len(block) < at_once:
            return
        at_once = _READ_AT_ONCE  # what has more than was expected is read as what is large


def _progress(done: str) -> Callable[[int], None]:
    """Tells a number of files every few seconds."""
    told = time.monotonic()

    def tell(number: int) -> None:
        nonlocal told
        if time.monotonic() - told > _SECONDS_BETWEEN_LINES:
            log.info("%s %s files", done, f"{number:,}")
            told = time.monotonic()

    return tell


def _plural(kind: str) -> str:
    return next(each.plural for each in _KINDS if each.name == kind)


def _some(names: Iterable[str]) -> str:
    remaining = iter(names)
    shown = [*itertools.islice(remaining, _NAMES_SHOWN)]
    count = len(shown) + sum(1 for _ in remaining)
    more = f" and {count - _NAMES_SHOWN} more" if count > _NAMES_SHOWN else ""
    return ", ".join(shown) + more
