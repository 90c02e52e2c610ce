"""Quantities of processors and memory in Kubernetes' words."""

from collections.abc import Callable

import pytest

from pipeline.profiles import profile_values


@pytest.mark.parametrize(
    ("measure", "amounts"),
    [
        (profile_values.cores, {"4": 4.0, "0.5": 0.5, ".5": 0.5, "500m": 0.5, "1.5m": 0.0015}),
        (profile_values.size, {"7": 7, "2K": 2000, "2Ki": 2048, "16Gi": 16 * 2**30, "1E": 10**18}),
    ],
)
def test_quantities(measure: Callable[[str], float], amounts: dict[str, float]) -> None:
    assert {text: measure(text) for text in amounts} == amounts


@pytest.mark.parametrize("text", ["", "i", "2i", "1.5Gi", "16GB", "-1G", "1k", "１G", "16Gi\n"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="16Gi"):
        profile_values.size(text)
