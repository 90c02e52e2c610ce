"""WebDataset: tar files in which files of one sample have one name, up to the first dot, and an ending each.

Beside an image, `.cls` has its label, a whole number as text; else `.json` has it in the field `label`, as text or a
whole number (github.com/webdataset/webdataset). Other files of a sample are passed over.
"""

import reprlib

from components.core.errors import DataError
from components.core.sources.files import SourceFile
from components.preprocess.formats import archives, labels
from components.preprocess.formats.archives import Member
from components.preprocess.formats.label_files import parse_json

_LARGEST_FILE = 1 << 20  # bytes of a label file, with its other fields


def labels_of(file: SourceFile, images: list[Member], others: list[Member]) -> dict[str, str]:
    """Return the labels of images of an archive by their names; none for those whose sample has no label."""
    samples = {_sample(image.name)[0] for image in images}
    members = [member for member in others if is_label(member.name) and member.bytes]
    members = [member for member in members if _sample(member.name)[0] in samples]
    for member in members:
        if member.bytes > _LARGEST_FILE:
            raise DataError(
                f"{file.name} has {member.name} of {member.bytes:,} bytes, expected {_LARGEST_FILE:,} at most"
            )
    label_of_sample: dict[str, str] = {}
    members.sort(key=lambda member: member.offset)
    for member, content in zip(members, archives.read_members(file, members), strict=True):
        key, ending = _sample(member.name)
        label = _label(f"{file.name}/{member.name}", ending, content)
        if label is not None and (ending == "cls" or key not in label_of_sample):
            label_of_sample[key] = label
    return {image.name: label_of_sample[key] for image in images if (key := _sample(image.name)[0]) in label_of_sample}


def is_label(name: str) -> bool:
    """Return whether a member of an archive may hold a label, by its name."""
    return _sample(name)[1] in ("cls", "json")


def _sample(name: str) -> tuple[str, str]:
    """Return the name of the sample and the ending of a member."""
    folder, slash, base = name.rpartition("/")
    key, _, ending = base.partition(".")
    return f"{folder}{slash}{key}", ending.lower()


def _label(where: str, ending: str, content: bytes) -> str | None:
    if ending == "json":
        value = parse_json(where, content)
        return labels.text_of(where, value.get("label")) if isinstance(value, dict) else None
    if not content.strip().isdigit():
        raise DataError(f"{where} holds {reprlib.repr(content)}, expected a whole number")
    return str(int(content))
