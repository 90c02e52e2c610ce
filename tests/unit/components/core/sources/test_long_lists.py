"""Lists beyond memory, against lists."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.sources import long_lists
from components.core.sources.long_lists import LongList, in_order, sorted_list

ITEMS = st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3)), max_size=120)


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    """Ten items are held, and runs merged by threes, so that a hundred go every way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_lists, "_HELD", 10)
        patch.setattr(long_lists, "_AT_ONCE", 5)
        patch.setattr(long_lists, "_MERGED_AT_ONCE", 3)
        yield


@given(ITEMS)
def test_a_long_list_is_a_list(items: list[tuple[int, str]]) -> None:
    found = LongList(iter(items))
    assert len(found) == len(items)
    assert list(found) == items
    assert [*itertools.islice(found, 7)] == items[:7]
    # Two readers at once do not disturb each other.
    assert list(zip(found, found, strict=True)) == [(item, item) for item in items]


class Named(NamedTuple):
    """What is written as a plain tuple."""

    number: int
    text: str


@given(ITEMS)
def test_tuples_with_names_come_back_with_names(items: list[tuple[int, str]]) -> None:
    named = [Named._make(item) for item in items]
    for found in (LongList(named, Named._make), in_order(named, key=Named.__hash__, make=Named._make)):
        back = list(found)
        assert sorted(back) == sorted(named)
        assert all(type(item) is Named for item in back)


@given(ITEMS)
def test_sorted_as_sorted_does(items: list[tuple[int, str]]) -> None:
    found = sorted_list(iter(items), key=lambda item: item[0])
    assert list(found) == sorted(items, key=lambda item: item[0])
    assert len(found) == len(items)


def test_no_more_than_so_many_are_held() -> None:
    found = LongList(range(1000))
    assert len(found._held) < 10
    assert sum(found) == sum(range(1000))


@pytest.mark.parametrize("count", [9, 10, 31, 95, 1000])
def test_those_of_one_key_stay_in_order_through_every_level_of_merging(count: int) -> None:
    assert list(sorted_list(range(count), key=lambda item: item % 7)) == sorted(range(count), key=lambda item: item % 7)
