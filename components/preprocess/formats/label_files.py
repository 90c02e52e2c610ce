"""The files of labels of a source: which of several counts, and how to read it.

- `labels.csv` has a header `file,label` or `file,label,split` and a row for each image: its path within the source,
  with `/`, the name of its class (empty in all rows where there are none), and its split (empty for `train`). Without
  a column `split` the folders say it.
- `dataset.json`, as StyleGAN's `dataset_tool.py` writes it at the top of a folder or zip file of images, is
  `{"labels": [["00000/img00000000.png", 6], ...]}`, with null for the list if there are no labels
  (github.com/NVlabs/stylegan3, dataset_tool.py). Folders such as `00000` are no classes.
- `metadata.jsonl` or `metadata.csv`, as Hugging Face's `datasets` reads them in a folder of images, have rows with
  `file_name`, the path of an image within the folder of the file, and `label`: text or a whole number
  (huggingface.co/docs/datasets/main/en/image_dataset). Other columns are ignored.
- In WebDataset's archives the files of a sample have one name, up to the first dot. Beside an image, `.cls` has its
  label, a whole number as text; else `.json` has it in the field `label` (github.com/webdataset/webdataset).
"""

import csv
import io
import json
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.files import SourceFile, open_file, printable
from components.preprocess.formats import archives, splits_and_labels
from components.preprocess.formats.archives import Member
from components.preprocess.formats.splits_and_labels import SPLIT_FOLDERS, Row, Table

LARGEST_FILE, _LARGEST_OF_SAMPLE = 64 << 20, 1 << 20  # bytes; they are read at once
_COLUMNS = (["file", "label"], ["file", "label", "split"])
# Where it is, for messages; path of an image; label and split, None for none. Only the first is checked.
_Line = tuple[str, Any, Any, str | None]


def read(paths: Collection[str], content_of: Callable[[str], bytes], owner: str = "") -> Table | None:
    """Read the files of the first format that any has, by their paths in a source or in an archive, their `owner`.

    `content_of` may return one byte more than `LARGEST_FILE`. Return None if no file has labels; `DataError` if a file
    is damaged, contradicts itself, or has more than 64 MiB.
    """
    for names, parse in _FORMATS:
        table: Table | None = None
        for path in paths:
            folder, slash, name = path.rpartition("/")
            if name not in names:
                continue
            where, content = owner + path, content_of(path)
            if len(content) > LARGEST_FILE:
                raise DataError(f"{where} has more than {LARGEST_FILE:,} bytes")
            try:
                lines = parse(where, content.decode("utf-8-sig"))
            except UnicodeDecodeError as error:
                raise DataError(f"{where} is not UTF-8: {error.reason} at byte {error.start:,}") from None
            if lines is not None:
                table = table or Table(where, {})
                _add(table, lines, folder + slash if names is source_listing.METADATA else "")
        if table:
            return table
    return None


def beside(files: Iterable[SourceFile]) -> Table | None:
    """Read files of labels beside images or archives."""
    by_path = {file.name: file for file in files}

    def content_of(path: str) -> bytes:
        with open_file(by_path[path]) as opened:
            return opened.read(LARGEST_FILE + 1)

    return read(by_path, content_of)


def sample_labels(file: SourceFile, images: list[Member], others: list[Member]) -> dict[str, str]:
    """Return the labels that WebDataset's files give images of an archive, by their names; samples may have none."""
    samples = {_sample(image.name)[0] for image in images}
    members = [member for member in others if is_of_sample(member.name) and member.bytes]
    members = [member for member in members if _sample(member.name)[0] in samples]
    for member in members:
        if member.bytes > _LARGEST_OF_SAMPLE:
            limit = f"expected {_LARGEST_OF_SAMPLE:,} at most"
            raise DataError(f"{file.name} has {member.name} of {member.bytes:,} bytes, {limit}")
    label_of_sample: dict[str, str] = {}
    members.sort(key=lambda member: member.offset)
    for member, content in zip(members, archives.read_members(file, members), strict=True):
        key, ending = _sample(member.name)
        where = f"{file.name}/{member.name}"
        if ending == "json":
            value = _parse_json(where, content)
            label = splits_and_labels.text_of(where, value.get("label")) if isinstance(value, dict) else None
            if label is not None:
                label_of_sample.setdefault(key, label)
        elif content.strip().isdigit():
            label_of_sample[key] = str(int(content))
        else:
            raise DataError(f"{where} holds {reprlib.repr(content)}, expected a whole number")
    return {image.name: label_of_sample[key] for image in images if (key := _sample(image.name)[0]) in label_of_sample}


def is_of_sample(name: str) -> bool:
    """Return whether a member of an archive may hold the label of a sample of WebDataset, by its name."""
    return _sample(name)[1] in ("cls", "json")


def _sample(name: str) -> tuple[str, str]:
    """Return the name of the sample and the ending of a member."""
    folder, slash, base = name.rpartition("/")
    key, _, ending = base.partition(".")
    return f"{folder}{slash}{key}", ending.lower()


def _add(table: Table, lines: Iterable[_Line], folder: str) -> None:
    for where, path, label, split in lines:
        if not isinstance(path, str):
            raise DataError(f"{where} has {reprlib.repr(path)}, expected the path of an image and its label")
        if split is not None and (split := split or "train") not in SPLIT_FOLDERS:
            raise DataError(f"{where} has split {split!r}, expected one of {', '.join(SPLIT_FOLDERS)}")
        path = folder + printable(path.removeprefix("./"))
        if path in table.rows:
            raise DataError(f"{where} has {path} for the second time; keep one of the two")
        table.rows[path] = Row(splits_and_labels.text_of(where, label), split and SPLIT_FOLDERS[split])


def _lines_of_labels(name: str, text: str) -> list[_Line]:
    columns, rows = _csv(name, text)
    if columns not in _COLUMNS:
        expected = " or ".join(map(",".join, _COLUMNS))
        raise DataError(f"{name} begins with {','.join(columns)!r}, expected a header {expected}")
    if not rows:
        raise DataError(f"{name} has a header alone, expected a row for each image")
    return [(where, row["file"], row["label"], row.get("split")) for where, row in rows]


def _lines_of_stylegan(name: str, text: str) -> list[_Line] | None:
    value = _parse_json(name, text)
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
            row = _parse_json(where, line)
            if not isinstance(row, dict):
                raise DataError(f"{where} is {reprlib.repr(row)}, expected an object")
            yield where, row


def _csv(name: str, text: str) -> tuple[list[str], list[tuple[str, dict[str, str]]]]:
    """Return the columns of a CSV file, and its rows that are not empty: where each is, for messages, and its cells."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns, rows = list[str](), []
    try:
        columns = [cell.strip() for cell in next(reader, [])]
        for cells in filter(None, reader):
            where = f"{name}, line {reader.line_num}"
            if len(cells) != len(columns):
                raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)}, as in its first line")
            rows.append((where, dict(zip(columns, cells, strict=True))))
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num} is no CSV: {error}") from None
    return columns, rows


def _parse_json(where: str, content: str | bytes) -> Any:
    """Parse JSON; `DataError` for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None


# Names of the files of a format, and its parser of a name for messages and the text: None for a file without labels.
_FORMATS: tuple[tuple[tuple[str, ...], Callable[[str, str], list[_Line] | None]], ...] = (
    ((source_listing.LABELS,), _lines_of_labels),
    ((source_listing.STYLEGAN,), _lines_of_stylegan),
    (source_listing.METADATA, _lines_of_metadata),
)
