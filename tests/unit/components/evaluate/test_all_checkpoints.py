"""Tests for the scores of all checkpoints and the choice of the best, on generators with random weights."""

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

from components.core.artifacts import checkpoints, datasets, embeddings, evaluations
from components.core.data import dataset_reader
from components.core.errors import ConfigError, DataError
from components.core.metrics import feature_spaces
from components.core.networks import checkpoint_networks, gan
from components.core.storage.location import Location
from components.evaluate import all_checkpoints
from components.evaluate import run as evaluate
from components.evaluate.config import AllCheckpointsConfig, EvaluateConfig
from components.evaluate.report import scores_table
from components.evaluate.scoring import scores
from tests import programs
from tests.fakes.gcs.server import Server
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
    digest = datasets.Manifest.of(str(filled / "datasets" / "d")).digest
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
    """The like with a training that grew worse after step 20."""
    for step, name in ((10, "bad"), (20, "good"), (30, "bad")):
        copy_as(weights[name], filled / "checkpoints" / "one", step, seed=0, rate=0.1)
    return filled


def config(training: Path | str, **changes: Any) -> AllCheckpointsConfig:
    return AllCheckpointsConfig(**{"checkpoints": str(training), "sample_count": SAMPLES, **changes})


def named(root: Path) -> dict[str, str]:
    """Dataset and embedding, for a training that does not lie in the root."""
    return {"dataset": str(root / "datasets" / "d"), "embedding": str(root / "embeddings" / "e")}


@pytest.fixture(scope="module")
def scored(root: Path) -> list[scores_table.Row]:
    """The rows of the training, after the command."""
    all_checkpoints.run(config(root / "checkpoints" / "one"))
    return scores_table.read(root / "checkpoints" / "one")


def test_a_row_holds_what_is_scored_of_the_checkpoint_by_itself(root: Path, scored: list[scores_table.Row]) -> None:
    """Against samples drawn anew, and a reference of its own."""
    dataset, checkpoint = root / "datasets" / "d", root / "checkpoints" / "one" / "step-0000000020"
    manifest = datasets.Manifest.of(str(dataset))
    train, validation, test = (dataset_reader.load_split(str(dataset), manifest, split)[0] for split in datasets.SPLITS)
    embedding = feature_spaces.load(root / "embeddings" / "e")
    reference = scores.make_reference(embedding, train, validation, len(validation), 0)
    latents = tf.random.stateless_normal([SAMPLES, 16], [0, 0], alg="philox")
    drawn = gan.to_pixels(checkpoint_networks.load_averaged(checkpoint)(latents, training=False)).numpy()
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
    assert comparison.dataset_digest == datasets.Manifest.of(str(root / "datasets" / "d")).digest
    assert comparison.embedding_digest == embeddings.Description.of(root / "embeddings" / "e").digest


def test_the_table_names_the_best_and_nothing_is_scored_again(
    root: Path, scored: list[scores_table.Row], capsys: pytest.CaptureFixture[str]
) -> None:
    training = root / "checkpoints" / "one"
    table = training / scores_table.FILE
    before = table.stat().st_mtime_ns
    assert all_checkpoints.run(config(training)).parameters["summary"] == "checkpoints: 3"
    assert table.stat().st_mtime_ns == before
    lines = capsys.readouterr().out.splitlines()
    assert "150 of them compared with as many validation images" in lines[0]
    assert "few images" in lines[1]
    assert lines[2].split()[:3] == ["step", "fcd", "fcd_error"]
    assert [line.split()[0] for line in lines[3:6]] == ["10", "20", "30"]
    # By brute force, from the file: the smallest distance, and of equal ones the latest step.
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    fewest = min(row["fcd"] for row in rows)
    best = max(row["step"] for row in rows if row["fcd"] == fewest)
    assert lines[6] == f"best: {checkpoints.step_folder(training, best)}, with the smallest fcd"
    assert best == 20
    assert [line.split()[-1] == "best" for line in lines[3:6]] == [False, True, False]


def test_a_training_in_a_bucket(
    root: Path, scored: list[scores_table.Row], gcs: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    gcs.create_bucket("b")
    for artefact in [*root.glob("datasets/*"), *root.glob("embeddings/*"), *root.glob("checkpoints/*/step-*")]:
        Location.of(f"gs://b/runs/{artefact.relative_to(root)}").commit(artefact)
    all_checkpoints.run(config("gs://b/runs/checkpoints/one"))
    lines = capsys.readouterr().out.splitlines()
    assert "validation images of gs://b/runs/datasets/d in gs://b/runs/embeddings/e" in lines[0]
    assert lines[-1].startswith("best: gs://b/runs/checkpoints/one/step-")
    kept = gcs.objects["b"]["runs/checkpoints/one/scores.jsonl"].content
    assert kept == (root / "checkpoints" / "one" / scores_table.FILE).read_bytes()
    # From another machine nothing is scored again.
    shutil.rmtree(Location.of("gs://b").path.parent.parent)
    before = {name: stored.generation for name, stored in gcs.objects["b"].items()}
    all_checkpoints.run(config("gs://b/runs/checkpoints/one"))
    assert {name: stored.generation for name, stored in gcs.objects["b"].items()} == before
    assert capsys.readouterr().out.splitlines() == lines
    with pytest.raises(ConfigError, match=r"but gs://b/runs holds .*; give gs://b/runs/checkpoints/one$"):
        all_checkpoints.run(config("gs://b/runs"))


def test_killed_between_rows_and_the_same_command_again(
    root: Path, scored: list[scores_table.Row], weights: dict[str, Path], tmp_path: Path
) -> None:
    """A real process, killed as soon as there is a row, and a line that is cut short besides."""
    training = tmp_path / "one"
    shutil.copytree(root / "checkpoints" / "one", training)
    table = training / scores_table.FILE
    table.unlink()
    flags = {"checkpoints": training, "sample_count": SAMPLES, **named(root)}
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
    all_checkpoints.run(config(training, **named(root)))
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
        all_checkpoints.run(config(training, **named(root), **changes))
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
    training = tmp_path / "runs" / "checkpoints" / "one"
    shutil.copytree(root / "checkpoints" / "one", training)
    (training / "step-0000000020" / "state.npz").write_bytes(b"")
    stranger = make_checkpoint(tmp_path / "other", 3)  # step 103, of another dataset
    shutil.copytree(stranger, training / stranger.name)
    (training / stranger.name).rename(training / "step-0000000001")
    shutil.copytree(training / "step-0000000030", training / "step-0000000040")
    for kind, name in (("datasets", "d"), ("embeddings", "e")):
        (tmp_path / "runs" / kind / "damaged").mkdir(parents=True)
        (tmp_path / "runs" / kind / name).symlink_to(root / kind / name)
    found = all_checkpoints.run(config(training))
    assert found.parameters["summary"] == "checkpoints: 2"
    for told in ("step-0000000020 is damaged", "step-0000000001 was made of another dataset", "0040 is of step 30"):
        assert told in caplog.text
    for kind in ("datasets", "embeddings"):
        assert f" at {tmp_path}/runs/{kind}/damaged: " in caplog.text
    with pytest.raises(DataError, match=r"other was made of dataset 0000.*; give its folder by --dataset"):
        all_checkpoints.run(config(tmp_path / "other"))
    for step in (1, 10, 20, 30):
        shutil.rmtree(checkpoints.step_folder(training, step))
    with pytest.raises(DataError, match=r"no checkpoint in .*one that could be scored"):
        all_checkpoints.run(config(training))


def test_what_is_not_one_training_is_refused_in_one_line(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    several = tmp_path / "several"
    for key in "abcde":
        (several / "checkpoints" / key / "step-0000000010").mkdir(parents=True)
    must = r"^checkpoints must be the folder of one training, ROOT/checkpoints/KEY, but "
    for given, told in (
        (tmp_path / "empty", "empty holds no folders step-NNNNNNNNNN$"),
        (tmp_path / "nothing", "nothing holds no folders step-NNNNNNNNNN$"),
        (root, f"runs holds .*; give {root}/checkpoints/one$"),
        (several, "; give .*checkpoints/a or .*checkpoints/b or .*checkpoints/c, or one of 2 more$"),
        (several / "checkpoints", "; give .*checkpoints/a or .*, or one of 2 more$"),
    ):
        with pytest.raises(ConfigError, match=must + f".*{told}"):
            all_checkpoints.run(config(given))


def test_what_cannot_be_scored_is_told(
    root: Path,
    scored: list[scores_table.Row],
    weights: dict[str, Path],
    tmp_path: Path,
    make_dataset: Callable[..., str],
    make_embedding: Callable[..., Path],
) -> None:
    several = tmp_path / "several"
    several.mkdir()
    for name in ("datasets", "checkpoints"):
        (several / name).symlink_to(root / name)
    one = several / "checkpoints" / "one"
    with pytest.raises(DataError, match=r"no embedding of dataset .*/d; give its folder by --embedding"):
        all_checkpoints.run(config(one))
    shutil.copytree(root / "embeddings", several / "embeddings")
    shutil.copytree(root / "embeddings" / "e", several / "embeddings" / "same")
    all_checkpoints.run(config(one))
    described = embeddings.Description.of(root / "embeddings" / "e").to_json()
    shutil.copytree(root / "embeddings" / "e", several / "embeddings" / "other")
    (several / "embeddings" / "other" / embeddings.MANIFEST).write_text(json.dumps({**described, "settings": {"s": 1}}))
    with pytest.raises(ConfigError, match="embedding must be given, as there are several"):
        all_checkpoints.run(config(one))
    all_checkpoints.run(config(one, embedding=str(several / "embeddings" / "e")))

    small = make_dataset(tmp_path / "small", {"train": 100, "validation": 19, "test": 40})
    manifest = datasets.Manifest.of(small)
    training = tmp_path / "training"
    described_one = checkpoints.Description.of(weights["good"])
    described_one = dataclasses.replace(described_one, dataset_digest=manifest.digest)
    checkpoints.save(training, described_one, checkpoints.load_state(weights["good"]))
    embedding = str(make_embedding(tmp_path / "embedding", small))
    with pytest.raises(DataError, match=r"19 validation images and 100 .* larger validation_fraction"):
        all_checkpoints.run(config(training, dataset=small, embedding=embedding))


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
