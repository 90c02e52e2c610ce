"""Tests for the evaluate stage on a small dataset, generators with random weights, and a real registry."""

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations
from components.core.artifacts.datasets import ImageShape
from components.core.data import dataset_reader
from components.core.errors import ConfigError, DataError, TransientError
from components.core.metrics import feature_spaces, neighbors, set_distances
from components.core.networks import gan, saved_models
from components.core.registry import registry
from components.core.stage.executor import StageResult
from components.core.storage import buckets
from components.evaluate import inputs
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts
from tests.inputs.limits import NO_LIMITS
from tests.inputs.stages import SHAPE, export_model, make_checkpoint, make_dataset, make_embedding, make_model
from tests.proofs.stages import command
from tests.stages.evaluate.conftest import DOCUMENT, Run, folder_of, metrics, report


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, run: Run, two_checkpoints: list[Path]) -> StageResult:
    return run(two_checkpoints[0], tmp_path_factory.mktemp("first") / "evaluation")


def champion_of(checkpoint: Path, folder: Path) -> Path:
    artifacts.crown(folder / "registry", export_model(checkpoint, folder), 1)
    return folder / "registry"


@pytest.fixture(scope="module")
def champions(tmp_path_factory: pytest.TempPathFactory, two_checkpoints: list[Path]) -> Path:
    return champion_of(two_checkpoints[0], tmp_path_factory.mktemp("champions"))


def rules(result: StageResult) -> list[str]:
    return [rule["rule"] for rule in evaluations.Manifest.of(folder_of(result)).rules]


def test_a_finished_evaluation_is_found_without_heavy_imports(
    first: StageResult, two_checkpoints: list[Path], dataset: str, embedding: Path, tmp_path: Path
) -> None:
    for name in ("tensorflow", "scipy"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')")
    location = folder_of(first)
    before = {path: path.stat().st_mtime_ns for path in location.rglob("*")}
    flags: dict[str, Any] = {"checkpoint": two_checkpoints[0], "evaluation": location.parent, "dataset": dataset}
    flags |= {"embedding": embedding, "sample_count": 2000, **NO_LIMITS}
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command("evaluate", **flags), env=environment, capture_output=True, text=True)
    assert (done.returncode, first.reused) == (0, False), done.stderr
    assert f"evaluation_digest: {first.parameters['evaluation_digest']}" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in location.rglob("*")} == before


def test_the_first_good_model_is_promoted_with_every_number_in_place(
    first: StageResult, two_checkpoints: list[Path], dataset: str, embedding: Path
) -> None:
    assert first.parameters["verdict"] == evaluations.PROMOTE
    assert str(first.parameters["summary"]).startswith("PROMOTE: FCD ")
    manifest = evaluations.Manifest.of(folder_of(first))
    assert manifest.digest == first.parameters["evaluation_digest"]
    assert manifest.checkpoint_digest == checkpoints.Manifest.of(two_checkpoints[0]).digest
    assert manifest.dataset_digest == datasets.Manifest.of(dataset).digest
    assert manifest.embedding_digest == embeddings.Manifest.of(embedding).digest
    assert manifest.champion_digest == evaluations.NO_CHAMPION
    names = ("METRICS", "SAMPLES", "REPORT", "LINEAGE", "TRAINING")
    assert manifest.files.keys() == {getattr(evaluations, name) for name in names}  # whose damage is noticed
    assert all(np.isfinite(list(first.metrics.values())))
    assert {"fcd", "fcd_floor", "class_distance", "samples"} <= first.metrics.keys()
    assert "champion_fcd" not in first.metrics
    assert first.files == {"report": folder_of(first) / evaluations.REPORT}
    assert metrics(first)["low_n"] is True
    train = datasets.Manifest.of(dataset).splits["train"].records
    assert metrics(first)["copy_search"] == {"searched": train, "of": train}


def test_every_score_has_words_and_is_documented(first: StageResult) -> None:
    """Fails if a step was forgotten when a score was added."""
    names = {name for name, _ in metrics(first)["names"]}
    assert metrics(first)["model"].keys() - names == {"bad_samples"}, "core/reporting/metric_labels.py lacks one"
    plain = [name.removeprefix("untrained_").removeprefix("faults_") for name in names]
    assert [name for name in plain if f"`{name}`" not in DOCUMENT] == [], "docs/evaluation.md lacks them"


def test_numbers_are_those_of_the_definitions(
    first: StageResult, two_checkpoints: list[Path], dataset: str, embedding: Path
) -> None:
    """The scores of both spaces, from newly drawn samples."""
    test, _ = dataset_reader.load_split(Path(dataset), datasets.Manifest.of(dataset), "test")
    loaded = feature_spaces.load(embedding)
    latents = tf.random.stateless_normal([2000, 16], [0, 0], alg="philox")
    drawn = gan.to_pixels(saved_models.load_averaged(two_checkpoints[0])(latents, training=False)).numpy()
    features, outputs = loaded.embed(drawn)
    real_features, real_outputs = loaded.embed(test)
    numbers = metrics(first)["model"]
    for space, prefix in (("classifier", ""), ("untrained", "untrained_")):
        drawn_some, real = features[space][: len(test)], real_features[space]
        assert numbers[f"{prefix}fcd"] == pytest.approx(set_distances.frechet_distance(drawn_some, real), rel=1e-6)
        shared = neighbors.overlap(neighbors.make_balls(drawn_some), neighbors.make_balls(real))
        assert numbers[f"{prefix}precision"] == shared.precision
        assert numbers[f"{prefix}coverage"] == shared.covered.mean()
    assert numbers["fcd"] != pytest.approx(numbers["untrained_fcd"])
    p, q = (
        np.bincount(values.argmax(axis=1), minlength=3) / len(values)
        for values in (outputs["logits"], real_outputs["logits"])
    )
    assert numbers["class_distance"] == pytest.approx(np.abs(p - q).sum() / 2)
    assert numbers["class_ratio"] == pytest.approx((p / q).min())


def test_the_same_again_gives_the_same_digest_however_fast_its_training_was(
    first: StageResult, run: Run, two_checkpoints: list[Path], tmp_path: Path
) -> None:
    training = tmp_path / "training"
    shutil.copytree(two_checkpoints[0], training / two_checkpoints[0].name)
    rows = [{"step": step, "images_per_second": 1000.0 + step} for step in (50, 100)]
    (training / two_checkpoints[0].name / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    again = run(training / two_checkpoints[0].name, tmp_path / "again")
    assert again.parameters["evaluation_digest"] == first.parameters["evaluation_digest"]


@pytest.mark.slow
def test_conditional_against_unconditional_both_ways_round(
    first: StageResult, run: Run, dataset: str, champions: Path, two_checkpoints: list[Path], tmp_path: Path
) -> None:
    manifest = datasets.Manifest.of(dataset)
    counts = manifest.splits["train"].class_counts
    conditional = make_checkpoint(tmp_path / "c", 3, dataset_digest=manifest.digest, class_counts=counts)
    challenger = run(conditional, tmp_path / "e", registry=champions)
    assert challenger.metrics["champion_fcd"] == pytest.approx(first.metrics["fcd"], rel=1e-3)
    assert {"recall less the champion's", "coverage less the champion's"} <= set(rules(challenger))
    assert any("kernel distance (classifier)" in rule for rule in rules(challenger))
    assert 0 <= float(challenger.metrics["class_accuracy"]) <= 1
    assert "class_accuracy" not in first.metrics
    groups, first_groups = (metrics(result)["groups"] for result in (challenger, first))
    shares = np.array(manifest.splits["test"].class_counts) / manifest.splits["test"].records
    assert groups["known"]["real"] == first_groups["known"]["real"] == pytest.approx(shares)
    # The labels of samples are drawn from the training images' shares.
    assert groups["known"]["model"] == pytest.approx(np.array(counts) / sum(counts), abs=0.05)
    assert (first_groups["known"]["model"], groups["known"]["champion"]) == (None, None)
    assert report(challenger).count(" src=") == 9  # one more: a row for each class

    reverse = run(two_checkpoints[1], tmp_path / "reverse", registry=champion_of(conditional, tmp_path))
    assert metrics(reverse)["groups"]["known"]["champion"] == groups["known"]["model"]
    # The published model draws the same labels from the same proportions.
    assert reverse.metrics["champion_fcd"] == pytest.approx(challenger.metrics["fcd"], rel=1e-3)
    assert {result.parameters["verdict"] for result in (challenger, reverse)} != {evaluations.PROMOTE}


def test_a_champion_that_need_not_be_scored_or_cannot(
    run: Run, two_checkpoints: list[Path], champions: Path, tmp_path: Path
) -> None:
    damaged, other = tmp_path / "damaged", tmp_path / "other"
    shutil.copytree(champions, damaged)
    (registry.version_location(damaged, 1).path / "saved_model.pb").write_bytes(b"")
    artifacts.crown(other, make_model(tmp_path / "large", image=ImageShape(12, 8, 1)), 1)
    for location, verdict, reason in (
        (champions, evaluations.HOLD, "version 1"),
        (damaged, evaluations.REJECT, "saved_model.pb"),
        (other, evaluations.REJECT, "12x8x1"),
    ):
        result = run(two_checkpoints[0], tmp_path / reason, registry=location)
        assert result.parameters["verdict"] == verdict
        assert reason in str(result.parameters["summary"])
        assert str(tmp_path) not in (folder_of(result) / evaluations.MANIFEST).read_text()


@pytest.mark.usefixtures("no_retries")
def test_the_champion_of_a_registry_in_a_bucket(champions: Path, gcs: Server) -> None:
    """It is found as in a folder, also if damaged; an unreachable bucket is no reason to reject."""
    gcs.create_bucket("b")
    location = "gs://b/runs/registry"
    assert inputs.read_champion(location) is None
    for path in champions.rglob("*"):
        if path.is_file():
            buckets.create(f"{location}/{path.relative_to(champions).as_posix()}", path)
    assert inputs.read_champion(location) == inputs.read_champion(str(champions))
    gcs.outage(True)
    with pytest.raises(TransientError):
        inputs.read_champion(location)
    gcs.outage(False)
    buckets.put(f"{location}/versions/1/saved_model.pb", b"another")
    champion = inputs.read_champion(location) or inputs.PublishedChampion(digest="none")
    assert "the registry/versions/1" in champion.problem
    assert champion.digest == "unreadable"


def test_a_generator_that_draws_nan_is_rejected(run: Run, two_checkpoints: list[Path], tmp_path: Path) -> None:
    manifest, state = checkpoints.Manifest.of(two_checkpoints[0]), checkpoints.load_state(two_checkpoints[0])
    name = next(name for name in state if name.endswith("to_image/bias"))
    state[name] = np.full_like(state[name], np.nan)
    with mock.patch.object(checkpoints, "not_finite", return_value=[]):
        checkpoints.save(tmp_path, manifest, state)
    result = run(checkpoints.step_folder(tmp_path, manifest.step), tmp_path / "e")
    assert result.parameters["verdict"] == evaluations.REJECT
    assert "bad_samples is 2000" in str(result.parameters["summary"])
    assert "fcd" not in result.metrics


def test_without_classes_the_class_rules_are_left_out(run: Run, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset", {"train": 100, "test": 40}, classes=[])
    checkpoint = make_checkpoint(tmp_path / "c", 1, dataset_digest=datasets.Manifest.of(dataset).digest)
    result = run(checkpoint, tmp_path / "e", dataset=dataset, embedding=make_embedding(tmp_path / "embedding", dataset))
    assert {"fcd_corrected", "recall against real images", "copy_nearness"} <= set(rules(result))
    assert not [rule for rule in rules(result) if "class" in rule]
    assert result.parameters["verdict"] == evaluations.PROMOTE
    assert "class_distance" not in result.metrics
    assert 0 <= float(result.metrics["bin_ratio"]) <= 1


@pytest.mark.slow
def test_clusters_named_as_the_classes_are_not_taken_for_these(run: Run, dataset: str, tmp_path: Path) -> None:
    manifest = datasets.Manifest.of(dataset)
    ours, theirs = (make_checkpoint(tmp_path, seed, SHAPE, manifest.digest, [9, 9, 9], 32) for seed in (1, 2))
    result = run(ours, tmp_path / "e", registry=champion_of(theirs, tmp_path / "champion"))
    assert "class_accuracy" not in result.metrics
    labels = metrics(result)["groups"]["known"]
    assert (labels["model"], labels["champion"]) == (None, None)


def test_a_dropped_classifier_and_no_certificate_are_in_the_reasons(
    run: Run, two_checkpoints: list[Path], dataset: str, tmp_path: Path
) -> None:
    dropped = make_embedding(tmp_path / "embedding", dataset, has_classifier=False)
    manifest = embeddings.Manifest.of(dropped)
    changes: dict[str, Any] = {"certificate": {"outcome": embeddings.TOO_FEW, "images": 200, "checks": []}}
    dataclasses.replace(manifest, class_count=0, test_accuracy=0.35, **changes).write(dropped)
    result = run(two_checkpoints[0], tmp_path / "e", embedding=dropped, uncertified="hold")
    assert result.parameters["verdict"] == evaluations.HOLD
    assert evaluations.Manifest.of(folder_of(result)).uncertified == "990 test images, 2,000 needed"
    for text in (str(result.parameters["summary"]), report(result)):
        assert "990 test images" in text
        assert "0.35" in text
    assert [rule for rule in rules(result) if "fcd" in rule] == ["fcd_corrected", "faults_fcd_corrected"]
    assert not [rule for rule in rules(result) if "class" in rule]


def test_too_few_images_strangers_and_an_embedding_without_a_certificate_are_refused(run: Run, tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "dataset", {"train": 100, "test": 19})
    checkpoint = make_checkpoint(tmp_path / "c", dataset_digest=datasets.Manifest.of(dataset).digest)
    embedding = make_embedding(tmp_path / "embedding", dataset)
    with pytest.raises(DataError, match=r"19 test .*100 training .*test_fraction"):
        run(checkpoint, tmp_path / "e", dataset=dataset, embedding=embedding)
    with pytest.raises(ConfigError) as raised:
        run(checkpoint, tmp_path / "e", embedding=embedding)
    assert [problem.split()[0] for problem in raised.value.problems] == ["checkpoint", "embedding"]
    checks = [{"check": name, "space": "", "value": 1.0, "limit": "", "passed": name == "x"} for name in ("x", "blur")]
    failed = {"outcome": embeddings.FAILED, "images": 9, "checks": checks}
    dataclasses.replace(embeddings.Manifest.of(embedding), certificate=failed).write(embedding)
    with pytest.raises(DataError, match=r"certificate .*: blur;"):
        run(checkpoint, tmp_path / "e", dataset=dataset, embedding=embedding)
    assert not [*(tmp_path / "e").iterdir()]


def test_the_report_stands_alone(run: Run, two_checkpoints: list[Path], champions: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "training" / two_checkpoints[1].name
    shutil.copytree(two_checkpoints[1], checkpoint)
    rows = [{"step": step, "critic_loss": -step, "generator_loss": 1.0, "gradient_norm": 1.1} for step in (50, 100)]
    (checkpoint / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 1')
    warning_row = {"signal": "wasserstein_estimate", "message": "wasserstein_estimate is <b>-1</b>"}
    (checkpoint / "health.jsonl").write_text(json.dumps({"step": 60, "warnings": [warning_row]}))
    result = run(checkpoint, tmp_path / "e", registry=champions)
    assert result.parameters["verdict"] == evaluations.PROMOTE, result.parameters["summary"]
    judged, champion = evaluations.Manifest.of(folder_of(result)), registry.read_champion(champions)
    assert (judged.champion_version, judged.champion_digest) == (1, champion.model_digest)
    text = report(result)
    # Samples, the champion's, real ones, closest pairs, classes, three splits, losses, slope.
    assert text.count(" src=") == text.count(' src="data:image/png;base64,') == 10
    assert "http" not in text.replace("http-equiv", "")
    assert str(tmp_path) not in text
    kept = json.loads((folder_of(result) / evaluations.TRAINING).read_text())
    manifest = checkpoints.Manifest.of(checkpoint)
    warning = {"warning": warning_row["message"], "first": 60, "last": 60, "windows": 1}
    assert kept == {"step": manifest.step, "settings": manifest.settings, "log": rows, "warnings": [warning]}
