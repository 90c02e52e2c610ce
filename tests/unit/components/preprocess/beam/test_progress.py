"""The progress of a job, from its workers' files."""

from pathlib import Path

import pytest

from components.preprocess import rows
from components.preprocess.attempt_files import AttemptFiles
from components.preprocess.beam import progress
from components.preprocess.beam.progress import Done


def leave(rows_at: Path, name: str, images: int, quarantined: int | None = None) -> None:
    """Files as a worker leaves them: rows of ten bytes, and the outcome of a chunk once it is done."""
    (rows_at / f"run-{name}.rows").write_bytes(bytes(10 * images))
    if quarantined is not None:
        AttemptFiles(str(rows_at)).leave(f"{name}.index", rows.Outcome(quarantined_count=quarantined))


def test_what_all_workers_have_done_is_added(tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    leave(tmp_path, "0", 4, 1)
    leave(tmp_path, "1", 2)
    (tmp_path / ".tmp-run-2.rows-x").write_bytes(bytes(10))  # being written
    (tmp_path / "train-00000-of-00002.tfrecord").touch()
    (tmp_path / ".tmp-train-00001-of-00002.tfrecord-x").touch()
    files = AttemptFiles(str(tmp_path))
    assert progress.done(files, 10, seen) == Done(6, 1, 1)
    leave(tmp_path, "1", 5, 2)
    assert progress.done(files, 10, seen) == Done(9, 3, 1)


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (Done(97, 3, 0), "100 of 1,000 images (10 %), 20 images/s, 45 s left, 3 quarantined"),
        (Done(10, 0, 0), "10 of 1,000 images (1 %), 2 images/s, 8 min 15 s left"),
        (Done(0, 0, 0), "0 of 1,000 images (0 %), 0 images/s"),
        (Done(999, 1, 2), "all 1,000 images done, 1 quarantined; 2 of 7 shards written"),
        (Done(1200, 0, 2), "all 1,000 images done; 2 of 7 shards written"),  # some were made twice
    ],
)
def test_what_is_reported(now: Done, line: str) -> None:
    assert progress.line(now, Done(0, 0, 0), 5.0, 1000, 7) == line
