"""Files that would take all memory or never end are refused at once, wherever people give YAML."""

from collections.abc import Callable
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipeline.cli import run
from pipeline.cluster import schedule_file, submission
from pipeline.profiles import profiles, yaml_files

LEVELS = [f"b{level}: &b{level} [{', '.join([f'*b{level - 1}'] * 9)}]" for level in range(1, 12)]
BOMB = "\n".join(["b0: &b0 [0]", *LEVELS])  # 9 ** 11 numbers


def _profile(path: Path) -> object:
    return profiles.read(path)


def _schedules(path: Path) -> object:
    return schedule_file.read(path)


def _package(path: Path) -> object:
    return run._package(path)


def _package_to_submit(path: Path) -> object:
    return submission.read_package(path)


READERS = [_profile, _schedules, _package, _package_to_submit]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (BOMB, "with its aliases (*) written out, the file is larger than 1,048,576 characters"),
        (f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1000)}]", "larger than 1,048,576 characters"),
        ("a: &a [*a]", "nested more than 50 levels deep"),
        ("a:\n  {}\n" * 200_000, "is larger than 1,048,576 bytes"),
        ("a:\n  " + "[" * 1_000_000, "nested more than 50 levels deep"),
        ("a:\n" + "".join(f"{' ' * level}b:\n" for level in range(1, 1000)), "nested more than 50 levels deep"),
    ],
)
def test_a_file_without_bounds_is_refused(
    read: Callable[[Path], object], content: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as raised:
        read(path)
    assert expected in str(raised.value)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("read", READERS)
def test_a_file_without_an_end_is_not_read_to_it(read: Callable[[Path], object]) -> None:
    with pytest.raises(ConfigError, match="larger than"):
        read(Path("/dev/zero"))


def test_what_is_within_the_limits_is_read() -> None:
    assert yaml_files.load(b"a: &a [1, {b: 2}]\nc: *a", "it") == {"a": [1, {"b": 2}], "c": [1, {"b": 2}]}
    assert yaml_files.load(b"a: &a {b: 1, c: 2}\nd: {<<: *a, b: 3}", "it")["d"] == {"b": 3, "c": 2}
    assert yaml_files.load(b"", "it") is None
    deep: object = yaml_files.load(b"[" * 50 + b"]" * 50, "it")
    levels = 0
    while deep:
        assert isinstance(deep, list)
        (deep,), levels = deep, levels + 1
    assert levels == 49
