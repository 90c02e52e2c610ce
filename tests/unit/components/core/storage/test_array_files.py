"""Arrays in one file: what NumPy reads back; test_manifest pins the bytes."""

import hypothesis.extra.numpy as arrays_of
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
