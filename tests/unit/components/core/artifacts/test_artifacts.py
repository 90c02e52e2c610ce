"""Manifests: the digest of an evaluation, the certificate of an embedding, the files and the card of a model."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import embeddings, models
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


def test_every_file_is_listed_and_the_card_is_guarded_apart(tmp_path: Path) -> None:
    files = {"saved_model.pb": b"graph", "variables/variables.index": b"12"}
    origin = artifacts.origin(artifacts.dataset(), {"step": 7, "classes": [], "dataset_digest": "d" * 64})
    manifest = artifacts.write_model(tmp_path, origin, files)
    assert [entry["bytes"] for entry in manifest.files.values()] == [5, 2]
    carded = models.with_card(tmp_path, manifest, "# A card")
    assert carded.listed == manifest.listed | {models.CARD: carded.card_sha256}
    carded.write(tmp_path)
    assert models.Manifest.fetch(str(tmp_path)) == carded
    for name in (models.CARD, "saved_model.pb"):
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(before + b"!")
        with pytest.raises(DataError, match=name):
            models.Manifest.fetch(str(tmp_path))
        (tmp_path / name).write_bytes(before)
