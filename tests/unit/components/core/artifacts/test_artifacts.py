"""Manifests: the digest of an evaluation, and the certificate of an embedding."""

import dataclasses
from typing import Any

import pytest

from components.core.artifacts import embeddings
from components.core.artifacts.evaluations import LINEAGE, METRICS, REPORT, SAMPLES, TRAINING
from components.core.errors import DataError
from components.evaluate import inputs
from tests.inputs import artifacts

EVALUATION = artifacts.evaluation(files=dict.fromkeys((METRICS, SAMPLES, REPORT, LINEAGE, TRAINING), "0"))


@pytest.mark.parametrize(
    ("name", "counts"), [(METRICS, True), (SAMPLES, True), (REPORT, False), (LINEAGE, False), (TRAINING, False)]
)
def test_the_digest_is_of_what_was_found_not_of_the_record(name: str, counts: bool) -> None:
    other = dataclasses.replace(EVALUATION, files={**EVALUATION.files, name: "1"})
    assert (other.digest != EVALUATION.digest) == counts


def manifest(outcome: str, **changes: Any) -> embeddings.Manifest:
    checks = [{"check": name, "passed": name != "blur 2"} for name in ("blur 1", "blur 2")]
    certificate = {"outcome": outcome, "images": 100, "checks": checks}
    return artifacts.embedding(**{"class_count": 2, "test_accuracy": 0.9, "certificate": certificate, **changes})


def test_one_that_failed_its_certificate_is_refused_with_the_checks_and_what_to_change() -> None:
    for outcome in (embeddings.PASSED, embeddings.TOO_FEW):
        inputs._require_certified("there", manifest(outcome))
    for digest, remedy in (("", "classifier_epochs"), ("e" * 64, "another custom_embedding")):
        with pytest.raises(DataError, match=f"^embedding there .* blur 2; .*{remedy}") as raised:
            inputs._require_certified("there", manifest(embeddings.FAILED, custom_embedding_digest=digest))
        assert "blur 1" not in str(raised.value)
