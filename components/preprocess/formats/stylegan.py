"""`dataset.json`, as StyleGAN's `dataset_tool.py` writes it at the top of a folder or zip file of images.

It is `{"labels": [["00000/img00000000.png", 6], ...]}`, with null for the list if there are no labels
(github.com/NVlabs/stylegan3, dataset_tool.py). Folders such as `00000` are no classes.
"""

import json
import reprlib

from components.core.errors import DataError
from components.core.sources.files import printable
from components.preprocess.formats.labels import Row, Table


def parsed(name: str, content: bytes) -> Table | None:
    """Parse a file `dataset.json`; None if it is another program's."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is no JSON: {error}") from None
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
