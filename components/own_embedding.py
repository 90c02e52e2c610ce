"""A user's own embedding: the setting that says where it lies, and the digest that says what it is.

Standard library only.
"""

from typing import Annotated

from components import digests, places, storage
from components.errors import DataError
from components.settings import Setting

GRAPH = "saved_model.pb"

OwnEmbedding = Annotated[
    str,
    Setting(
        "Folder of a SavedModel whose features are compared instead of those of the classifier; none when empty.",
        in_key=False,
        place=True,
    ),
]


def digest_of_content(place: str, expected: str = "") -> str:
    """sha256 (64 hexadecimal digits) over the names and the content of its files, wherever it lies; empty for none.

    Args:
        place: Its folder; empty for none.
        expected: If not empty, the digest that it must have.

    Raises:
        DataError: There is no SavedModel, or it has another digest.
    """
    if not place:
        return ""
    folder = places.fetched(place, GRAPH, "SavedModel")
    if not (folder / GRAPH).is_file():
        raise DataError(f"own_embedding {place} is no SavedModel: {GRAPH} is missing; give the folder that holds it")
    found = digests.digest_of(storage.files_in(folder))
    if expected and found != expected:
        raise DataError(f"own_embedding {place} has digest {found}, expected {expected}; run again if it was changed")
    return found
