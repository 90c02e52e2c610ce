"""The file of labels of a source: which of several counts, and how to read it."""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from components.core.errors import DataError
from components.core.sources import sources
from components.core.sources.files import SourceFile, open_file
from components.preprocess.formats import image_folder, labels, stylegan
from components.preprocess.formats.labels import Table

LARGEST_FILE = 64 << 20  # bytes; it is read at once
# Names of the files of a format, and its reader, which takes a name for messages, the folder and the content.
_FORMATS: tuple[tuple[tuple[str, ...], Callable[[str, str, bytes], Table | None]], ...] = (
    ((sources.LABELS,), lambda name, _, content: labels.parsed(name, content)),
    ((sources.STYLEGAN,), lambda name, _, content: stylegan.parsed(name, content)),
    (sources.METADATA, image_folder.parsed),
)


class LabelFile(NamedTuple):
    """A file of labels, not read yet."""

    name: str  # for messages
    path: str  # within the source, or the archive that it is in
    read: Callable[[], bytes]  # may return one byte more than `LARGEST_FILE`


def read(files: Iterable[LabelFile]) -> Table | None:
    """Read the files of the first format that any of them has; None if none of them has labels.

    Raises:
        DataError: A file is damaged, contradicts itself, or has more than 64 MiB.
    """
    files = list(files)
    for names, parse in _FORMATS:
        tables = [_read(each, parse) for each in files if each.path.rpartition("/")[2] in names]
        found = [table for table in tables if table is not None]
        if found:
            return found[0] if len(found) == 1 else _merged(found)
    return None


def beside(files: Iterable[SourceFile]) -> Table | None:
    """Read files of labels beside images or archives."""
    return read(LabelFile(file.name, file.name, functools.partial(_content_of, file)) for file in files)


def _content_of(file: SourceFile) -> bytes:
    with open_file(file.location, file.checksum) as opened:
        return opened.read(LARGEST_FILE + 1)


def _read(file: LabelFile, parse: Callable[[str, str, bytes], Table | None]) -> Table | None:
    content = file.read()
    if len(content) > LARGEST_FILE:
        raise DataError(f"{file.name} has more than {LARGEST_FILE:,} bytes")
    return parse(file.name, file.path.rpartition("/")[0], content)


def _merged(tables: list[Table]) -> Table:
    merged = Table(tables[0].name, {})
    for table in tables:
        for path, row in (table.rows or {}).items():
            merged.add(path, row, table.name)
    return merged
