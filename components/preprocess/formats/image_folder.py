"""`metadata.jsonl` or `metadata.csv`, as Hugging Face's `datasets` reads them in a folder of images.

Each row has `file_name`, the path of an image within the folder of the file, and `label`: text or a whole number
(huggingface.co/docs/datasets/main/en/image_dataset). Other columns are ignored.
"""

import csv
import io
import json
import reprlib
from collections.abc import Iterable
from typing import Any

from components.core.errors import DataError
from components.core.sources.files import printable
from components.preprocess.formats.labels import Row, Table

_FILE, _LABEL = "file_name", "label"


def parsed(name: str, folder: str, content: bytes) -> Table | None:
    """Parse a file of labels in a folder; None if it is another program's, or has no labels."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: {error.reason} at byte {error.start:,}") from None
    return _table(name, folder, _json_rows(name, text) if name.endswith(".jsonl") else _csv_rows(name, text))


def _table(name: str, folder: str, rows: Iterable[tuple[str, dict[str, Any]]]) -> Table | None:
    table = Table(name, {})
    for where, row in rows:
        if _FILE not in row or _LABEL not in row:
            return None
        path, label = row[_FILE], "" if row[_LABEL] is None else row[_LABEL]
        if not isinstance(path, str) or isinstance(label, bool) or not isinstance(label, str | int):
            found = reprlib.repr({_FILE: path, _LABEL: label})
            raise DataError(f"{where} is {found}, expected the path of an image and text or a whole number")
        path = printable(path.removeprefix("./"))
        table.add(f"{folder}/{path}" if folder else path, Row(printable(str(label)), None), where)
    return table if table.rows else None


def _json_rows(name: str, text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{name}, line {number} is no JSON: {error}") from None
            if not isinstance(row, dict):
                raise DataError(f"{name}, line {number} is {reprlib.repr(row)}, expected an object")
            yield f"{name}, line {number}", row


def _csv_rows(name: str, text: str) -> Iterable[tuple[str, dict[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = next(reader, [])
        for cells in reader:
            where = f"{name}, line {reader.line_num}"
            if cells and len(cells) != len(columns):
                raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)}, as in its first line")
            if cells:
                yield where, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num} is no CSV: {error}") from None
