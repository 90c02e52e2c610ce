"""make test-pythons: which interpreters it finds, and which differences between two runs it sees."""

import os
from pathlib import Path

from tests.system import pythons


def _program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_an_interpreter_is_one_that_runs(tmp_path: Path) -> None:
    _program(tmp_path / "shims" / "python3.11", "echo 'pyenv: python3.11: command not found' >&2; exit 127")
    _program(tmp_path / "shims" / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    _program(tmp_path / "bin" / "python3.13", "echo 3.11")  # not what its name says
    third = _program(tmp_path / "bin" / "python3.11", "echo 3.11")
    second = _program(tmp_path / "pyenv" / "versions" / "3.12.1" / "bin" / "python3.12", "echo 3.12")
    path = os.pathsep.join([str(tmp_path / "shims"), str(tmp_path / "bin"), str(tmp_path / "missing")])
    assert pythons.interpreters(path, tmp_path / "pyenv") == {"3.11": third, "3.12": second}
    assert pythons.interpreters(path, tmp_path / "no-pyenv") == {"3.11": third}


def test_a_changed_and_a_missing_file_are_differences() -> None:
    first = {"model_digest": "a", "datasets/1/train.tfrecord": "b", "models/2/saved_model.pb": "c"}
    second = {"model_digest": "a", "datasets/1/train.tfrecord": "d", "models/3/saved_model.pb": "c"}
    assert pythons.differences({"3.11": first, "3.12": first}) == []
    assert pythons.differences({"3.11": first, "3.12": second}) == [
        "datasets/1/train.tfrecord: {'3.11': 'b', '3.12': 'd'}",
        "models/2/saved_model.pb: {'3.11': 'c', '3.12': 'missing'}",
        "models/3/saved_model.pb: {'3.11': 'missing', '3.12': 'c'}",
    ]
