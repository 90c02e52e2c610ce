"""How far a job is, as several workers note it."""

import logging
import time
from pathlib import Path

import pytest

from components.preprocess import progress
from components.preprocess.progress import Done, Tally


def test_the_notes_of_all_workers_are_added(tmp_path: Path) -> None:
    tallies = [Tally(str(tmp_path)) for _ in range(3)]
    for number, tally in enumerate(tallies):
        tally.add(images=number + 1)
        tally.add(set_aside=number)
        tally.close()
    (tmp_path / "train-00000-of-00002.tfrecord").touch()
    (tmp_path / ".tmp-train-00001-of-00002.tfrecord-x").touch()
    (tmp_path / "progress-half").write_bytes(b"123")
    assert progress.done(tmp_path) == Done(6, 3, 1)
    tallies[0].add(images=10)
    tallies[0].close()
    assert progress.done(tmp_path) == Done(16, 3, 1)


def test_a_worker_that_cannot_note_goes_on(tmp_path: Path) -> None:
    tally = Tally(str(tmp_path / "gone"))
    tally.add(images=1)
    tally.close()
    assert progress.done(tmp_path / "gone") == Done(0, 0, 0)
    (tmp_path / "gone").mkdir()
    tally.add(images=2)
    tally.close()
    assert progress.done(tmp_path / "gone") == Done(3, 0, 0)


@pytest.mark.parametrize(
    ("now", "line"),
    [
        (Done(100, 0, 0), "100 of 1,000 images (10 %), 20 images/s, 45 s left"),
        (Done(97, 3, 0), "100 of 1,000 images (10 %), 20 images/s, 45 s left, 3 set aside"),
        (Done(0, 0, 0), "0 of 1,000 images (0 %), 0 images/s"),
        (Done(999, 1, 2), "all 1,000 images done, 1 set aside; 2 of 7 shards written"),
        (Done(1200, 0, 2), "all 1,000 images done; 2 of 7 shards written"),  # some were made twice
    ],
)
def test_what_is_told(now: Done, line: str) -> None:
    assert progress.line(now, Done(0, 0, 0), 5.0, 1000, 7) == line


def test_long_times_are_told_in_hours() -> None:
    assert "9 h 59 min left" in progress.line(Done(5, 0, 0), Done(0, 0, 0), 5.0, 35_945, 1)
    assert "1 min 05 s left" in progress.line(Done(5, 0, 0), Done(0, 0, 0), 5.0, 70, 1)


def test_it_is_told_every_few_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    tally = Tally(str(tmp_path))
    tally.add(images=30)
    tally.close()
    with caplog.at_level(logging.INFO), progress.told_progress(tmp_path, 40, 1):
        for _ in range(6000):
            if "30 of 40 images (75 %)" in caplog.text:
                return
            time.sleep(0.01)
    pytest.fail("nothing was told in a minute")
