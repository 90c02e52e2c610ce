"""What readers of YAML refuse in one line, and what YAML itself can express."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipeline.cluster import schedule_file
from pipeline.package import config_file, reader
from pipeline.profiles import profile_file, yaml_files


@pytest.mark.parametrize(
    "read",
    [
        profile_file.read,
        schedule_file.read,
        reader.read,
        partial(config_file.read, known={}, problems=[]),
    ],
)
def test_a_file_that_is_nested_too_deeply_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("a:\n" + "".join(f"{' ' * level}b:\n" for level in range(1, 1000)))
    with pytest.raises(ConfigError, match="nested too deeply") as raised:
        read(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("read", [profile_file.read, schedule_file.read, reader.read])
def test_a_file_that_holds_itself_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("a: &a [*a]")
    with pytest.raises(ConfigError) as raised:
        read(path)
    assert str(path) in str(raised.value)


def test_aliases_and_merge_keys_are_resolved() -> None:
    assert yaml_files.load(b"a: &a [1, {b: 2}]\nc: *a", "it") == {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}
    assert yaml_files.load(b"a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}", "it")["d"] == {"b": 3, "c": 2}
    assert yaml_files.load(b"", "it") is None
