"""YAML files that would take all memory or never end are refused at once."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from components.core.errors import ConfigError
from pipeline.cluster import schedule_file, submission
from pipeline.package import config_file
from pipeline.profiles import profile_file, yaml_files

LEVELS = [f"b{level}: &b{level} [{', '.join([f'*b{level - 1}'] * 9)}]" for level in range(1, 12)]
BOMB = "\n".join(["b0: &b0 [0]", *LEVELS])  # 9 ** 11 numbers


every_reader = pytest.mark.parametrize(
    "read",
    [
        profile_file.read,
        schedule_file.read,
        submission.read_package,
        partial(config_file.read, known={}, problems=[]),
    ],
)


@every_reader
@pytest.mark.parametrize(
    "content",
    [
        BOMB,
        f"a: &a {'x' * 10_000}\nb: [{', '.join(['*a'] * 1000)}]",
        "a: &a [*a]",
        "a:\n  {}\n" * 200_000,
        "a:\n  " + "[" * 1_000_000,
        "a:\n" + "".join(f"{' ' * level}b:\n" for level in range(1, 1000)),
    ],
)
def test_a_file_without_bounds_is_refused(read: Callable[[Path], object], content: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"1,048,576|50 levels") as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert len(str(raised.value)) < 300


@every_reader
def test_a_file_without_an_end_is_not_read_to_it(read: Callable[[Path], object]) -> None:
    with pytest.raises(ConfigError, match="1,048,576"):
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
