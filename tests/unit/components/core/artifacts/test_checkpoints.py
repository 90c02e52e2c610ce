"""Tests for checkpoints.py and training_log.py; tests/faults kills their writers at every system call."""

import functools
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import checkpoints, training_log
from components.core.errors import DataError, TrainingDiverged
from tests.inputs import artifacts

STATE: dict[str, Any] = {"step": np.int64(5), "b/x": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.float64(0.1)}


def describe(step: int) -> checkpoints.Manifest:
    return artifacts.checkpoint(step, settings={})


def test_other_shapes_are_listed() -> None:
    states: list[dict[str, np.ndarray]] = [{"a": np.zeros(size, np.float32), "b": np.zeros(2)} for size in (2, 3)]
    assert checkpoints.differences(*states) == ["a is float32(3,), expected float32(2,)"]


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "state.npz", evil=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError):
        checkpoints.load_state(tmp_path)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    checkpoints.save(tmp_path, describe(5), STATE)
    return checkpoints.step_folder(tmp_path, 5)


@pytest.mark.parametrize("damage", ["state.npz", checkpoints.MANIFEST, "folder"])
def test_a_damaged_checkpoint_gives_way_to_the_next_of_its_step_and_a_whole_one_does_not(
    whole: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a training that reaches this step again would keep the damaged one forever."""
    other: dict[str, Any] = {**STATE, "a": np.float64(0.2)}
    checkpoints.save(whole.parent, describe(5), other)
    assert checkpoints.load_state(whole)["a"] == STATE["a"]
    if damage == "folder":
        shutil.rmtree(whole)
        whole.write_text("")
    else:
        (whole / damage).write_bytes((whole / damage).read_bytes()[:-9])
    with caplog.at_level(logging.WARNING):
        written = checkpoints.save(whole.parent, describe(5), other)
    assert whole.name in caplog.text
    assert checkpoints.Manifest.of(whole) == written
    assert checkpoints.load_state(whole)["a"] == 0.2
    assert [path.name for path in whole.parent.iterdir()] == [whole.name]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64])
def test_what_is_not_finite_is_never_kept(tmp_path: Path, number: float, kind: Any) -> None:
    array = np.zeros((3, 4), kind)
    array[1, 2] = number
    assert checkpoints.not_finite({**STATE, "w": array}) == ["w"]
    with pytest.raises(TrainingDiverged, match=r"^w is not finite .* step 6"):
        checkpoints.save(tmp_path, describe(6), {**STATE, "w": array})
    with pytest.raises(TrainingDiverged, match=r"^v \(and 1 more\) is not finite"):
        checkpoints.save(tmp_path, describe(6), {**STATE, "w": array, "v": array})
    assert list(tmp_path.iterdir()) == []
    assert checkpoints.not_finite({**STATE, "i": np.array(2**62), "t": np.array("nan")}) == []


def test_beside_the_newest_those_are_kept_that_training_may_have_to_go_back_to(tmp_path: Path) -> None:
    def kept(count: int, **more: Any) -> list[int]:
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        for step in (1, 2, 3, 5, 8, 13):
            checkpoints.step_folder(tmp_path / "c", step).mkdir(parents=True)
        checkpoints.keep(tmp_path / "c", functools.partial(checkpoints.kept, count=count, **more))
        return checkpoints.steps(tmp_path / "c")

    assert kept(2) == [8, 13]
    assert kept(2, back=[0, 4, 8]) == [3, 8, 13]
    assert kept(1, back=range(2, 14, 2)) == [2, 3, 5, 8, 13]
    assert kept(2, good=5) == [3, 5, 13]
    assert kept(2, good=20) == [8, 13]
    assert kept(2, good=0) == [13]
    assert kept(0, good=0) == [1, 2, 3, 5, 8, 13]
    checkpoints.remove_after(tmp_path / "c", 13)
    assert checkpoints.steps(tmp_path / "c") == [1, 2, 3, 5, 8, 13]
    checkpoints.remove_after(tmp_path / "c", 4)
    assert checkpoints.steps(tmp_path / "c") == [1, 2, 3]


@pytest.mark.parametrize("file", ["state.npz", checkpoints.MANIFEST])
def test_the_newest_whole_one_up_to_a_step(tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture) -> None:
    for step in (2, 4, 6):
        checkpoints.save(tmp_path, describe(step), STATE)
    (checkpoints.step_folder(tmp_path, 4) / file).unlink()
    newest = [checkpoints.newest(tmp_path, at_most) for at_most in (1, 2, 5, 9)]
    assert [checkpoint and checkpoint[1].step for checkpoint in newest] == [None, 2, 2, 6]
    assert "step-0000000004" in caplog.text


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
