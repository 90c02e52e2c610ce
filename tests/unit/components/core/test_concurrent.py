"""Work in threads: in order, taken as results are, and none begins after a failure."""

import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core import concurrent


@given(st.lists(st.integers()), st.integers(1, 4))
def test_results_come_in_the_order_of_their_items_which_are_taken_as_results_are(items: list[int], count: int) -> None:
    taken: list[int] = []

    def noting() -> Iterator[int]:
        for item in items:
            taken.append(item)
            yield item

    results = concurrent.in_threads(str, noting(), count)
    for number, result in enumerate(results):
        assert result == str(items[number])
        assert len(taken) <= number + count + 1
    assert taken == items


def test_as_many_run_at_once_as_there_are_threads_and_an_error_is_raised_for_its_result() -> None:
    together = threading.Barrier(3, timeout=60)
    assert list(concurrent.in_threads(lambda _: together.wait() < 3, range(9), 3)) == [True] * 9
    results = concurrent.in_threads(lambda item: 1 // item, [1, 1, 0, 1], 2)
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_transfer_begins_after_a_failure_which_is_raised_when_those_at_work_have_ended() -> None:
    began, ended = list[int](), list[int]()

    def transfer(number: int) -> None:
        began.append(number)
        if number == 3:
            raise ValueError("no")
        time.sleep(0.01)
        ended.append(number)

    with pytest.raises(ValueError, match="no"):
        list(concurrent.transfers(transfer, range(5000)))
    assert {*began} == {*ended, 3}
    assert 4 <= len(began) < 5000
