"""WebDataset: tar files in which files of one sample have one name, up to the first dot, and an ending each.

Beside an image, `.cls` has its label, a whole number as text; else `.json` has it in the field `label`, as text or a
whole number (github.com/webdataset/webdataset). Other files of a sample are passed over.
"""

import reprlib
from collections.abc import Iterator

from components.core.errors import DataError
from components.core.sources.files import SourceFile, printable
from components.preprocess.formats import archives
from components.preprocess.formats.archives import Member
from components.preprocess.formats.label_files import parse_json

_LARGEST_FILE = 1 << 20  # bytes of a label file, with its other fields
ENDINGS = ("cls", "json")


def labels_of(file: SourceFile, images: list[Member], others: list[Member]) -> dict[str, str]:
    """Return the labels of images of an archive by their names; none for those whose sample has no label."""
    samples = {_sample(image.name)[0] for image in images}
    labels: dict[str, str] = {}
    for key, ending, label in _labels(file, [member for member in others if _sample(member.name)[0] in samples]):
        if ending == "cls" or key not in labels:
            labels[key] = label
    return {image.name: labels[key] for image in images if (key := _sample(image.name)[0]) in labels}


def is_label(name: str) -> bool:
    """Return whether a member of an archive may hold a label, by its name."""
    return _sample(name)[1] in ENDINGS


def _sample(name: str) -> tuple[str, str]:
    """Return the name of the sample and the ending of a member."""
    folder, slash, base = name.rpartition("/")
    key, _, ending = base.partition(".")
    return f"{folder}{slash}{key}", ending.lower()


def _labels(file: SourceFile, members: list[Member]) -> Iterator[tuple[str, str, str]]:
    """Yield sample, ending and label of each member that has a label."""
    members = sorted((member for member in members if member.bytes), key=lambda member: member.offset)
    for member in members:
        if member.bytes > _LARGEST_FILE:
            raise DataError(
                f"{file.name} has {member.name} of {member.bytes:,} bytes, expected {_LARGEST_FILE:,} at most"
            )
    for member, content in zip(members, archives.read_members(file, members), strict=True):
        key, ending = _sample(member.name)
        label = (_of_cls if ending == "cls" else _of_json)(f"{file.name}/{member.name}", content)
        if label is not None:
            yield key, ending, label


def _of_cls(where: str, content: bytes) -> str:
    if not content.strip().isdigit():
        raise DataError(f"{where} holds {reprlib.repr(content)}, expected a whole number")
    return str(int(content))


def _of_json(where: str, content: bytes) -> str | None:
    value = parse_json(where, content)
    label = value.get("label") if isinstance(value, dict) else None
    if label is None:
        return None
    if isinstance(label, bool) or not isinstance(label, str | int):
        raise DataError(f"{where} has label {reprlib.repr(label)}, expected text or a whole number")
    return printable(str(label))
