"""Settings: any value is either turned into the field's type or refused in words."""

import math
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core import settings
from components.core.errors import ConfigError
from components.core.settings import Setting


class Config(settings.Config):
    name: Annotated[str, Setting("Name.")]
    count: Annotated[int, Setting("Count.", at_least=1, at_most=10)] = 5
    share: Annotated[float, Setting("Share.", above=0.0, below=1.0)] = 0.5
    mode: Annotated[str, Setting("Mode.", choices=("fast", "slow"), in_key=False)] = "fast"

    def joint_problems(self) -> tuple[str]:
        return ("count and share disagree" if self.count * self.share > 9 else "",)


FIELDS = {field.name: field for field in settings.fields_of(Config)}


@given(count=st.integers(), share=st.floats(allow_nan=False))
def test_numbers_survive_as_text_and_as_json(count: int, share: float) -> None:
    for values, field in (((str(count), count), "count"), ((repr(share), share), "share")):
        assert [settings.parse_value(FIELDS[field], value) for value in values] == [values[1]] * 2
    for other in ("3.0", 3.0, "3e0", " 3 ", "+3"):
        parsed = settings.parse_value(FIELDS["count"], other)
        assert (parsed, type(parsed)) == (3, int)


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=2)


@given(name=st.sampled_from(sorted(FIELDS)), value=ANYTHING)
def test_anything_is_typed_or_refused_in_words(name: str, value: Any) -> None:
    field = FIELDS[name]
    try:
        parsed = settings.parse_value(field, value)
    except ValueError as error:
        message = str(error)
    else:
        assert type(parsed) is field.type
        for problem in settings.field_problems(field, parsed):
            assert problem.startswith(f"{name} must be ")
        return
    assert message.startswith(f"{name} must be ")
    assert message.endswith(f", got {value!r}")


def test_every_problem_is_reported_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        Config(name="", count=11, share=1.0, mode="odd")
    problems = [problem.split() for problem in raised.value.problems]
    assert [(words[0], words[-1]) for words in problems] == [
        ("name", "empty"),
        ("count", "11"),
        ("share", "1.0"),
        ("mode", "'odd'"),
        ("count", "disagree"),
    ]


def test_bounds_include_what_they_say() -> None:
    assert [Config(name="a", count=count).count for count in (1, 10)] == [1, 10]
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ConfigError, match="share must be finite"):
            Config(name="a", share=value)
    with pytest.raises(ConfigError, match=r"share must be greater than 0\.0, got 0\.0"):
        Config(name="a", share=0.0)


def test_what_replicas_cannot_share() -> None:
    for shares in ((10, 4, "cpu"), (10, 0, "tpu"), (8, 4, "tpu")):
        assert settings.share_problem("batch_size", *shares) == ""
    assert "at least 4" in settings.share_problem("batch_size", 3, 4, "cpu")
    assert "multiple of 4" in settings.share_problem("batch_size", 10, 4, "tpu")
