"""Shards are gathered from workers' files, or something is missing."""

from pathlib import Path

import pytest

from components.core.errors import TransientError
from components.preprocess import shards
from components.preprocess.attempt_files import Folder
from components.preprocess.beam import pipeline
from tests.unit.components.preprocess.beam.chunks import DIGITS, chunks_of_digits, write_all


@pytest.mark.parametrize("missing", ["*.facts", "rows/*.index", "*.leaks"])
def test_what_no_worker_could_leave_is_noticed(tmp_path: Path, missing: str) -> None:
    (chunk,), rows_at, location = chunks_of_digits(tmp_path)
    for name in write_all(pipeline.make_rows(chunk, DIGITS, rows_at, location, 1), rows_at, location):
        if name.startswith("train"):
            pipeline.find_leaks(name, location)
    made = shards.gather(Folder(Path(rows_at)), Folder(tmp_path), 1, DIGITS)
    assert sum(facts.shard.records for facts in made.shards) == 1797
    next(tmp_path.glob(missing)).unlink()
    with pytest.raises(TransientError, match=str(tmp_path)):
        shards.gather(Folder(Path(rows_at)), Folder(tmp_path), 1, DIGITS)
