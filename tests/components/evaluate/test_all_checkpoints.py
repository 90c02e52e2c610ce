"""Tests for the scores of all checkpoints and the choice of the best, on generators with random weights."""

import csv
import dataclasses
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components import checkpoint_networks, checkpoints, datasets, embeddings, evaluations, networks, places, records
from components.errors import ConfigError, DataError
from components.evaluate import all_checkpoints, scores, scores_table
from components.evaluate import run as evaluate
from components.evaluate.all_checkpoints_config import AllCheckpointsConfig
from components.evaluate.config import EvaluateConfig
from tests import programs
from tests.gcs_server.server import Server
from tests.limits import NO_LIMITS

pytestmark = pytest.mark.slow

SAMPLES = 200
COUNTS = {"train": 300, "validation": 150, "test": 120}


def copy_as(checkpoint: Path, training: Path, step: int, **settings: Any) -> Path:
    """The same weights as the checkpoint of another step of another training."""
    described = checkpoints.Description.of(checkpoint)
    settings = {**described.settings, **settings}
    described = dataclasses.replace(described, step=step, settings=settings)
    checkpoints.save(training, described, checkpoints.load_state(checkpoint))
    return checkpoints.step_folder(training, step)


@pytest.fixture(scope="module")
def weights(
    tmp_path_factory: pytest.TempPathFactory, filled: Path, make_checkpoint: Callable[..., Path]
) -> dict[str, Path]:
    """Generators with random weights, of which one is by luck better than the other."""
    folder = tmp_path_factory.mktemp("weights")
    digest = records.Manifest.of(str(filled / "datasets" / "d")).digest
    return {name: make_checkpoint(folder, seed, dataset_digest=digest) for name, seed in (("good", 0), ("bad", 6))}


@pytest.fixture(scope="module")
def filled(
    tmp_path_factory: pytest.TempPathFactory,
    make_dataset: Callable[..., str],
    make_embedding: Callable[..., Path],
) -> Path:
    """A root with a dataset and its embedding."""
    root = tmp_path_factory.mktemp("all") / "runs"
    (root / "embeddings").mkdir(parents=True)
    make_embedding(root / "embeddings" / "e", make_dataset(root / "datasets" / "d", COUNTS))
    return root


@pytest.fixture(scope="module")
def root(filled: Path, weights: dict[str, Path]) -> Path:
    """The like with two trainings: one that grew worse after step 20, and one of another learning rate."""
    for training, step, name in (("one", 10, "bad"), ("one", 20, "good"), ("one", 30, "bad"), ("two", 10, "good")):
        rate = 0.1 if training == "one" else 0.2
        copy_as(weights[name], filled / "checkpoints" / training, step, seed=0, rate=rate)
    return filled


def config(root: Path, **changes: Any) -> AllCheckpointsConfig:
    return AllCheckpointsConfig(**{"root": str(root), "sample_count": SAMPLES, **changes})


@pytest.fixture(scope="module")
def scored(root: Path) -> list[scores_table.Row]:
    """The rows of the first training, after the command."""
    all_checkpoints.run(config(root, out=str(root / "scores.csv")))
    return scores_table.read(root / "checkpoints" / "one")


def test_a_row_holds_what_is_scored_of_the_checkpoint_by_itself(root: Path, scored: list[scores_table.Row]) -> None:
    """Against samples drawn anew, and a reference of its own."""
    dataset, checkpoint = root / "datasets" / "d", root / "checkpoints" / "one" / "step-0000000020"
    manifest = records.Manifest.of(str(dataset))
    train, validation, test = (datasets.load_split(str(dataset), manifest, split)[0] for split in records.SPLITS)
    embedding = embeddings.load(root / "embeddings" / "e")
    reference = scores.make_reference(embedding, train, validation, len(validation), 0)
    latents = tf.random.stateless_normal([SAMPLES, 16], [0, 0], alg="philox")
    drawn = networks.to_pixels(checkpoint_networks.load_averaged(checkpoint)(latents, training=False)).numpy()
    expected = scores.score(reference, iter(np.array_split(drawn, 3)), "samples").scores
    row = scored[1]
    assert row.step == 20
    assert expected.keys() <= row.scores.keys()
    for name, value in expected.items():
        assert row.scores[name] == (value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)), name
    assert row.scores["bad_samples"] == 0
    of_test = scores.make_reference(embedding, train, test, len(test), 0)
    assert row.scores["fcd"] != pytest.approx(scores.score(of_test, iter([drawn]), "samples").scores["fcd"], rel=1e-3)


def test_a_row_tells_of_checkpoint_comparison_and_training(root: Path, scored: list[scores_table.Row]) -> None:
    folders = [root / "checkpoints" / "one" / f"step-00000000{step}" for step in (10, 20, 30)]
    assert [row.checkpoint_digest for row in scored] == [
        checkpoints.Description.of(folder).digest for folder in folders
    ]
    assert {row.settings["rate"] for row in scored} == {0.1}
    (comparison,) = {row.comparison for row in scored}
    assert (comparison.split, comparison.compared, comparison.samples, comparison.seed) == ("validation", 150, 200, 0)
    assert comparison.dataset_digest == records.Manifest.of(str(root / "datasets" / "d")).digest
    assert comparison.embedding_digest == embeddings.Description.of(root / "embeddings" / "e").digest


def test_the_table_names_the_best_and_what_differs_and_nothing_is_scored_again(
    root: Path, scored: list[scores_table.Row], capsys: pytest.CaptureFixture[str]
) -> None:
    tables = sorted((root / "checkpoints").glob("*/scores.jsonl"))
    before = [path.stat().st_mtime_ns for path in tables]
    assert len(before) == 2
    all_checkpoints.run(config(root))
    assert [path.stat().st_mtime_ns for path in tables] == before
    lines = capsys.readouterr().out.splitlines()
    assert "150 of them compared with as many validation images" in lines[0]
    assert "few images" in lines[1]
    assert lines[2].split()[:5] == ["training", "step", "rate", "fcd", "fcd_error"]
    found = [dict(zip(lines[2].split(), line.split(), strict=False)) for line in lines[3:7]]
    assert [(row["training"], row["step"], row["rate"]) for row in found] == [
        *(("one", step, "0.1") for step in ("10", "20", "30")),
        ("two", "10", "0.2"),
    ]
    # By brute force, from the file: the smallest distance, and of equal ones the latest step.
    rows = [(path.parent, json.loads(line)) for path in tables for line in path.read_text().splitlines()]
    fewest = min(row["fcd"] for _, row in rows)
    folder, best = max((entry for entry in rows if entry[1]["fcd"] == fewest), key=lambda entry: entry[1]["step"])
    assert lines[7] == f"best: {checkpoints.step_folder(folder, best['step'])}, with the smallest fcd"
    assert best["step"] == 20
    assert [line.split()[-1] == "best" for line in lines[3:7]] == [False, True, False, False]
    with open(root / "scores.csv") as file:
        written = list(csv.DictReader(file))
    assert [float(row["fcd"]) for row in written] == [row["fcd"] for _, row in rows]
    assert [(row["training"], row["settings.rate"]) for row in written] == [("one", "0.1")] * 3 + [("two", "0.2")]


def test_a_root_in_a_bucket(
    root: Path, scored: list[scores_table.Row], gcs: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gcs.create_bucket("b")
    for artefact in [*root.glob("datasets/*"), *root.glob("embeddings/*"), *root.glob("checkpoints/*/step-*")]:
        places.send(artefact, f"gs://b/runs/{artefact.relative_to(root)}")
    all_checkpoints.run(dataclasses.replace(config(root), root="gs://b/runs"))
    lines = capsys.readouterr().out.splitlines()
    assert "validation images of gs://b/runs/datasets/d in gs://b/runs/embeddings/e" in lines[0]
    assert lines[-1].startswith("best: gs://b/runs/checkpoints/")
    kept = gcs.objects["b"]["runs/checkpoints/one/scores.jsonl"].content
    assert kept == (root / "checkpoints" / "one" / scores_table.FILE).read_bytes()
    # From another machine nothing is scored again.
    shutil.rmtree(places.local("gs://b").parent.parent)
    before = {name: stored.generation for name, stored in gcs.objects["b"].items()}
    all_checkpoints.run(dataclasses.replace(config(root), root="gs://b/runs"))
    assert {name: stored.generation for name, stored in gcs.objects["b"].items()} == before
    assert capsys.readouterr().out.splitlines() == lines


def test_killed_between_rows_and_the_same_command_again(
    root: Path, scored: list[scores_table.Row], weights: dict[str, Path], tmp_path: Path
) -> None:
    """A real process, killed as soon as there is a row, and a line that is cut short besides."""
    training = tmp_path / "one"
    shutil.copytree(root / "checkpoints" / "one", training)
    table = training / scores_table.FILE
    table.unlink()
    flags = {"root": root, "checkpoints": training, "sample_count": SAMPLES}
    command = [sys.executable, "-m", "components.evaluate", "--all-checkpoints"]
    command += [f"--{name}={value}" for name, value in flags.items()]
    with programs.start(command) as process:
        while not table.exists() and process.returncode is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = scores_table.read(training)
    assert kept == scored[: len(kept)]
    assert kept
    table.write_text(table.read_text() + table.read_text()[:100])
    all_checkpoints.run(config(root, checkpoints=str(training)))
    assert scores_table.read(training) == scored
    assert [json.loads(line)["step"] for line in table.read_text().splitlines()[:3]] == [10, 20, 30]


def test_another_seed_or_number_of_samples_is_another_row(
    root: Path, scored: list[scores_table.Row], tmp_path: Path
) -> None:
    training = tmp_path / "one"
    shutil.copytree(root / "checkpoints" / "one", training)
    for step in (10, 30):
        shutil.rmtree(checkpoints.step_folder(training, step))
    for changes in ({"seed": 1}, {"sample_count": 100}):
        all_checkpoints.run(config(root, checkpoints=str(training), **changes))
    rows = scores_table.read(training)
    assert len(rows) == 5
    assert scores_table.read(training, scored[0].comparison) == scored
    assert len({row.comparison for row in rows}) == 3


def test_what_is_damaged_or_strange_is_passed_over(
    root: Path,
    scored: list[scores_table.Row],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    make_checkpoint: Callable[..., Path],
) -> None:
    training = tmp_path / "one"
    shutil.copytree(root / "checkpoints" / "one", training)
    (training / "step-0000000020" / "state.npz").write_bytes(b"")
    stranger = make_checkpoint(tmp_path / "other", 3)  # step 103, of another dataset
    shutil.copytree(stranger, training / stranger.name)
    (training / stranger.name).rename(training / "step-0000000001")
    shutil.copytree(training / "step-0000000030", training / "step-0000000040")
    (tmp_path / "runs" / "checkpoints").mkdir(parents=True)
    for name in ("datasets", "embeddings"):
        (tmp_path / "runs" / name).symlink_to(root / name)
    training.rename(tmp_path / "runs" / "checkpoints" / "one")
    (tmp_path / "other").rename(tmp_path / "runs" / "checkpoints" / "other")
    found = all_checkpoints.run(config(tmp_path / "runs"))
    assert found.parameters["summary"] == "checkpoints: 2; trainings: 1"
    for told in ("step-0000000020 is damaged", "step-0000000001 was made of another dataset", "0040 is of step 30"):
        assert told in caplog.text
    assert "other was made of dataset 0000" in caplog.text


def test_what_cannot_be_scored_is_told(
    root: Path,
    scored: list[scores_table.Row],
    weights: dict[str, Path],
    tmp_path: Path,
    make_dataset: Callable[..., str],
    make_embedding: Callable[..., Path],
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no checkpoint under .*empty that could be scored"):
        all_checkpoints.run(config(tmp_path / "empty"))
    with pytest.raises(ConfigError, match="there is no folder"):
        all_checkpoints.run(config(root, out=str(tmp_path / "none" / "scores.csv")))

    several = tmp_path / "several"
    several.mkdir()
    for name in ("datasets", "checkpoints"):
        (several / name).symlink_to(root / name)
    shutil.copytree(root / "embeddings", several / "embeddings")
    shutil.copytree(root / "embeddings" / "e", several / "embeddings" / "same")
    all_checkpoints.run(config(several))
    described = embeddings.Description.of(root / "embeddings" / "e").to_json()
    shutil.copytree(root / "embeddings" / "e", several / "embeddings" / "other")
    (several / "embeddings" / "other" / embeddings.MANIFEST).write_text(json.dumps({**described, "settings": {"s": 1}}))
    with pytest.raises(ConfigError, match="embedding must be given, as there are several"):
        all_checkpoints.run(config(several))
    all_checkpoints.run(config(several, embedding=str(several / "embeddings" / "e")))

    small = make_dataset(tmp_path / "small", {"train": 100, "validation": 19, "test": 40})
    manifest = records.Manifest.of(small)
    training = tmp_path / "training"
    described_one = checkpoints.Description.of(weights["good"])
    described_one = dataclasses.replace(described_one, dataset_digest=manifest.digest)
    checkpoints.save(training, described_one, checkpoints.load_state(weights["good"]))
    named = {"checkpoints": training, "dataset": small, "embedding": make_embedding(tmp_path / "embedding", small)}
    places = {name: str(place) for name, place in named.items()}
    with pytest.raises(DataError, match=r"19 validation images and 100 .* larger validation_fraction"):
        all_checkpoints.run(config(tmp_path, **places))


def judge(root: Path, checkpoint: Path, place: Path, **changes: Any) -> dict[str, Any]:
    """The output parameters of the real stage, without limits that matter."""
    given = {"checkpoint": checkpoint, "dataset": root / "datasets" / "d", "embedding": root / "embeddings" / "e"}
    places = {name: str(value) for name, value in {**given, "evaluation": place}.items()}
    return evaluate.run(EvaluateConfig(**{**places, **NO_LIMITS, "sample_count": SAMPLES, **changes})).parameters


@pytest.fixture(scope="module")
def best(root: Path, scored: list[scores_table.Row], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The stage's word on a training whose checkpoint before the last is the better one."""
    training = tmp_path_factory.mktemp("best") / "training"
    shutil.copytree(root / "checkpoints" / "one", training)
    (training / scores_table.FILE).unlink()
    return judge(root, training / "step-0000000030", training.parent / "{key}", export_checkpoint="best")


def test_the_best_is_judged_in_place_of_the_last(
    root: Path, scored: list[scores_table.Row], best: dict[str, Any], tmp_path: Path
) -> None:
    """What is said of it is what is said of it alone."""
    middle, place = Path(best["judged_checkpoint_uri"]), Path(best["evaluation_uri"])
    assert middle.name == "step-0000000020"
    assert scores_table.read(middle.parent) == scored
    assert " at step 20, the best of 3 checkpoints" in best["summary"]
    reason = "step 20 is judged as the best of the 3 checkpoints from step 10 to 30: its fcd to validation images is "
    assert reason in (place / evaluations.REPORT).read_text()
    digest = checkpoints.Description.of(middle).digest
    assert best["judged_checkpoint_digest"] == evaluations.Description.of(place).checkpoint_digest == digest

    last = middle.with_name("step-0000000030")
    alone = {checkpoint: judge(root, checkpoint, tmp_path / checkpoint.name) for checkpoint in (last, middle)}
    for checkpoint, found in alone.items():
        assert found["judged_checkpoint_uri"] == str(checkpoint)
        assert found["judged_checkpoint_digest"] == checkpoints.Description.of(checkpoint).digest
        assert (
            evaluations.Description.of(found["evaluation_uri"]).checkpoint_digest == found["judged_checkpoint_digest"]
        )
    told, of_last, of_middle = (
        json.loads((Path(found["evaluation_uri"]) / evaluations.METRICS).read_text())
        for found in (best, alone[last], alone[middle])
    )
    assert told["model"] == of_middle["model"]
    assert told["model"]["fcd"] < of_last["model"]["fcd"]
    assert [entry["distance"] for entry in told["choice"]["candidates"]] == [row.scores["fcd"] for row in scored]
    assert of_last["choice"] is of_middle["choice"] is None


def test_the_key_follows_the_checkpoints_that_there_were(root: Path, best: dict[str, Any], tmp_path: Path) -> None:
    training = tmp_path / "training"
    shutil.copytree(Path(best["judged_checkpoint_uri"]).parent, training)
    last, place = training / "step-0000000030", Path(best["evaluation_uri"])
    again = judge(root, last, place.parent / "{key}", export_checkpoint="best")
    assert again == {**best, "judged_checkpoint_uri": str(training / "step-0000000020")}
    # What came after the checkpoint that was given is none of its business.
    with pytest.raises(ConfigError, match="candidates_digest was"):
        judge(root, training / "step-0000000020", place, export_checkpoint="best")
    shutil.rmtree(training / "step-0000000010")
    without = judge(root, last, tmp_path / "{key}", export_checkpoint="best")
    assert without["judged_checkpoint_digest"] == best["judged_checkpoint_digest"]
    assert Path(without["evaluation_uri"]).name != place.name


def test_no_distance_at_all_leaves_the_last_to_be_rejected(
    root: Path, scored: list[scores_table.Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "not_finite", lambda state: [])  # as something else may have written one
    state = checkpoints.load_state(root / "checkpoints" / "one" / "step-0000000030")
    described = checkpoints.Description.of(root / "checkpoints" / "one" / "step-0000000030")
    name = next(name for name in state if name.endswith("to_image/bias"))
    state[name] = np.full_like(state[name], np.nan)
    for step in (10, 20):
        checkpoints.save(tmp_path / "t", dataclasses.replace(described, step=step), state)
    last = tmp_path / "t" / "step-0000000020"
    found = judge(root, last, tmp_path / "e", export_checkpoint="best")
    assert found["judged_checkpoint_uri"] == str(last)
    assert found["verdict"] == evaluations.REJECT
    report = (tmp_path / "e" / evaluations.REPORT).read_text()
    assert "step 20 is judged as the last of the 2 checkpoints from step 10 to 20, as none has a distance" in report
