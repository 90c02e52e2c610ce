"""Sources of images: their contents, and the fingerprint that changes with them.

A source is `digits`, `fashion-mnist`, or files of one kind (`_KINDS`): a folder of them, a glob, or one file, local or
in a bucket (gs://). Standard library only for local sources.
"""

import fnmatch
import hashlib
import importlib.util
import itertools
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from components.core.errors import ConfigError, DataError
from components.core.sources.catalog import Catalog, Checksum, Rows
from components.core.sources.files import LARGEST_IMAGE_FILE, SourceFile, open_file, printable, sha256_of
from components.core.sources.index import SourceIndex, stamp_of
from components.core.storage import buckets, digests

log = logging.getLogger(__name__)
Item = TypeVar("Item")

DIGITS = "digits"
FASHION_MNIST = "fashion-mnist"
IDX = "idx"
IMAGES = "images"
TFRECORDS = "tfrecord"
ARRAYS = "npz"
PARQUET = "parquet"
ARCHIVES = "archives"
CIFAR = "cifar"
NPY = "npy"
MATLAB = "mat"
PIXEL_TABLES = "csv"
# Files of labels beside images or archives, or in archives: the first format that occurs counts.
LABELS = "labels.csv"
STYLEGAN = "dataset.json"
METADATA = ("metadata.jsonl", "metadata.csv")
LABEL_NAMES = (LABELS, STYLEGAN, *METADATA)

# MD5 sums as published with the data set (github.com/zalandoresearch/fashion-mnist).
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
_IMAGE_NAME = r"\.(png|jpe?g|jfif|webp)$"
_IDX_NAME = rf"^(?!.*{_IMAGE_NAME})(.*/)?[^/]*((images|labels)[^/]*(idx|ubyte)|(idx|ubyte)[^/]*(images|labels))[^/]*$"
_ARCHIVE_NAME = r"\.(zip|tar|tar\.gz|tgz|tar\.bz2|tbz2)$"
_CIFAR_NAME = r"(^|/)((data|test)_batch(_\d)?|batches\.meta)$|(^|/)cifar[^/]*/(train|test|meta)$"
_MAY_HAVE_LABELS = r"\.(csv|tsv|jsonl|mat)$|(label|class|attr|annot|target)[^/]*\.(txt|json)$"
_NEXT_STEPS = {  # for files that are not read, by their names
    r"\.(zip|tar|tgz|gz|bz2|xz|txz|zst|7z|rar|001)$": "unpack archives first",
    r"\.(gif|bmp|tiff?|ppm|pgm|svg|heic|avif|jp2)$": "save the pictures as PNG first",
    r"\.(mdb|pkl|pickle|pt|pth|h5|hdf5|bin|ndjson)$": "save images as PNG files or arrays as NPZ first",
    r"\.arrow$": "save the table as Parquet, by `to_parquet` of `datasets`",
}
_WILDCARD = re.compile(r"[*?\[]")
_NAMES_SHOWN = 5
_SECONDS_BETWEEN_LINES = 5


class _Kind(NamedTuple):
    name: str
    plural: str  # name of its files in messages
    pattern: str  # of the names of its files
    alone: bool = False  # whether one file is a source
    has_labels: bool = False  # whether it may have files of labels


# In order of precedence: the first kind with a file is the kind of the source.
_KINDS = (
    _Kind(IDX, "IDX files", _IDX_NAME),
    _Kind(IMAGES, "PNG, JPEG or WebP images", _IMAGE_NAME, has_labels=True),
    _Kind(TFRECORDS, "TFRecord files", r"\.tfrec(ords?)?(-\d+-of-\d+)?(\.gz)?$", alone=True),
    _Kind(PARQUET, "Parquet files", r"\.parquet$", alone=True),
    _Kind(ARRAYS, "NPZ files", r"\.npz$", alone=True),
    _Kind(ARCHIVES, "archives (zip, tar, tar.gz, tar.bz2)", _ARCHIVE_NAME, True, True),
    _Kind(CIFAR, "batches of CIFAR", _CIFAR_NAME),
    _Kind(NPY, "NPY files", r"\.npy$", alone=True),
    _Kind(MATLAB, "MAT files", r"\.mat$", alone=True),
    _Kind(PIXEL_TABLES, "CSV files of pixels", r"\.csv$", alone=True),
)
_LARGER_COUNTS, _FAR_LARGER = 7, 10  # the first kinds, of which the one with so many times the bytes of others counts
_LABELS, _OTHERS = len(_KINDS), len(_KINDS) + 1  # the numbers of files of labels and of files of no kind
_NUMBERS = range(_OTHERS + 1)


class _Root:
    """The folder of all results, which is left out of a source that holds it."""

    def __init__(self, source: str, root: str) -> None:
        self.occurs = False  # whether the source held it
        places = [path.rstrip("/") if buckets.is_uri(path) else os.path.realpath(path) for path in (source, root)]
        self.is_source = root != "" and places[0] == places[1]
        self._place = "" if not root or f"{places[0]}/".startswith(f"{places[1]}/") else places[1]

    def holds(self, location: str) -> bool:
        """Return whether a location, or the place to which it links, is the root or below it."""
        place = location if buckets.is_uri(location) or not self._place else os.path.realpath(location)
        is_ours = self._place != "" and f"{place}/".startswith(f"{self._place}/")
        self.occurs |= is_ours
        return is_ours


class Listing:
    def __init__(self, catalog: Catalog, number: int, holds_root: bool, label_file: str) -> None:
        kind = _KINDS[number]
        self.label_file = label_file  # its path within the source; empty if none was named
        self.holds_root = holds_root  # whether it holds the folder of all results, which is left out
        self.kind, self.plural = kind.name, kind.plural
        self.catalog = catalog
        label_numbers = [_LABELS] if kind.has_labels else []
        self.numbers = [number, *label_numbers]  # in the catalog, of the files that are read
        self.files, self.names = catalog.files(number), catalog.names(number)  # of images, or of files with images
        self.labels = catalog.files(*label_numbers)  # files of labels beside images or archives
        self.left_out = catalog.names(*(other for other in _NUMBERS if other not in self.numbers))


class Contents(NamedTuple):
    """Contents of a source, as far as they are known without decoding."""

    fingerprint: str  # 64 hexadecimal digits over each file's name and content, at any location
    summary: str  # one short line for people
    listing: Listing | None = None  # with checksums; None for `digits` and `fashion-mnist`


def is_image_name(name: str) -> bool:
    return bool(re.search(_IMAGE_NAME, name, re.IGNORECASE))


def is_archive(name: str) -> bool:
    return bool(re.search(_ARCHIVE_NAME, name, re.IGNORECASE))


def is_cifar(name: str) -> bool:
    """Return whether a file is a batch of CIFAR, or has the names of its classes, by its path."""
    return bool(re.search(_CIFAR_NAME, name))


def list_source(source: str, root: str = "", label_file: str = "") -> Listing:
    """List a folder, a glob or one file: the files of the first kind of `_KINDS` that occurs, or of a far larger one.

    Hidden files and folders do not count, nor does anything below `root`, the folder of all results, if it is below the
    source. In a glob `*` and `?` stay within a name, `[...]` is one of some characters, `**` is any folders; names are
    relative to the last folder before the first of them. `label_file` is a file of labels within the source.
    `ConfigError` for URIs of other schemes than gs://, or if the root is the source itself; `DataError` if source or
    label file does not exist, if it holds no kind, or if a link leads out of it.
    """
    if "://" in source and not buckets.is_uri(source):
        raise ConfigError(
            f"source must be a folder or file of this machine or of a bucket, {buckets.SCHEME}BUCKET/FOLDER, or "
            f"`{DIGITS}`, or `{FASHION_MNIST}`, got {source}; copy it to one of these"
        )
    location, pattern = _split_glob(source)
    left_out = _Root(location, root)
    files = _list_bucket(location, left_out) if buckets.is_uri(location) else _list_path(location, left_out)
    label_file = label_file.removeprefix(f"{location.rstrip('/')}/")

    def is_label_file(name: str) -> bool:
        return label_file != "" and f"/{name}".endswith(f"/{label_file}")  # in several folders, if they have one each

    matching = (
        file for file in files if not pattern or is_label_file(file.name) or _matches(file.name.split("/"), pattern)
    )
    numbered = ((_LABELS if is_label_file(file.name) else _number_of(file.name), file) for file in matching)
    catalog = Catalog(source, numbered)
    number = _main_kind(catalog)
    names = catalog.names(*_NUMBERS)
    is_file = len(names) == 1 and [file.location for file in catalog.files(*_NUMBERS)] == [location]
    if number >= len(_KINDS) or (is_file and not _KINDS[number].alone):
        if not len(names):
            raise DataError(f"source {source} does not exist or holds nothing")
        remedy = next_steps(names) or ("; give the folder that holds the file" if is_file else "")
        first = next(iter(catalog.files(_OTHERS)), None)
        if first and not remedy and first.bytes <= LARGEST_IMAGE_FILE:
            with open_file(first) as opened:
                if opened.read(4).startswith((b"\x89PNG", b"\xff\xd8\xff", b"RIFF")):
                    remedy = f"; {first.name} is a picture: give such files an ending, .png, .jpg or .webp"
        kinds = ", ".join([*(kind.plural for kind in _KINDS), DIGITS, FASHION_MNIST])
        raise DataError(f"source {source} holds only {first_names(names)}{remedy} (read are {kinds})")
    is_flat = _KINDS[number].name == IDX or (len(pattern) == 1 and pattern != ["**"])  # results are in folders
    if left_out.is_source and not is_flat:
        raise ConfigError(f"root {root} is the folder of source {source} itself; give another, such as {root}/runs")
    if label_file and not any(map(is_label_file, catalog.names(_LABELS))) and _KINDS[number].name != ARCHIVES:
        raise DataError(f"label_file {label_file} is not in source {source}; give its path within the source")
    return Listing(catalog, number, left_out.occurs, label_file)


def next_steps(names: Iterable[str]) -> str:
    """Return the end of a message on files that are not read, by their names; empty if there is nothing to say."""
    steps = {step for name in names for ends, step in _NEXT_STEPS.items() if re.search(ends, name.lower())}
    return f"; {' and '.join(sorted(steps))}" if steps else ""


def _number_of(name: str) -> int:
    """Return the number of the first kind that a file's name fits."""
    if name.rpartition("/")[2] in LABEL_NAMES:
        return _LABELS
    return next((number for number, kind in enumerate(_KINDS) if re.search(kind.pattern, name, re.IGNORECASE)), _OTHERS)


def _main_kind(catalog: Catalog) -> int:
    """Return the number of the kind of a source: the first that occurs, unless another has far more bytes.

    A few previews beside a large file of images are not the images that are meant.
    """
    bytes_of = catalog.bytes_by_kind()
    total = sum(size for number, size in bytes_of.items() if number < _LARGER_COUNTS)
    for number, size in bytes_of.items():
        if number < _LARGER_COUNTS and size >= _FAR_LARGER * (total - size):
            return number
    return min(bytes_of, default=_OTHERS)


def is_glob(source: str) -> bool:
    return bool(_split_glob(source)[1])


def _split_glob(source: str) -> tuple[str, list[str]]:
    """Return the folder before a glob, and the glob's parts; none if the source is no glob."""
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


def contents(source: str, index: str = "", root: str = "", verbose: bool = True, label_file: str = "") -> Contents:
    """Fingerprint a source, of which `root` is no part, without decoding it; raises as `list_source`.

    In a bucket the storage's checksums replace the content, and for `fashion-mnist` the published sums. `index` is the
    folder of earlier checksums (see `components.core.sources.index`), empty for none; the result does not depend on it.
    Log what is left out if `verbose`.
    """
    if source == DIGITS:
        content = digests.sha256_of_file(digits_file())
        return Contents(digests.digest_of({"kind": DIGITS, "sha256": content}), "1,797 digits of scikit-learn")
    if source == FASHION_MNIST:
        fingerprint = digests.digest_of({"kind": FASHION_MNIST, "md5": FASHION_MNIST_MD5})
        return Contents(fingerprint, "4 official IDX files, 30.9 MB")
    listing = list_source(source, root, label_file)
    left_out = listing.left_out
    if listing.holds_root and verbose:
        log.info("left %s out of the source: it holds the results of runs", root)
    if len(left_out) and verbose:
        remedy, shown = next_steps(listing.catalog.names(_OTHERS)), first_names(left_out)
        message = "skipped %d files that are not %s by name: %s" + remedy
        log.log(logging.WARNING if remedy else logging.INFO, message, len(left_out), listing.plural, shown)
    if verbose:
        _warn_of_left_out(source, listing)
    if not buckets.is_uri(source):
        _hash(source, listing, index)
    digest, size = hashlib.sha256(b'{"files":['), 0  # as `digests.digest_of`, without holding everything in memory
    for number, file in enumerate(listing.catalog.files(*listing.numbers)):
        digest.update(b"," * (number > 0) + digests.canonical_json([file.name, file.bytes, file.checksum]))
        size += file.bytes
    digest.update(b'],"kind":%b}' % digests.canonical_json(listing.kind))
    size -= sum(file.bytes for file in listing.labels)
    noun = {IMAGES: "images", ARCHIVES: "archives"}.get(listing.kind, listing.plural)
    return Contents(digest.hexdigest(), f"{len(listing.files):,} {noun}, {size / 1e6:,.1f} MB", listing)


def _warn_of_left_out(source: str, listing: Listing) -> None:
    """Warn of files that may be images, or labels, and are not read."""
    others = [number for number in range(_LARGER_COUNTS) if number not in listing.numbers]
    if also := [_KINDS[number].plural for number in others if len(listing.catalog.files(number))]:
        message = "source %s holds %s, which are read, and %s, which are not; name one kind by a glob"
        log.warning(message, source, listing.plural, " and ".join(also))
    if len(listing.labels) or not _KINDS[listing.numbers[0]].has_labels:
        return
    if maybe := [name for name in listing.left_out if re.search(_MAY_HAVE_LABELS, name, re.IGNORECASE)]:
        log.warning("labels in %s are not read; if one has them, name it by --label-file", first_names(maybe))


def digits_file() -> Path:
    """Return scikit-learn's file of handwritten digits: gzipped text, 64 pixels of 0 to 16 and the label a line."""
    spec = importlib.util.find_spec("sklearn")  # finds the package without importing it
    if spec is None or spec.origin is None:
        raise ConfigError("source digits needs scikit-learn, which is not installed: pip install scikit-learn")
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def _list_path(source: str, left_out: _Root) -> Iterator[SourceFile]:
    """List a folder, or one file."""
    root = Path(source)
    if root.is_file():
        status = root.stat()
        yield SourceFile(printable(root.name), source, status.st_size, stamp_of(status))
    if not root.is_dir():
        return
    within, top = root.resolve(), f"{root}/".replace("//", "/")
    no_files: list[str] = []
    for folder, folders, names in os.walk(root, onerror=_raise_unreadable):
        here = f"{folder}/".replace("//", "/")  # text, because paths would be slow for a million files
        prefix = here.removeprefix(top)
        folders[:] = [name for name in folders if not (name.startswith(".") or left_out.holds(here + name))]
        for name in folders:
            if Path(here, name).is_symlink():
                raise DataError(f"{printable(here + name)} is a link to a folder; put the folder itself there")
        for name in names:
            location = here + name
            if name.startswith("."):
                continue
            try:
                status = os.lstat(location)
                if stat.S_ISLNK(status.st_mode):
                    if left_out.holds(location):
                        continue
                    if not Path(os.path.realpath(location)).is_relative_to(within):
                        raise DataError(f"{printable(location)} is a link out of the source; put the file itself there")
                    status = Path(location).stat()
            except FileNotFoundError:
                continue
            except OSError as error:  # a link that leads to itself, a name that is too long
                raise DataError(f"{printable(location)} cannot be followed: {os.strerror(error.errno or 0)}") from None
            if stat.S_ISREG(status.st_mode):
                yield SourceFile(printable(prefix + name), location, status.st_size, stamp_of(status))
            else:
                no_files.append(printable(prefix + name))
    if no_files:
        log.warning("skipped %d that are pipes, sockets or devices: %s", len(no_files), first_names(no_files))


def _raise_unreadable(error: OSError) -> None:
    raise DataError(f"{printable(str(error.filename))} may not be read: {os.strerror(error.errno or 0)}")


def _list_bucket(source: str, left_out: _Root) -> Iterator[SourceFile]:
    """List a folder of a bucket with its checksums, one request for every 1,000 objects; or one object."""
    uri = source.rstrip("/")
    objects = buckets.below(uri)
    first = next(objects, None) or (buckets.stat(uri) if buckets.split(uri)[1] else None)
    for stored in _logged(itertools.chain([first] if first else [], objects), "listed"):
        name = stored.uri.rpartition("/")[2] if stored.uri == uri else stored.uri.removeprefix(f"{uri}/")
        hidden = name.endswith("/") or any(part.startswith(".") for part in name.split("/"))
        if not (hidden or left_out.holds(stored.uri)):
            yield SourceFile(printable(name), stored.uri, stored.bytes, checksum=stored.crc32c)


def _hash(source: str, listing: Listing, folder: str) -> None:
    """Add the sha256 of local files to their catalog; of images too large to decode, that of their size and time."""
    catalog, numbers = listing.catalog, listing.numbers
    at_most = LARGEST_IMAGE_FILE if listing.kind == IMAGES else sys.maxsize
    index = SourceIndex(folder, source) if folder else None
    if index:
        catalog.note(index.entries())
    small = (file for file in catalog.unread(*numbers) if file.bytes <= at_most)
    hashed = (Checksum(file.name, file.stamp, sha256_of(file)) for file in small)
    files_read = catalog.note(_logged(hashed, "read"))
    if index:
        index.write(catalog.checksums(*numbers), files_read)
        count = len(catalog.files(*numbers))
        log.info("read %s of %s files; the others did not change since", f"{files_read:,}", f"{count:,}")
    for file in catalog.unread(*numbers):
        size, modified = file.stamp.split()[:2]
        digest = hashlib.sha256(f"not read: {size} bytes, modified at {modified}".encode()).hexdigest()
        catalog.note([Checksum(file.name, file.stamp, digest)])


def _logged(items: Iterable[Item], done: str) -> Iterator[Item]:
    """Yield items, and log every few seconds how many there were."""
    logged = time.monotonic()
    for number, item in enumerate(items, 1):
        if time.monotonic() - logged > _SECONDS_BETWEEN_LINES:
            log.info("%s %s files", done, f"{number:,}")
            logged = time.monotonic()
        yield item


def first_names(names: Rows[str] | list[str]) -> str:
    """Return the first few of some names as text, and how many more there are."""
    shown = ", ".join(itertools.islice(names, _NAMES_SHOWN))
    return f"{shown} and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else shown
