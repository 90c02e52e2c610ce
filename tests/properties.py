"""Profiles of hypothesis, and any JSON."""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

# Any value of JSON, also NaN and infinity, which Python writes and reads.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def changed(data: st.DataObject, value: Any, anything: st.SearchStrategy[Any] = JSON) -> Any:
    """Replace a JSON value, or a value somewhere in it."""
    keys = sorted(value) if isinstance(value, dict) else [*range(len(value))] if isinstance(value, list) else []
    if not keys or not data.draw(st.booleans()):
        return data.draw(anything)
    key = data.draw(st.sampled_from(keys))
    value[key] = changed(data, value[key], anything)
    return value


def register_profiles() -> None:
    """Register `repeatable`, the default (pyproject.toml), and `random`, which `make test-random` selects."""
    # The speed of data generation depends on other load of the machine.
    common = settings(deadline=None, print_blob=True, database=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("repeatable", common, derandomize=True, max_examples=20)
    settings.register_profile("random", common, derandomize=False, max_examples=500)
