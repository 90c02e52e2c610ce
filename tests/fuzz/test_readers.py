"""Every reader in tests/fuzz/readers.py, with damaged files and arbitrary bytes."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.damage.corruption import damages
from tests.fuzz.readers import READERS, outcome

every_reader = pytest.mark.parametrize("name", READERS)


@every_reader
def test_a_damaged_file_is_refused_or_read_as_far_as_it_is_whole(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    for seed in reader.seeds():
        whole = outcome(reader, tmp_path, seed)
        assert whole is not None
        for damage, left in damages(seed, every=1 + len(seed) // 150):
            result = outcome(reader, tmp_path, left)
            assert result is None or reader.faithful(whole, result), damage


@every_reader
@given(data=st.data())
def test_any_bytes_are_read_or_refused(name: str, data: st.DataObject) -> None:
    reader = READERS[name]
    content = bytearray(data.draw(st.sampled_from([b"", *reader.seeds()])))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=12))
    with tempfile.TemporaryDirectory() as folder:
        outcome(reader, Path(folder), bytes(content))
