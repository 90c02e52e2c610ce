"""Work in threads, against a plain loop."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.sources import concurrent


@given(st.lists(st.integers()), st.integers(1, 4))
def test_results_come_in_the_order_of_their_items(items: list[int], count: int) -> None:
    assert list(concurrent.in_threads(str, items, count)) == [str(item) for item in items]


def test_as_many_run_at_once_as_there_are_threads() -> None:
    together = threading.Barrier(3, timeout=60)
    assert list(concurrent.in_threads(lambda _: together.wait() < 3, range(9), 3)) == [True] * 9


def test_items_are_taken_as_results_are() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = concurrent.in_threads(str, items(), 2)
    assert next(results) == "0"
    assert len(taken) == 3
    results.close()
    assert len(taken) == 3


def test_what_fails_fails_where_its_result_is_asked_for() -> None:
    results = concurrent.in_threads(lambda item: 1 // item, [1, 1, 0, 1], 2)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)
