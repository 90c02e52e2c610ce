"""Work in threads and processes, against a plain loop; and processes that end with their parent."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

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


def test_processes_end_with_the_block_in_the_middle_of_work() -> None:
    began = time.monotonic()
    with concurrent.processes() as executor:
        future = executor.submit(time.sleep, 60)
        while not future.running():
            time.sleep(0.01)
    assert time.monotonic() - began < 30
    assert not multiprocessing.active_children()


_PARENT = """
import os, sys, time
from components.core.sources import concurrent
if __name__ == "__main__":
    with concurrent.processes() as executor:
        print(executor.submit(os.getpid).result(), flush=True)
        executor.submit(time.sleep, 60).result()
"""


def test_processes_end_with_a_parent_that_is_killed_and_ignore_an_interrupt(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(_PARENT)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        ignored = Path(f"/proc/{child}/status").read_text().partition("SigIgn:")[2].split()[0]
        assert int(ignored, 16) & 1 << (signal.SIGINT - 1)
        parent.kill()
        # The child holds the pipe, too: reading it to the end waits for all to be gone.
        assert parent.stdout.read() == b""
