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
import io
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.formats import labels
from components.preprocess.formats.labels import SPLIT_FOLDERS, Row, Table

LARGEST_FILE = 64 << 20  # bytes; it is read at once
_COLUMNS = (["file", "label"], ["file", "label", "split"])
# Where it is, for messages; path of an image; label and split, None for none. Only the first is checked.
_Line = tuple[str, Any, Any, str | None]


def read(paths: Iterable[str], content_of: Callable[[str], bytes], owner: str = "") -> Table | None:
    """Read the files of the first format that any has, by their paths in a source or in an archive, their `owner`.

    `content_of` may return one byte more than `LARGEST_FILE`. Return None if no file has labels.

    Raises:
        DataError: A file is damaged, contradicts itself, or has more than 64 MiB.
    """
    paths = list(paths)
    for names, parse in _FORMATS:
        table: Table | None = None
        for path in paths:
            folder, slash, name = path.rpartition("/")
            lines = parse(owner + path, _text(owner + path, content_of(path))) if name in names else None
            if lines is not None:
                table = table or Table(owner + path, {})
                _add(table, lines, folder + slash if names is source_listing.METADATA else "")
        if table:
            return table
    return None


def beside(files: Iterable[SourceFile]) -> Table | None:
    """Read files of labels beside images or archives."""
    by_path = {file.name: file for file in files}

    def content_of(path: str) -> bytes:
        with open_file(by_path[path].location, by_path[path].checksum) as opened:
            return opened.read(LARGEST_FILE + 1)

    return read(by_path, content_of)


def _text(name: str, content: bytes) -> str:
    if len(content) > LARGEST_FILE:
        raise DataError(f"{name} has more than {LARGEST_FILE:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: {error.reason} at byte {error.start:,}") from None


def _add(table: Table, lines: Iterable[_Line], folder: str) -> None:
    for where, path, label, split in lines:
        if not isinstance(path, str):
            raise DataError(f"{where} has {reprlib.repr(path)}, expected the path of an image and its label")
        if split is not None and (split := split or "train") not in SPLIT_FOLDERS:
            raise DataError(f"{where} has split {split!r}, expected one of {', '.join(SPLIT_FOLDERS)}")
        path = folder + printable(path.removeprefix("./"))
        if path in table.rows:
            raise DataError(f"{where} has {path} for the second time; keep one of the two")
        table.rows[path] = Row(labels.text_of(where, label), split and SPLIT_FOLDERS[split])


def _lines_of_labels(name: str, text: str) -> list[_Line]:
    columns, rows = _csv(name, text)
    if columns not in _COLUMNS:
        expected = " or ".join(map(",".join, _COLUMNS))
        raise DataError(f"{name} begins with {','.join(columns)!r}, expected a header {expected}")
    lines = [(where, row["file"], row["label"], row.get("split")) for where, row in rows]
    if not lines:
        raise DataError(f"{name} has a header alone, expected a row for each image")
    return lines


def _lines_of_stylegan(name: str, text: str) -> list[_Line] | None:
    value = parse_json(name, text)
    if not isinstance(value, dict) or "labels" not in value:
        return None  # another program's
    entries = value["labels"] or []
    if not isinstance(entries, list):
        raise DataError(f"{name} has labels {reprlib.repr(entries)}, expected a list of pairs, or null")
    lines = []
    for number, entry in enumerate(entries):
        is_pair = isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], int) and entry[1] >= 0
        lines.append((f"{name}, entry {number}", *(entry if is_pair else (entry, None)), None))
    return lines


def _lines_of_metadata(name: str, text: str) -> list[_Line] | None:
    lines: list[_Line] = []
    for where, row in _json_objects(name, text) if name.endswith(".jsonl") else _csv(name, text)[1]:
        if "file_name" not in row or "label" not in row:
            return None  # another program's, or captions
        lines.append((where, row["file_name"], row["label"], None))
    return lines or None


def _json_objects(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{name}, line {number}"
            row = parse_json(where, line)
            if not isinstance(row, dict):
                raise DataError(f"{where} is {reprlib.repr(row)}, expected an object")
            yield where, row


def _csv(name: str, text: str) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Return the columns of a CSV file, and its rows that are not empty: where each is, for messages, and its cells."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns, rows = list[str](), []
    try:
        columns = [cell.strip() for cell in next(reader, [])]
        for cells in reader:
            where = f"{name}, line {reader.line_num}"
            if cells and len(cells) != len(columns):
                raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)}, as in its first line")
            if cells:
                rows.append((where, dict(zip(columns, cells, strict=True))))
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num} is no CSV: {error}") from None
    return columns, rows


def parse_json(where: str, content: str | bytes) -> Any:
    """Parse JSON; `DataError` for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None


# Names of the files of a format, and its parser, which takes a name for messages and the text; it returns None for
# a file without labels.
_FORMATS: tuple[tuple[tuple[str, ...], Callable[[str, str], list[_Line] | None]], ...] = (
    ((source_listing.LABELS,), _lines_of_labels),
    ((source_listing.STYLEGAN,), _lines_of_stylegan),
    (source_listing.METADATA, _lines_of_metadata),
)
