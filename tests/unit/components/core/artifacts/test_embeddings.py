"""Whether an embedding is certified, and why it is not."""

from typing import Any

import pytest

from components.core.artifacts import embeddings
from components.core.errors import DataError
from tests.inputs import artifacts


def described(outcome: str, **changes: Any) -> embeddings.Description:
    checks = [{"check": name, "passed": name != "blur 2"} for name in ("blur 1", "blur 2")]
    certificate = {"outcome": outcome, "images": 100, "checks": checks}
    return artifacts.embedding(**{"class_count": 2, "test_accuracy": 0.9, "certificate": certificate, **changes})


def test_one_that_failed_its_certificate_is_refused_with_the_checks_and_what_to_change() -> None:
    for outcome in (embeddings.PASSED, embeddings.TOO_FEW):
        embeddings.require_certified("there", described(outcome))
    for digest, remedy in (("", "classifier_epochs"), ("e" * 64, "another custom_embedding")):
        with pytest.raises(DataError, match=f"^embedding there .* blur 2; .*{remedy}") as raised:
            embeddings.require_certified("there", described(embeddings.FAILED, custom_embedding_digest=digest))
        assert "blur 1" not in str(raised.value)


def test_why_there_is_no_certificate() -> None:
    data = artifacts.dataset()
    assert embeddings.why_uncertified(described(embeddings.PASSED), data) == ""
    counts = {split: data.splits[split].records for split in ("train", "test")}
    assert str(min(counts.values())) in embeddings.why_uncertified(described(embeddings.TOO_FEW), data)


def test_a_classifier_that_was_dropped_is_reported() -> None:
    assert described(embeddings.PASSED).remarks == []
    assert described(embeddings.PASSED, test_accuracy=None, class_count=0).remarks == []
    (remark,) = described(embeddings.PASSED, test_accuracy=0.52, class_count=0).remarks
    assert "0.52" in remark
