"""Digests: one text for one value, one digest for one file."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.storage import digests

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
