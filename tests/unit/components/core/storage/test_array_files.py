"""Arrays in one file: what NumPy reads back; digests: one for one value. test_manifest pins the bytes."""

import hashlib
import json
from pathlib import Path

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.core.storage import digests
from components.core.storage.array_files import write_arrays


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_0-9]{1,8}(/[a-z]{1,8})?", fullmatch=True),
        arrays_of.arrays(
            st.sampled_from([np.float32, np.float64, np.int64, np.bool_]), arrays_of.array_shapes(min_dims=0)
        ),
        max_size=5,
    )
)
def test_numpy_reads_what_was_written(tmp_path_factory: pytest.TempPathFactory, written: dict[str, np.ndarray]) -> None:
    path = tmp_path_factory.mktemp("arrays") / "arrays.npz"
    write_arrays(path, written)
    with np.load(path, allow_pickle=False) as loaded:
        assert loaded.files == sorted(written)
        for name, array in written.items():
            assert loaded[name].dtype == array.dtype
            np.testing.assert_array_equal(loaded[name], array)


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


def test_digests_are_of_numbers_and_of_whole_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        digests.canonical_json({"loss": float("inf")})
    content = bytes(range(256)) * 9000  # more than one block
    (tmp_path / "file").write_bytes(content)
    assert digests.sha256_of_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()
