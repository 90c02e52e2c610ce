"""Tests for training_log.py; tests/faults kills its writers at every system call."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import training_log

ROWS: list[dict[str, Any]] = [
    {"step": 1, "loss": 1 / 3},
    {"step": 2, "loss": float("nan"), "warnings": ["é"]},
    {"step": 30, "loss": None},
]
NO_ROWS = ["not json", "[1]", "3", "null", "\x00", '{"step": "x"}', '{"step": true}', '{"loss": 2}', '{"step": 3, "lo']


@pytest.mark.parametrize("broken", ["\n".join(NO_ROWS), b"\xff\xfe", ""])
def test_rows_up_to_a_step_are_read_and_kept_as_they_were_written(tmp_path: Path, broken: str | bytes) -> None:
    path = tmp_path / training_log.METRICS
    assert training_log.read(path) == []
    training_log.go_back(tmp_path, 1, tmp_path / "step")
    assert not path.exists()
    for row in ROWS:
        training_log.append(path, row)
    written = path.read_bytes()
    assert written == "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    path.write_bytes(written + (broken if isinstance(broken, bytes) else broken.encode()))
    assert [row["step"] for row in training_log.read(path)] == [1, 2, 30]
    assert training_log.read(path, 1) == ROWS[:1]
    training_log.go_back(tmp_path, 2, tmp_path / "step")
    assert path.read_bytes() == written[: written.index(b'{"step": 30')]
    training_log.append(path, ROWS[2])
    assert path.read_bytes() == written
