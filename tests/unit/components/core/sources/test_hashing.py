"""Hashes of many files, against hashlib; and processes that die while they read."""

import contextlib
import hashlib
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from components.core.errors import DataError
from components.core.sources import concurrent, hashing
from components.core.sources.catalog import Checksum
from components.core.sources.files import SourceFile

FEW = 5


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start processes after five files rather than thousands, with three files in a request."""
    monkeypatch.setattr(hashing, "_FEW", FEW)
    monkeypatch.setattr(hashing, "_AT_ONCE", 3)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ProcessPoolExecutor]:
    """Collect the executors of processes made meanwhile."""
    found: list[ProcessPoolExecutor] = []
    processes = concurrent.processes

    @contextlib.contextmanager
    def noting() -> Iterator[ProcessPoolExecutor]:
        with processes() as executor:
            found.append(executor)
            yield executor

    monkeypatch.setattr(concurrent, "processes", noting)
    return found


def written(folder: Path, count: int) -> list[SourceFile]:
    """Files of all lengths, one of them with a name that is not UTF-8."""
    folder.mkdir()
    found = []
    for number in range(count):
        location = os.fsdecode(os.fsencode(folder / f"{number}") + (b"\xff\n" if number == 9 else b""))
        with open(location, "wb") as file:
            file.write(b"%d" % number * number * 40)
        found.append(SourceFile(f"{number}", location, number * 40))
    return found


def expected(files: list[SourceFile]) -> list[Checksum]:
    found = []
    for file in files:
        with open(file.location, "rb") as opened:
            found.append(Checksum(file.name, file.stamp, hashlib.sha256(opened.read()).hexdigest()))
    return found


@pytest.mark.parametrize("count", [0, 1, FEW - 1, FEW, FEW + 1, FEW + 3, 50])
def test_hashes_in_the_order_of_the_files(tmp_path: Path, started: list[ProcessPoolExecutor], count: int) -> None:
    files = written(tmp_path / "files", count)
    assert list(hashing.hashed(files)) == expected(files)
    assert bool(started) == (count > FEW)
    assert not multiprocessing.active_children()


def test_processes_that_are_killed_cost_time_alone(tmp_path: Path, started: list[ProcessPoolExecutor]) -> None:
    files = written(tmp_path / "files", 40)

    def killing() -> Iterator[SourceFile]:
        for number, file in enumerate(files):
            if number == 20:
                for process in multiprocessing.active_children():
                    process.kill()
                    process.join()
            yield file

    assert list(hashing.hashed(killing())) == expected(files)
    assert started


def test_a_file_that_is_gone_is_an_error_where_it_stood(tmp_path: Path) -> None:
    files = written(tmp_path / "files", 40)
    Path(files[30].location).unlink()
    results = hashing.hashed(files)
    assert [next(results) for _ in range(30)] == expected(files[:30])
    with pytest.raises(DataError, match="30 is gone"):
        next(results)


def test_no_process_is_left_when_results_are_given_up(tmp_path: Path, started: list[ProcessPoolExecutor]) -> None:
    results = hashing.hashed(written(tmp_path / "files", 40))
    for _ in range(10):
        next(results)
    assert started
    results.close()
    assert not multiprocessing.active_children()
