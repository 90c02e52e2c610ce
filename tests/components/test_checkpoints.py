"""Tests for components/checkpoints.py."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components import checkpoints
from components.errors import DataError

STATE: dict[str, Any] = {"step": np.int64(5), "b/x": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.float64(0.1)}


def describe(step: int) -> checkpoints.Description:
    return checkpoints.Description(
        step=step, network={}, settings={}, classes=[], dataset_digest="d", state_sha256="", made_with={"replicas": 1}
    )


def test_what_was_saved_is_what_is_loaded(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, describe(5), STATE)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    loaded = checkpoints.load_state(found[0])
    assert found[1].step == 5
    assert loaded.keys() == STATE.keys()
    assert all(np.array_equal(loaded[name], STATE[name]) and loaded[name].dtype == STATE[name].dtype for name in STATE)


def test_a_prefix_selects(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, describe(5), STATE)
    assert list(checkpoints.load_state(checkpoints.step_folder(tmp_path, 5), "b/")) == ["b/x"]


def test_the_same_state_gives_the_same_bytes_and_digest(tmp_path: Path) -> None:
    first = checkpoints.save(tmp_path / "one", describe(5), STATE)
    second = checkpoints.save(tmp_path / "two", describe(5), dict(reversed(STATE.items())))
    assert first.digest == second.digest


def test_who_made_it_is_not_part_of_the_digest(tmp_path: Path) -> None:
    value = describe(5).to_json()
    del value["schema_version"]
    other = checkpoints.Description(**{**value, "made_with": {"replicas": 8}})
    assert other.digest == describe(5).digest


def test_newest_of_none_is_none(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        checkpoints.save(tmp_path, describe(step), STATE)
    state = checkpoints.step_folder(tmp_path, 2) / "state.npz"
    content = bytearray(state.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
    elif damage == "cut":
        state.write_bytes(content[:-1])
    elif damage == "remove":
        state.unlink()
    else:
        (state.parent / checkpoints.MANIFEST).write_text("{}")
    with caplog.at_level(logging.ERROR):
        found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found[1].step == 1
    assert "step-0000000002" in caplog.text


def test_only_damaged_checkpoints_are_an_error_not_a_new_start(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, describe(1), STATE)
    (checkpoints.step_folder(tmp_path, 1) / "state.npz").unlink()
    with pytest.raises(DataError, match="none of the 1 checkpoints"):
        checkpoints.newest(tmp_path)


def test_another_digest_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, describe(1), STATE)
    with pytest.raises(DataError, match="expected 0000"):
        checkpoints.describe(checkpoints.step_folder(tmp_path, 1), "0000")


@pytest.mark.parametrize("content", ["", "[]", "3", '{"schema_version": 1}', '{"schema_version": 99}'])
def test_what_is_no_description_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / checkpoints.MANIFEST).write_text(content)
    with pytest.raises(DataError):
        checkpoints.describe(tmp_path)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3, 10):
        checkpoints.save(tmp_path, describe(step), STATE)
    checkpoints.keep_newest(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000000003", "step-0000000010"]


def test_nothing_half_written_is_left_when_saving_fails(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        checkpoints.save(tmp_path, describe(1), {"a": np.zeros(3), "b": None, 3: None})  # type: ignore[dict-item]
    assert list(tmp_path.iterdir()) == []


def test_differences_are_listed() -> None:
    wanted: dict[str, np.ndarray] = {"a": np.zeros(2, np.float32), "b": np.zeros(2), "c": np.zeros(2)}
    found: dict[str, np.ndarray] = {"a": np.zeros(3, np.float32), "b": np.zeros(2), "d": np.zeros(2)}
    assert checkpoints.differences(wanted, found) == [
        "c is missing",
        "d is not known",
        "a is float32(3,), expected float32(2,)",
    ]


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "state.npz", evil=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError):
        checkpoints.load_state(tmp_path)


def test_the_manifest_is_readable_json(tmp_path: Path) -> None:
    checkpoints.save(tmp_path, describe(1), STATE)
    value = json.loads((checkpoints.step_folder(tmp_path, 1) / checkpoints.MANIFEST).read_text())
    assert value["step"] == 1
    assert len(value["state_sha256"]) == 64
