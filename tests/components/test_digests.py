"""Digests and keys: what changes them, and what must not."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import digests
from components.settings import Setting


@dataclass(frozen=True, kw_only=True)
class Config:
    size: Annotated[int, Setting("Size.")] = 1
    place: Annotated[str, Setting("Place.", in_key=False)] = "here"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=st.dictionaries(st.text(), VALUES))
def test_canonical_json_has_one_text_for_one_value(value: dict[str, object]) -> None:
    try:
        text = digests.canonical_json(value)
    except UnicodeEncodeError:
        return  # lone surrogates have no UTF-8
    assert digests.canonical_json(dict(reversed(value.items()))) == text
    assert digests.canonical_json(json.loads(text)) == text


def test_canonical_json_refuses_what_is_no_number() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        digests.canonical_json({"loss": float("inf")})


def test_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    content = bytes(range(256)) * 9000  # more than one block
    (tmp_path / "file").write_bytes(content)
    assert digests.sha256_of_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()


def test_a_key_follows_settings_inputs_and_code_but_no_place() -> None:
    usual = digests.stage_key("train", Config(), {"dataset": "a"})
    assert usual == digests.stage_key("train", Config(place="there"), {"dataset": "a"})
    others = [
        digests.stage_key("train", dataclasses.replace(Config(), size=2), {"dataset": "a"}),
        digests.stage_key("train", Config(), {"dataset": "b"}),
        digests.stage_key("evaluate", Config(), {"dataset": "a"}),
    ]
    assert len({usual, *others}) == 4
    assert len(usual) == 16


def test_keys_are_filled_only_where_asked_for() -> None:
    assert digests.fill_key("runs/data", "train", Config(), {}) == "runs/data"
    assert (
        digests.fill_key("runs/{key}/x", "train", Config(), {}) == f"runs/{digests.stage_key('train', Config(), {})}/x"
    )
