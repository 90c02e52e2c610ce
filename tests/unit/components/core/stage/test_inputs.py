"""A custom embedding is identified by the content of its files."""

from pathlib import Path

import pytest

from components.core.errors import DataError
from components.core.stage import inputs


def test_a_custom_embedding_is_identified_by_its_content(tmp_path: Path) -> None:
    digests = []
    for name, weights in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name / "variables").mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph")
        (tmp_path / name / "variables" / "variables.index").write_bytes(weights)
        digests.append(inputs.digest_of_embedding(str(tmp_path / name)))
    assert digests[0] == digests[1] != digests[2]
    assert {len(digest) for digest in digests} == {64}
    with pytest.raises(DataError, match=r"no SavedModel: saved_model\.pb"):
        inputs.digest_of_embedding(str(tmp_path))
    with pytest.raises(DataError, match=f"{digests[2]}, expected {digests[0]}"):
        inputs.digest_of_embedding(str(tmp_path / "c"), digests[0])
