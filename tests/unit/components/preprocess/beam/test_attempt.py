"""Work for an attempt, and the failure that ends it."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.core.errors import DataError, StageError, TransientError
from components.preprocess.attempt_files import AttemptFiles, Folder
from components.preprocess.beam import attempt


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DataError("x is damaged"), DataError, "^x is damaged$"),
        (OSError(errno.EIO, "broken"), OSError, r"^\[Errno 5\] broken: '{above}'$"),
        (TransientError("no decoder"), TransientError, "^no decoder$"),
        (StageError("odd"), StageError, "^odd$"),
        (MemoryError(), TransientError, "images_per_shard"),
        (OSError(errno.ENOSPC, "full", "/data/run"), OSError, r"^\[Errno 28\] full: '/data/run'$"),
        (PermissionError(errno.EACCES, "no", "/data/run"), PermissionError, r"^\[Errno 13\] no: '/data/run'$"),
    ],
)
def test_the_first_failure_ends_the_attempt_and_is_raised(
    tmp_path: Path, error: Exception, kind: type[Exception], message: str
) -> None:
    def fail(_: AttemptFiles) -> Iterator[int]:
        yield 1
        raise error

    assert attempt.results(str(tmp_path), fail) == []
    assert attempt.results(str(tmp_path), lambda _: [1]) == []  # nobody needs it
    with pytest.raises(kind, match=message.format(above=tmp_path.parent)):
        attempt.raise_failure(Folder(tmp_path))


def test_a_defect_is_raised_where_it_is(tmp_path: Path) -> None:
    def fail(_: AttemptFiles) -> list[int]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        attempt.results(str(tmp_path), fail)
    attempt.raise_failure(Folder(tmp_path))
    assert attempt.results(str(tmp_path / "gone"), fail) == []  # the attempt is over
