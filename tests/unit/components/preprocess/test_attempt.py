"""Work for an attempt, and the failure that ends it."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DataError, StageError, TransientError
from components.preprocess import attempt


def test_results_are_returned_and_the_attempt_goes_on(tmp_path: Path) -> None:
    assert attempt.results(str(tmp_path), lambda: range(3)) == [0, 1, 2]
    attempt.raise_failure(tmp_path)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DataError("x is damaged"), DataError, "^x is damaged$"),
        (OSError(errno.EIO, "broken"), OSError, r"^\[Errno 5\] broken: '{above}'$"),
        (TransientError("no decoder"), TransientError, "^no decoder$"),
        (StageError("odd"), StageError, "^odd$"),
        (MemoryError(), TransientError, "out of memory; give fewer images_per_shard"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/run"),
            OSError,
            "No space left on device: '/data/run'",
        ),
    ],
)
def test_the_first_failure_ends_the_attempt_and_is_raised(
    tmp_path: Path, error: Exception, kind: type[Exception], message: str
) -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise error

    assert attempt.results(str(tmp_path), fail) == []
    assert attempt.results(str(tmp_path), lambda: [1]) == []  # nobody needs it
    with pytest.raises(kind, match=message.format(above=tmp_path.parent)):
        attempt.raise_failure(tmp_path)


def test_a_defect_is_raised_where_it_is(tmp_path: Path) -> None:
    def fail() -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt.results(str(tmp_path), fail)


def test_nothing_is_done_for_a_folder_that_is_gone(tmp_path: Path) -> None:
    assert attempt.results(str(tmp_path / "gone"), lambda: [1]) == []
    assert not (tmp_path / "gone").exists()
