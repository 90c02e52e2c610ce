"""Image files in the order in which they come to lie in their shards, known before any is decoded.

What decides it is the sha256 of a file, which the listing has of files of this machine. So a shard can be made from its
first record to its last, and nothing has to be gathered.
"""

import itertools
import operator
import struct
from collections.abc import Iterable, Iterator
from typing import Any

from components import long_lists, records
from components.preprocess import placing
from components.preprocess.decoder import IMAGES_AT_ONCE
from components.preprocess.plan import Plan
from components.preprocess.rows import Key
from components.preprocess.survey import ImagesPart
from components.records import ImageShape
from components.sources import SourceFile

_SHARD = struct.Struct(">BQ")  # number of the split, number of the shard in it
_LABEL = struct.Struct(">Q")
_PIXEL_BYTES_AT_ONCE = 1 << 20
_Placed = tuple[
    bytes, str, int, tuple[Any, ...]
]  # what it is sorted by, the split it was found in, label, `SourceFile`


def in_shards(parts: Iterable[ImagesPart], plan: Plan) -> Iterator[tuple[Key, Iterator[ImagesPart]]]:
    """Yields the parts of each shard that a file goes to, in order; those of one shard before the next is asked for.

    Args:
        parts: All image files, each with its sha256.
        plan: How they become examples.
    """
    placed = long_lists.in_order((each for part in parts for each in _placed(part, plan)), key=operator.itemgetter(0))
    for shard, files in itertools.groupby(placed, key=lambda each: each[0][: _SHARD.size]):
        split, number = _SHARD.unpack(shard)
        yield (records.SPLITS[split], number), _parts(files, _images_at_once(plan.image))


def _placed(part: ImagesPart, plan: Plan) -> Iterator[_Placed]:
    hashes = [bytes.fromhex(file.sha256) for file, _, _ in part.images]
    splits, shards = placing.split_and_shard(hashes, [split for _, split, _ in part.images], plan)
    orders = placing.orders(hashes, plan)
    placed = zip(splits.tolist(), shards.tolist(), orders, part.images, strict=True)
    for split, shard, order, (file, found_in, label) in placed:
        above = label - records.NO_LABEL  # which is below all others
        yield _SHARD.pack(split, shard) + order + _LABEL.pack(above), found_in, label, tuple(file)


def _images_at_once(image: ImageShape) -> int:
    """How many images a part has: of large ones fewer, as parts that are done wait in memory for those before them."""
    return max(1, min(IMAGES_AT_ONCE, _PIXEL_BYTES_AT_ONCE // (image.height * image.width * image.channels)))


def _parts(files: Iterator[_Placed], at_once: int) -> Iterator[ImagesPart]:
    while some := [*itertools.islice(files, at_once)]:
        yield ImagesPart(tuple((SourceFile._make(file), found_in, label) for _, found_in, label, file in some))
