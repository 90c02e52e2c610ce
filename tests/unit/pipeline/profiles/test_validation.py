"""Strict models of YAML: each mistake with its path, the value and what is expected, all at once."""

from typing import Annotated

import pytest
from pydantic import Field

from components.core.errors import ConfigError
from pipeline.profiles import validation


class Inner(validation.Settings):
    """A mapping within another."""

    size: int = 1
    name: validation.Text = "x"


class Outer(validation.Settings):
    """The file."""

    color: Annotated[str, validation.matching("[a-z]+", "small letters")]
    parts: dict[str, Inner] = Field(default_factory=dict)
    one: Inner | None = None


def test_what_fits_is_read() -> None:
    found = validation.read(Outer, b"color: red\nparts: {a: {size: 2}}\none: {name: y}\n", "own.yaml")
    assert found == Outer(color="red", parts={"a": Inner(size=2)}, one=Inner(name="y"))


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("{}", ["color"]),
        ("color: RED", ["color"]),
        ("color: 7\nparts: {a: {size: two, name: ' '}}", ["color", "parts.a.size", "parts.a.name"]),
        ("color: red\none: {sise: 2}\nparts: []", ["one.sise", "parts"]),
        ("color: red\nparts: {7: {}}", ["parts.7"]),
        ("[]", ["the"]),
    ],
)
def test_every_mistake_is_reported_by_its_path(text: str, paths: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        validation.read(Outer, text.encode(), "own.yaml")
    problems = [problem.removeprefix("own.yaml: ") for problem in raised.value.problems]
    assert sorted(problem.split()[0] for problem in problems) == sorted(paths)
    assert all("size" in problem for problem in problems if "sise" in problem)
