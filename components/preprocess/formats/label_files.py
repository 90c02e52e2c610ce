"""The files of labels of a source: which of several counts, and how to read it.

- Tables: CSV, text with columns apart at tabs, semicolons or blanks, or JSON, with a row for each image. Columns
  are known by their names: the image's path, its label, and perhaps its split (empty for `train`). `labels.csv` is one,
  `metadata.jsonl` and `metadata.csv` of Hugging Face's `datasets`
  (huggingface.co/docs/datasets/main/en/image_dataset), and the file that `label_file` names, which may lack a header
  as MedMNIST's do, or have a count above it as CelebA's.
- `dataset.json`, as StyleGAN's `dataset_tool.py` writes it at the top of a folder or zip file of images, is
  `{"labels": [["00000/img00000000.png", 6], ...]}`, with null for the list if there are no labels
  (github.com/NVlabs/stylegan3, dataset_tool.py).
- A file `.mat` that `label_file` names has an array of whole numbers, one for each image by name.
- In WebDataset's archives the files of a sample have one name, up to the first dot. Beside an image, `.cls` has its
  label; else `.json` has it in a field (github.com/webdataset/webdataset).
"""

import codecs
import csv
import io
import json
import logging
import reprlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from components.core.errors import DataError
from components.core.sources import source_listing
from components.core.sources.catalog import Rows
from components.core.sources.files import SourceFile, open_file, printable
from components.core.sources.source_listing import first_names, is_image_name
from components.preprocess.formats import archives, labels, whole_files
from components.preprocess.formats.archives import Member
from components.preprocess.formats.folders import SPLIT_OF_WORD, is_split, without_ending, words_of
from components.preprocess.formats.labels import Label, LabelChoice

log = logging.getLogger(__name__)

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
LARGEST_FILE, _LARGEST_OF_SAMPLE = 64 << 20, 1 << 20  # bytes; they are read at once
# Columns by name, the first that occurs.
_PATHS = ("file", "file_name", "filename", "image_name", "image_id", "image", "img", "path", "id", "name")
_SPLITS = ("split", "subset", "set", "usage", "partition", "phase")
_FALSE, _TRUE = ("0", "0.0", "False"), ("1", "1.0", "True")
# Where it is, for messages; path of an image; label and split, None for none. Only the first is checked.
_Line = tuple[str, Any, Any, str | None]
Names = Rows[str] | list[str]  # the paths of images


class Row(NamedTuple):
    """Label and split of an image in a file of labels."""

    label: Label
    split: str | None  # None if the file has no splits


class Table(NamedTuple):
    """Contents of a file of labels."""

    name: str  # of the file, for messages
    rows: dict[str, Row]  # by the paths of images; empty if no image has a label

    def of(self, paths: Names, passed_over: str, choice: LabelChoice) -> dict[str, Row]:
        """Return the rows by the path of each image; `DataError` if one has none, or a row has no image.

        Rows name images by their paths, perhaps without the folders that are passed over; or by their names alone,
        perhaps without endings. Rows of a chosen file may have no image.
        """
        if not self.rows:
            return dict.fromkeys(paths, Row(None, None))
        for key in (str, lambda path: path.removeprefix(passed_over), _base_name, _stem):
            rows = {key(path): row for path, row in self.rows.items()}
            keys = [key(path) for path in paths]
            if any(path in rows for path in keys):
                break
        images = set(keys)
        if len(images) < len(keys) or len(rows) < len(self.rows):
            raise DataError(f"{self.name} cannot tell images apart that have one path or name; rename them")
        unknown = [path for path in rows if path not in images]
        if unknown and not (choice.file and len(unknown) < len(rows)):
            raise DataError(
                f"{self.name} has {len(unknown):,} files that are not there, first {unknown[0]}; remove them, or "
                "give their paths within the source"
            )
        if unknown:
            log.info("%s has %s rows without an image", self.name, f"{len(unknown):,}")
        if missing := [path for path, short in zip(paths, keys, strict=True) if short not in rows]:
            raise DataError(
                f"{self.name} has no row for {len(missing):,} images, first {missing[0]}; add them, or leave these "
                "images out by a glob"
            )
        return {path: rows[short] for path, short in zip(paths, keys, strict=True)}


def read(
    files: Collection[str], content_of: Callable[[str], bytes], choice: LabelChoice, images: Names, owner: str = ""
) -> Table | None:
    """Read the files of the first format that any has, by their paths in a source or in an archive, their `owner`.

    `content_of` may return one byte more than `LARGEST_FILE`; `images` are the paths of images. Return None if no file
    has labels; `DataError` if a file is damaged, contradicts itself, or has more than 64 MiB.
    """
    formats = [(source_listing.LABELS,), (source_listing.STYLEGAN,), source_listing.METADATA]
    for names in [(choice.file,)] if choice.file else formats:
        table: Table | None = None
        for path in files:
            folder, slash, name = path.rpartition("/")
            if path not in names and name not in names:
                continue
            where, content = owner + path, content_of(path)
            if len(content) > LARGEST_FILE:
                raise DataError(f"{where} has more than {LARGEST_FILE:,} bytes")
            if name.endswith(".mat"):
                in_order = zip(sorted(images), whole_files.labels_in(where, content, choice, len(images)), strict=True)
                lines: list[_Line] | None = [(where, image, label, None) for image, label in in_order]
            else:
                lines = _lines(where, name, _decoded(where, content), choice)
            if lines is not None:
                table = table or Table(where, {})
                _add(table, lines, folder + slash)
        if table:
            return table
    return None


def beside(files: Iterable[SourceFile], choice: LabelChoice, images: Names) -> Table | None:
    """Read files of labels beside images or archives."""
    by_path = {file.name: file for file in files}

    def content_of(path: str) -> bytes:
        with open_file(by_path[path]) as opened:
            return opened.read(LARGEST_FILE + 1)

    return read(by_path, content_of, choice, images)


def sample_labels(
    file: SourceFile, images: list[Member], others: list[Member], choice: LabelChoice
) -> dict[str, Label]:
    """Return the labels that WebDataset's files give images of an archive, by their names; samples may have none."""
    members = sorted((member for member in others if is_of_sample(member.name)), key=lambda member: member.offset)
    endings = Counter((_sample(member.name), _ending(member.name)) for member in members)
    # Names of samples may have dots although the format takes the first one for their end.
    key_of = _sample if max(endings.values(), default=0) < 2 else without_ending
    samples = Counter(key_of(image.name) for image in images)
    members = [member for member in members if member.bytes and key_of(member.name) in samples]
    for member in members:
        if member.bytes > _LARGEST_OF_SAMPLE:
            limit = f"expected {_LARGEST_OF_SAMPLE:,} at most"
            raise DataError(f"{file.name} has {member.name} of {member.bytes:,} bytes, {limit}")
    label_of_sample: dict[str, Label] = {}
    fields: dict[str, None] = {}  # of JSON
    for member, content in zip(members, archives.read_members(file, members), strict=True):
        where, key = f"{file.name}/{member.name}", key_of(member.name)
        if _ending(member.name) == "json":
            value = _parse_json(where, content)
            value = value if isinstance(value, dict) else {}
            fields |= dict.fromkeys(value)
            label_of_sample.setdefault(key, labels.label_of(where, value.get(labels.field_of(value, choice.column))))
        else:
            if (label := labels.label_of(where, content)) is not None:
                label_of_sample[key] = int(label) if str(label).isdigit() else label
    if fields and not any(label is not None for label in label_of_sample.values()):
        labels.choose(file.name, [*fields], choice)  # says which may have labels
    if repeated := [key for key, count in samples.items() if count > 1 and key in label_of_sample]:
        shown = first_names(repeated)
        log.warning("%d samples of %s have several images, which all count: %s", len(repeated), file.name, shown)
    label_of = {image.name: label_of_sample.get(key_of(image.name)) for image in images}
    return {name: label for name, label in label_of.items() if label is not None}


def is_of_sample(name: str) -> bool:
    """Return whether a member of an archive may hold the label of a sample of WebDataset, by its name."""
    return _ending(name) in ("cls", "json")


def _ending(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _sample(name: str) -> str:
    """Return the name of the sample of a member: up to the first dot."""
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{base.partition('.')[0]}"


def _base_name(path: str) -> str:
    return path.rpartition("/")[2]


def _stem(path: str) -> str:
    name = _base_name(path)
    return without_ending(name) if is_image_name(name) else name


def _decoded(where: str, content: bytes) -> str:
    try:
        return content.decode("utf-16" if content.startswith(_UTF_16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8: {error.reason} at byte {error.start:,}; save it as CSV UTF-8") from None


def _add(table: Table, lines: Iterable[_Line], folder: str) -> None:
    for where, path, label, split in lines:
        if not isinstance(path, str):
            raise DataError(f"{where} has {reprlib.repr(path)}, expected the path of an image and its label")
        path = folder + printable(path.strip().replace("\\", "/").removeprefix("./"))
        if path in table.rows:
            raise DataError(f"{where} has {path} for the second time; keep one of the two")
        table.rows[path] = Row(labels.label_of(where, label), split)


def _lines(where: str, name: str, text: str, choice: LabelChoice) -> list[_Line] | None:
    if name == source_listing.STYLEGAN:
        return _lines_of_stylegan(where, text)
    columns, rows = _rows_of_json(where, text) if name.endswith((".json", ".jsonl")) else _rows_of_text(where, text)
    is_meant = name == source_listing.LABELS or choice.file != ""  # and not another program's, or captions
    if is_meant and not rows:
        raise DataError(f"{where} has a header alone, expected a row for each image")
    known = {column.lower(): column for column in columns}
    named = [column for column in columns if is_image_name(str(rows[0][1].get(column)))] if rows else []
    path = next((known[name] for name in _PATHS if name in known), named[0] if named else columns[0] if columns else "")
    split = next((known[name] for name in _SPLITS if name in known), "")
    if columns[:1] == ["1"]:  # there is no header
        split = next((column for column in columns if all(is_split(row[column]) for _, row in rows)), "")
    others = [column for column in columns if column not in (path, split)]
    may_be_classes = is_meant and len(others) > 1 and not labels.field_of(others, choice.column)
    if may_be_classes and all(str(row.get(column)) in (*_FALSE, *_TRUE) for _, row in rows for column in others):
        return [(at, row.get(path), _only_true(at, row, others), _split(at, row.get(split), split)) for at, row in rows]
    label = labels.choose(where, others, choice, others[0] if is_meant and len(others) == 1 else "")
    if not label and is_meant:
        raise DataError(f"{where} has the columns {', '.join(columns)}; say by --label-column which has the labels")
    if not label:
        return None
    if {str(row.get(label)) for _, row in rows} == {"-1", "1"}:  # an attribute of CelebA's
        rows = [(at, {**row, label: label if str(row[label]) == "1" else f"not {label}"}) for at, row in rows]
    return [(at, row.get(path), row.get(label), _split(at, row.get(split), split)) for at, row in rows]


def _only_true(where: str, row: dict[str, Any], columns: list[str]) -> str:
    """Return the column of a row that is true, as of a table with a column for each class."""
    true = [column for column in columns if str(row.get(column)) in _TRUE]
    if len(true) != 1:
        counted = f"{len(true)} of its columns are 1 ({', '.join(true) or 'none'})"
        raise DataError(f"{where} has no single label: {counted}; choose one column by --label-column")
    return true[0]


def _split(where: str, value: Any, column: str) -> str | None:
    """Return the split that a cell says, `train` if it is empty; None without a column of splits."""
    if not column:
        return None
    words = SPLIT_OF_WORD.keys() & words_of(str(value or "train"))
    if len(words) != 1:
        raise DataError(f"{where} has {column} {value!r}, expected train, validation or test")
    return SPLIT_OF_WORD[words.pop()]


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


def _rows_of_json(name: str, text: str) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Return as `_rows_of_text`, of lines of objects, of a list of objects, or of an object of labels by paths."""
    if name.endswith(".jsonl"):
        lines = [(f"{name}, line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        rows = [(where, _parse_json(where, line)) for where, line in lines]
    else:
        value = _parse_json(name, text)
        if isinstance(value, dict):
            value = [{"file": path, "label": label} for path, label in value.items()]
        entries = value if isinstance(value, list) else [value]
        rows = [(f"{name}, entry {number}", row) for number, row in enumerate(entries)]
    for where, row in rows:
        if not isinstance(row, dict):
            raise DataError(f"{where} is {reprlib.repr(row)}, expected an object")
    return [*dict.fromkeys(column for _, row in rows for column in row)], rows


def _rows_of_text(name: str, text: str) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Return the columns of a table, and its rows that are not empty: where each is, for messages, and its cells.

    Columns are numbered from 1 if the first row names an image.
    """
    begin = "".join(text.split("\n", 2)[:2])
    delimiter = next((mark for mark in ",\t;" if mark in begin), " ")
    if delimiter == " ":
        text = "\n".join(line.strip() for line in text.split("\n"))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    rows = list[tuple[str, list[str]]]()
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            rows += [(f"{name}, line {reader.line_num}", stripped)] if any(stripped) else []
    except csv.Error as error:
        raise DataError(f"{name}, line {reader.line_num} is no CSV: {error}") from None
    if len(rows) > 1 and len(rows[0][1]) == 1 and rows[0][1][0].isdigit():
        del rows[0]  # the number of rows, as in CelebA
    columns = rows[0][1] if rows else []
    if any(map(is_image_name, columns)):
        columns = [str(number) for number in range(1, len(columns) + 1)]
    else:
        del rows[:1]
        columns = ["file"] * (bool(rows) and len(rows[0][1]) == len(columns) + 1) + columns
    for where, cells in rows:
        if len(cells) != len(columns):
            raise DataError(f"{where} has {len(cells)} cells, expected {len(columns)}, as in its first line")
    return columns, [(where, dict(zip(columns, cells, strict=True))) for where, cells in rows]


def _parse_json(where: str, content: str | bytes) -> Any:
    """Parse JSON; `DataError` for anything else."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no JSON: {error}") from None
