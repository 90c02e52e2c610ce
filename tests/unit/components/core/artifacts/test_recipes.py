"""Which changes make another recipe, and which do not."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.artifacts import recipes
from components.core.artifacts.recipes import Recipe
from components.core.errors import DataError

NAMES = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=5)
RECIPES = st.builds(
    Recipe,
    source_fingerprint=st.sampled_from(["a" * 64, "b" * 64]),
    custom_embedding_digest=st.sampled_from(["", "c" * 64]),
    settings=st.dictionaries(NAMES, st.text(max_size=5), max_size=3),
    code=st.dictionaries(st.sampled_from(["train", "export"]), st.sampled_from(["1", "2"])),
)


def _number(text: str) -> float | str:
    """Parse a number for the oracle, so that 1e-4 is 0.0001."""
    with contextlib.suppress(ValueError):
        value = float(text)
        return text if value != value else value
    return text


def _comparable(recipe: Recipe) -> tuple[object, ...]:
    settings = {name: _number(value) for name, value in recipe.settings.items()}
    return recipe.source_fingerprint, recipe.custom_embedding_digest, settings, recipe.code


@given(RECIPES, RECIPES)
def test_nothing_differs_exactly_if_all_is_the_same(one: Recipe, other: Recipe) -> None:
    assert recipes.differences(one, one) == []
    assert bool(recipes.differences(one, other)) == (_comparable(one) != _comparable(other))
    assert bool(recipes.differences(other, one)) == (_comparable(one) != _comparable(other))


@given(RECIPES)
def test_what_is_written_is_read(recipe: Recipe) -> None:
    assert recipes.from_text(json.dumps(recipe.to_json())) == recipe


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"schema_version": 1}', '{"schema_version": 2}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"^recipe "):
        recipes.from_text(text)


def test_settings_are_read_as_the_graph_writes_them() -> None:
    recipe = recipes.current("a" * 64, "", "steps=20\nname=a=b\nempty=")
    assert recipe.settings == {"steps": "20", "name": "a=b", "empty": ""}
    assert set(recipe.code) == {"preprocess", "train", "embed", "evaluate", "export"}
