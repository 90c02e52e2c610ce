"""Rows on their way to shards, against tuples that are sorted one by one."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import records
from components.preprocess import rows
from components.preprocess.rows import Gathering, Key, Rows, Spilled
from components.records import ImageShape

IMAGE = ImageShape(2, 1, 1)
KIND = rows.row_type(IMAGE)
# Few hashes, so that some images come more than once, also with several labels.
HASHES = st.integers(0, 5).map(lambda number: bytes([number * 50] * 31 + [255 - number]))
EXAMPLES = st.lists(
    st.tuples(HASHES, st.integers(-1, 3), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=40
)


def made(examples: list[tuple[bytes, int, int, int]]) -> Rows:
    orders, labels, splits, shards = zip(*examples, strict=True)
    images = [order[:2] for order in orders]
    found = rows.rows_of(orders, labels, orders, images, KIND)
    return Rows(np.array(splits, np.uint8), np.array(shards, np.int64), found)


def as_tuples(found: np.ndarray) -> list[tuple[bytes, int, bytes, bytes]]:
    return [
        (row["order"].astype(">u8").tobytes(), int(row["label"]), row["content"].tobytes(), row["image"].tobytes())
        for row in found
    ]


@given(EXAMPLES)
def test_rows_are_in_the_order_of_their_hashes_as_bytes(examples: list[tuple[bytes, int, int, int]]) -> None:
    found = made(examples).rows
    expected = sorted((order, label, order, order[:2]) for order, label, _, _ in examples)
    assert as_tuples(found[rows.in_order(found)]) == expected


@given(st.lists(EXAMPLES, min_size=1, max_size=4), st.booleans())
def test_every_row_comes_to_its_shard(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[list[tuple[bytes, int, int, int]]], spilled: bool
) -> None:
    folder = tmp_path_factory.mktemp("spilled")
    found: dict[Key, list[bytes | Spilled]] = {}
    for chunk in chunks:
        groups = rows.by_shard([made(chunk), made(chunk)])
        places = rows.spill(groups, folder)
        for key, pieces in groups.items():
            found.setdefault(key, []).append(places[key] if spilled else rows.as_bytes(pieces))
    assert len([*folder.iterdir()]) == len(chunks)
    expected: dict[tuple[str, int], list[tuple[bytes, int, bytes, bytes]]] = {}
    for chunk in chunks:
        for order, label, split_number, shard in chunk * 2:
            place = records.SPLITS[split_number], shard
            expected.setdefault(place, []).append((order, label, order, order[:2]))
    assert found.keys() == expected.keys()
    gathering = Gathering()  # of shards of all sizes, one after the other
    for place, content in found.items():
        assert sorted(as_tuples(gathering.gathered(content, KIND))) == sorted(expected[place])


def test_nothing_to_gather() -> None:
    assert rows.by_shard([]) == {}
    assert len(Gathering().gathered([], KIND)) == 0


def test_a_file_of_rows_that_is_cut_short(tmp_path: Path) -> None:
    (place,) = rows.spill(rows.by_shard([made([(bytes(32), 0, 0, 0)])]), tmp_path).values()
    Path(place[0]).write_bytes(Path(place[0]).read_bytes()[:-1])
    with pytest.raises(OSError, match="cut short"):
        Gathering().gathered([place], KIND)
