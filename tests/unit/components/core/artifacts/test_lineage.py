"""Lineages: recomputed digests, fields outside them, and refusals; also of evaluations and embeddings."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations, lineage
from components.core.errors import DataError
from components.core.stage import cache_key, provenance
from components.core.storage import atomic_files
from components.evaluate import inputs
from tests.inputs import artifacts


@pytest.fixture(scope="module")
def parents() -> tuple[datasets.Manifest, checkpoints.Manifest, embeddings.Manifest]:
    reused = {"images": 3, "datasets": ["an-earlier-one"]}
    cropped = {"images": 1, "of": 9}
    maker = provenance.made_with("preprocess", source="/home/user/pictures", reused=reused, cropped=cropped)
    manifest = artifacts.dataset(made_with=maker)
    checkpoint = artifacts.checkpoint(
        5,
        settings={"steps": 5, "beta_2": 0.9},
        classes=manifest.classes,
        dataset_digest=manifest.digest,
        made_with=provenance.made_with("train", replicas=2),
    )
    maker = provenance.made_with("embed")
    embedding = artifacts.embedding(test_accuracy=1 / 3, dataset_digest=manifest.digest, made_with=maker)
    return manifest, checkpoint, embedding


@pytest.fixture
def evaluation(parents: tuple[Any, ...], tmp_path: Path) -> Path:
    origin = lineage.of(*(parent.to_json() for parent in parents))
    artifacts.write_evaluation(tmp_path / "e", origin)
    return tmp_path / "e"


def describe(folder: Path, **changes: Any) -> Path:
    """Describe the present files of an evaluation."""
    manifest = evaluations.Manifest.read(folder)
    files = {name: digest for name, digest in atomic_files.files_in(folder).items() if name != evaluations.MANIFEST}
    dataclasses.replace(manifest, files=files, **changes).write(folder)
    return folder


def test_the_digests_of_all_parents_can_be_computed_again(parents: tuple[Any, ...], evaluation: Path) -> None:
    record = lineage.read(evaluation, evaluations.Manifest.of(evaluation))
    assert list(record.digests.values()) == [parent.digest for parent in parents]
    assert [row.artifact for row in lineage.rows(record)] == ["source (test)", *lineage.PARENTS, "evaluation"]
    codes = [row.code for row in lineage.rows(record)[1:]]
    assert codes == [cache_key.source_digest(stage) for stage in ("preprocess", "train", "embed", "evaluate")]


def test_where_images_were_read_is_neither_in_the_lineage_nor_in_a_digest(evaluation: Path) -> None:
    assert "/home/user" not in (evaluation / evaluations.LINEAGE).read_text()
    assert "an-earlier-one" not in (evaluation / evaluations.LINEAGE).read_text()
    before = evaluations.Manifest.of(evaluation).digest
    describe(evaluation, source="/home/user/pictures")
    assert evaluations.Manifest.of(evaluation, before).source == "/home/user/pictures"


def test_a_lineage_of_something_else_is_refused(evaluation: Path) -> None:
    value = json.loads((evaluation / evaluations.LINEAGE).read_text())
    value["checkpoint"]["settings"]["beta_2"] = 0.99
    atomic_files.write_json(evaluation / evaluations.LINEAGE, value)
    describe(evaluation)  # a verdict that names the changed file
    with pytest.raises(DataError, match=r"is of checkpoint .*, but .* was judged"):
        lineage.read(evaluation, evaluations.Manifest.of(evaluation))


EVALUATION = artifacts.evaluation(
    files=dict.fromkeys(
        (evaluations.METRICS, evaluations.SAMPLES, evaluations.REPORT, evaluations.LINEAGE, evaluations.TRAINING), "0"
    )
)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (evaluations.METRICS, True),
        (evaluations.SAMPLES, True),
        (evaluations.REPORT, False),
        (evaluations.LINEAGE, False),
        (evaluations.TRAINING, False),
    ],
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
