"""Tests for the scores of all checkpoints, on generators with random weights."""

import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core.artifacts import checkpoints, datasets, embeddings
from components.core.data import dataset_reader
from components.core.errors import ConfigError, DataError
from components.core.metrics import feature_spaces
from components.core.networks import checkpoint_networks, gan
from components.core.storage.location import Location
from components.evaluate import all_checkpoints
from components.evaluate.config import AllCheckpointsConfig
from components.evaluate.report import scores_table
from components.evaluate.scoring import scores
from tests import programs
from tests.fakes.gcs.server import Server
from tests.inputs.stages import make_checkpoint
from tests.stages.evaluate.conftest import copy_as

pytestmark = pytest.mark.slow

SAMPLES = 200


@pytest.fixture(scope="module")
def one(root: Path, two_checkpoints: list[Path]) -> Path:
    """A training that became worse after step 20."""
    training = root / "checkpoints" / "one"
    for step, index in ((10, 0), (20, 1), (30, 0)):
        copy_as(two_checkpoints[index], training, step, rate=0.1)
    return training


@pytest.fixture(scope="module")
def scored(one: Path) -> list[scores_table.Row]:
    """The rows of the training, after the command."""
    score(one)
    return scores_table.read(one)


@pytest.fixture
def copied(one: Path, scored: list[scores_table.Row], root: Path, tmp_path: Path) -> Path:
    """A copy of the scored training, in a root with the same dataset and embedding."""
    for kind, name in (("datasets", "d"), ("embeddings", "e")):
        (tmp_path / "runs" / kind).mkdir(parents=True)
        (tmp_path / "runs" / kind / name).symlink_to(root / kind / name)
    training = tmp_path / "runs" / "checkpoints" / "one"
    shutil.copytree(one, training)
    return training


def score(training: Path | str, **changes: Any) -> str:
    """Run the command, and return its summary."""
    config = AllCheckpointsConfig(**{"checkpoints": str(training), "sample_count": SAMPLES, **changes})
    return str(all_checkpoints.run(config).parameters["summary"])


def test_a_row_holds_what_is_scored_of_the_checkpoint_by_itself(
    dataset: str, embedding: Path, one: Path, scored: list[scores_table.Row]
) -> None:
    """Against newly drawn samples, and an independent reference."""
    manifest, loaded = datasets.Manifest.of(dataset), feature_spaces.load(embedding)
    train, validation = (dataset_reader.load_split(dataset, manifest, split)[0] for split in ("train", "validation"))
    reference = scores.make_reference(loaded, train, validation, len(validation), 0)
    latents = tf.random.stateless_normal([SAMPLES, 16], [0, 0], alg="philox")
    generator = checkpoint_networks.load_averaged(one / "step-0000000020")
    drawn = gan.to_pixels(generator(latents, training=False)).numpy()
    expected = scores.score(reference, iter(np.array_split(drawn, 3)), "samples").values
    row = scored[1]
    assert row.step == 20
    assert expected.keys() <= row.scores.keys()
    for name, value in expected.items():
        assert row.scores[name] == (value if value is None else pytest.approx(value, rel=1e-4, abs=1e-6)), name
    assert row.scores["bad_samples"] == 0


def test_a_row_tells_of_checkpoint_comparison_and_training(
    dataset: str, embedding: Path, one: Path, scored: list[scores_table.Row]
) -> None:
    folders = [one / f"step-00000000{step}" for step in (10, 20, 30)]
    assert [row.checkpoint_digest for row in scored] == [
        checkpoints.Description.of(folder).digest for folder in folders
    ]
    assert {row.settings["rate"] for row in scored} == {0.1}
    (comparison,) = {row.comparison for row in scored}
    assert (comparison.split, comparison.compared, comparison.samples, comparison.seed) == ("validation", 150, 200, 0)
    assert comparison.dataset_digest == datasets.Manifest.of(dataset).digest
    assert comparison.embedding_digest == embeddings.Description.of(embedding).digest


def test_the_table_names_the_best_and_nothing_is_scored_again(
    one: Path, scored: list[scores_table.Row], capsys: pytest.CaptureFixture[str]
) -> None:
    table = one / scores_table.FILE
    before = table.stat().st_mtime_ns
    assert score(one) == "checkpoints: 3"
    assert table.stat().st_mtime_ns == before
    lines = capsys.readouterr().out.splitlines()
    assert "150" in lines[0]
    assert lines[2].split()[:3] == ["step", "fcd", "fcd_error"]
    assert [line.split()[0] for line in lines[3:6]] == ["10", "20", "30"]
    assert lines[6].startswith(f"best: {checkpoints.step_folder(one, 20)}, ")
    assert [line.split()[-1] == "best" for line in lines[3:6]] == [False, True, False]


def test_a_training_in_a_bucket(
    root: Path, one: Path, scored: list[scores_table.Row], bucket: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (datasets.MANIFEST, embeddings.MANIFEST, checkpoints.MANIFEST):
        for manifest in root.rglob(name):
            artifact = manifest.parent
            Location.of(f"gs://b/runs/{artifact.relative_to(root)}").commit(artifact, name)
    score("gs://b/runs/checkpoints/one")
    lines = capsys.readouterr().out.splitlines()
    kept = bucket.objects["b"]["runs/checkpoints/one/scores.jsonl"].content
    assert kept == (one / scores_table.FILE).read_bytes()
    # On another machine nothing is scored again.
    shutil.rmtree(Location.of("gs://b").path.parent.parent)
    before = {name: stored.generation for name, stored in bucket.objects["b"].items()}
    score("gs://b/runs/checkpoints/one")
    assert {name: stored.generation for name, stored in bucket.objects["b"].items()} == before
    assert capsys.readouterr().out.splitlines() == lines
    with pytest.raises(ConfigError, match=r" gs://b/runs/checkpoints/one$"):
        score("gs://b/runs")


def test_killed_between_rows_and_the_same_command_again(scored: list[scores_table.Row], copied: Path) -> None:
    """A real process, killed as soon as there is a row, and a line that is cut short."""
    table = copied / scores_table.FILE
    table.unlink()
    command = [sys.executable, "-m", "components.evaluate", "--all-checkpoints"]
    with programs.start([*command, f"--checkpoints={copied}", f"--sample_count={SAMPLES}"]) as process:
        while not table.exists() and process.returncode is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = scores_table.read(copied)
    assert kept == scored[: len(kept)]
    assert kept
    table.write_text(table.read_text() + table.read_text()[:100])
    score(copied)
    assert scores_table.read(copied) == scored
    assert [json.loads(line)["step"] for line in table.read_text().splitlines()[:3]] == [10, 20, 30]


def test_another_seed_or_number_of_samples_is_another_row(scored: list[scores_table.Row], copied: Path) -> None:
    for step in (10, 30):
        shutil.rmtree(checkpoints.step_folder(copied, step))
    for changes in ({"seed": 1}, {"sample_count": 100}):
        score(copied, **changes)
    rows = scores_table.read(copied)
    assert len(rows) == 5
    assert scores_table.read(copied, scored[0].comparison) == scored
    assert len({row.comparison for row in rows}) == 3


def test_damaged_and_foreign_checkpoints_are_skipped(
    copied: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (copied / "step-0000000020" / "state.npz").write_bytes(b"")
    stranger = make_checkpoint(tmp_path / "other", 3)  # step 103, of another dataset
    shutil.copytree(stranger, copied / "step-0000000001")
    shutil.copytree(copied / "step-0000000030", copied / "step-0000000040")
    for kind in ("datasets", "embeddings"):
        (tmp_path / "runs" / kind / "damaged").mkdir(parents=True)
    assert score(copied) == "checkpoints: 2"
    for logged in ("step-0000000020", "step-0000000001", "step-0000000040", "datasets/damaged", "embeddings/damaged"):
        assert logged in caplog.text
    with pytest.raises(DataError, match=r"0000.* --dataset"):
        score(tmp_path / "other")
    for step in (1, 10, 20, 30):
        shutil.rmtree(checkpoints.step_folder(copied, step))
    with pytest.raises(DataError, match=str(copied)):
        score(copied)


def test_what_is_not_one_training_is_refused_with_those_below_it(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    other = shutil.copytree(copied, copied.with_name("other"))
    for given, trainings in (
        (tmp_path / "empty", "none"),
        (tmp_path / "nothing", "none"),
        (copied.parent.parent, f"{copied}, {other}"),
        (copied.parent, f"{copied}, {other}"),
    ):
        with pytest.raises(ConfigError, match=rf"^checkpoints .* {given} .* {trainings}$"):
            score(given)


def test_the_embedding_must_be_there_and_unambiguous(embedding: Path, copied: Path) -> None:
    kept = copied.parent.parent / "embeddings"
    (kept / "e").unlink()
    with pytest.raises(DataError, match="--embedding"):
        score(copied)
    shutil.copytree(embedding, kept / "e")
    shutil.copytree(embedding, kept / "same")
    score(copied)
    shutil.copytree(embedding, kept / "other")
    described = embeddings.Description.of(embedding).to_json()
    (kept / "other" / embeddings.MANIFEST).write_text(json.dumps({**described, "settings": {"s": 1}}))
    with pytest.raises(ConfigError, match=r"^embedding .*/e, .*/other"):
        score(copied)
    score(copied, embedding=str(kept / "e"))
