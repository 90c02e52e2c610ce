"""The file of labels of a source: which of several counts, and how to read it.

- `labels.csv` has a header `file,label` or `file,label,split` and a row for each image: its path within the source,
  with `/`, the name of its class (empty in all rows where there are none), and its split (empty for `train`). Without
  a column `split` the folders say it.
- `dataset.json`, as StyleGAN's `dataset_tool.py` writes it at the top of a folder or zip file of images, is
  `{"labels": [["00000/img00000000.png", 6], ...]}`, with null for the list if there are no labels
  (github.com/NVlabs/stylegan3, dataset_tool.py). Folders such as `00000` are no classes.
- `metadata.jsonl` or `metadata.csv`, as Hugging Face's `datasets` reads them in a folder of images, have rows with
  `file_name`, the path of an image within the folder of the file, and `label`: text or a whole number
  (huggingface.co/docs/datasets/main/en/image_dataset). Other columns are ignored.
"""

import csv
import functools
import io
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.formats.labels import SPLIT_FOLDERS, Row, Table

LARGEST_FILE = 64 << 20  # bytes; it is read at once
_COLUMNS = (["file", "label"], ["file", "label", "split"])
_FILE, _LABEL = "file_name", "label"


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
        parsed = [_read(file, parse) for file in files if file.path.rpartition("/")[2] in names]
        tables = [table for table in parsed if table is not None]
        if tables:
            return tables[0] if len(tables) == 1 else _merged(tables)
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


def parse_labels(name: str, _folder: str, content: bytes) -> Table:
    """Parse a file `labels.csv`."""
    rows = _csv_rows(name, content)
    _, header = next(rows, ("", []))
    columns = [cell.strip() for cell in header]
    if columns not in _COLUMNS:
        expected = " or ".join(map(",".join, _COLUMNS))
        raise DataError(f"{name} begins with {','.join(columns)!r}, expected a header {expected}")
    table = Table(name, {})
    for where, cells in rows:
        if cells:
            _add(table, cells, columns, where)
    return table


def _add(table: Table, cells: list[str], columns: list[str], where: str) -> None:
    if len(cells) != len(columns):
        raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)} ({','.join(columns)})")
    name, label = printable(cells[0].removeprefix("./")), printable(cells[1])
    split = cells[2] or "train" if len(cells) > 2 else None
    if split is not None and split not in SPLIT_FOLDERS:
        raise DataError(f"{where} has split {split!r}, expected one of {', '.join(SPLIT_FOLDERS)}")
    table.add(name, Row(label, split and SPLIT_FOLDERS[split]), where)


def parse_stylegan(name: str, _folder: str, content: bytes) -> Table | None:
    """Parse a file `dataset.json`; None if it is another program's."""
    value = parse_json(name, content)
    if not isinstance(value, dict) or "labels" not in value:
        return None
    if value["labels"] is None:
        return Table(name, None)
    if not isinstance(value["labels"], list):
        raise DataError(f"{name} has labels {reprlib.repr(value['labels'])}, expected a list of pairs, or null")
    table = Table(name, {})
    for number, entry in enumerate(value["labels"]):
        match entry:
            case [str(path), int(label)] if not isinstance(label, bool) and label >= 0:
                table.add(printable(path), Row(str(label), None), f"{name}, entry {number}")
            case _:
                raise DataError(
                    f"{name}, entry {number} is {reprlib.repr(entry)}, expected the path of an image and a whole number"
                )
    return table


def parse_metadata(name: str, folder: str, content: bytes) -> Table | None:
    """Parse a file `metadata.jsonl` or `metadata.csv`; None if it is another program's, or has no labels."""
    table = Table(name, {})
    for where, row in (_json_objects if name.endswith(".jsonl") else _csv_objects)(name, content):
        if _FILE not in row or _LABEL not in row:
            return None
        path, label = row[_FILE], "" if row[_LABEL] is None else row[_LABEL]
        if not isinstance(path, str) or isinstance(label, bool) or not isinstance(label, str | int):
            shown = reprlib.repr({_FILE: path, _LABEL: label})
            raise DataError(f"{where} is {shown}, expected the path of an image and text or a whole number")
        path = printable(path.removeprefix("./"))
        table.add(f"{folder}/{path}" if folder else path, Row(printable(str(label)), None), where)
    return table if table.rows else None


def _json_objects(name: str, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(_text(name, content).split("\n"), 1):
        if line.strip():
            where = f"{name}, line {number}"
            row = parse_json(where, line)
            if not isinstance(row, dict):
                raise DataError(f"{where} is {reprlib.repr(row)}, expected an object")
            yield where, row


def _csv_objects(name: str, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = _csv_rows(name, content)
    _, columns = next(rows, ("", []))
    for where, cells in rows:
        if cells and len(cells) != len(columns):
            raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)}, as in its first line")
        if cells:
            yield where, dict(zip(columns, cells, strict=True))


def _csv_rows(name: str, content: bytes) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a CSV file: where each is, for messages, and its cells."""
    reader = csv.reader(io.StringIO(_text(name, content), newline=""), strict=True)
    try:
        for cells in reader:
            yield f"{name}, line {reader.line_num}", cells
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num} is no CSV: {error}") from None


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: {error.reason} at byte {error.start:,}") from None


def parse_json(where: str, content: str | bytes) -> Any:
    """Parse JSON; `DataError` for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None


# Names of the files of a format, and its reader, which takes a name for messages, the folder and the content.
_FORMATS: tuple[tuple[tuple[str, ...], Callable[[str, str, bytes], Table | None]], ...] = (
    ((source_listing.LABELS,), parse_labels),
    ((source_listing.STYLEGAN,), parse_stylegan),
    (source_listing.METADATA, parse_metadata),
)
