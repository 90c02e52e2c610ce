"""Tests for run.py and training.py: real trainings of a tiny dataset, interrupted and continued."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.core import errors
from components.core.artifacts import checkpoints, datasets, training_log
from components.core.data import dataset_reader
from components.core.networks import gan, saved_models
from components.core.networks.gan import GRID_COLUMNS
from components.core.stage import logs
from components.core.storage.location import Location
from components.train import clusters, loop, uploads
from components.train.config import ResolvedConfig, TrainConfig
from tests import programs
from tests.conftest import classes_seen, write_dataset
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts, sheets
from tests.inputs.damages import damage
from tests.stages.train.attempts import SICK, curves_of, flags, left_by, run_all, training_in

SMALL: dict[str, Any] = {"batch_size": 16, "latent_size": 8, "base_filters": 4, "steps": 30}
SMALL |= {"log_every": 7, "sample_every": 10, "checkpoint_every": 10}
# Of a training that takes long enough to be split over threads; its second half can be trained anew.
THREADED: dict[str, Any] = {"accelerator": "cpu", "critic_steps": 2, "latent_size": 16, "base_filters": 16, "steps": 6}
THREADED |= {"learning_rate_decay": "none", "virtual_shards": 2}  # `exact` takes the longer the more shards there are
THREADED |= {"log_every": 3, "checkpoint_every": 3}
OFTEN = {"checkpoint_every": 1}  # so many that a signal finds a training running even on a busy machine


def command(dataset: Path | str, folder: Path | str, **changes: object) -> list[str]:
    return [sys.executable, "-m", "components", "train", *flags(dataset, folder, **{**SMALL, **changes})]


def train(dataset: Path | str, folder: Path | str, **changes: object) -> subprocess.CompletedProcess[str]:
    return programs.run(command(dataset, folder, **changes))


def trained(dataset: Path | str, folder: Path | str, **changes: object) -> str:
    """Train successfully, and return the log."""
    done = train(dataset, folder, **changes)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def recorded(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("training") / "whole"
    done = programs.run(command(tiny_dataset, folder), {**os.environ, logs.RECORDS: "1"})
    assert done.returncode == 0, done.stderr
    return training_in(folder), done.stderr


@pytest.fixture(scope="module")
def uninterrupted(recorded: tuple[Path, str]) -> Path:
    return recorded[0]


def test_a_training_leaves_what_it_says(uninterrupted: Path) -> None:
    assert [row["step"] for row in left_by(uninterrupted)["metrics"]] == [7, 14, 21, 28, 30]
    sheets = sorted(path.name for path in (uninterrupted / "samples").iterdir())
    assert sheets == [f"step-00000000{step}.png" for step in (10, 20, 30)]
    curves = curves_of(uninterrupted)
    for name, curve in curves.items():
        steps = [10, 20, 30] if name == "samples" else [7, 14, 21, 28, 30]
        assert [step for step, _ in curve] == steps, name
    critic = [row["critic_loss"] for row in left_by(uninterrupted)["metrics"]]
    np.testing.assert_allclose([value for _, value in curves["critic_loss"]], critic, rtol=1e-6)
    with Image.open(uninterrupted / "samples" / "step-0000000020.png") as sheet:
        assert curves["samples"][1][1] == hashlib.sha256(sheet.convert("RGB").tobytes()).hexdigest()
    with Image.open(uninterrupted / "samples" / "step-0000000030.png") as grid:
        assert len(np.unique(np.asarray(grid))) > 5


def test_a_training_reports_each_block_with_the_newest_samples_and_checkpoint(recorded: tuple[Path, str]) -> None:
    folder, logged = recorded
    progress = [record.work for record in map(logs.parse, logged.encode().splitlines(keepends=True)) if record]
    reported = list(dict.fromkeys(work for work in progress if work))
    ends = [(work.done, work.kept) for work in reported if work.done > 18]
    assert ends == [(20, 10), (21, 20), (28, 20), (30, 20), (30, 30)]
    samples = f"{folder}/samples/step-0000000030.png"
    assert reported[-1] == logs.Work("step", 30, 30, images=16, samples=samples, kept=30)


def test_damaged_checkpoints_are_skipped_and_made_anew(tiny_dataset: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """From the one before, or from nothing."""
    every_state = [f"step-00000000{step}/state.npz" for step in (10, 20, 30)]
    for how, names in (("deleted", ["step-0000000030/checkpoint.json"]), ("cut", every_state)):
        folder = Path(shutil.copytree(uninterrupted, tmp_path / how / uninterrupted.name))
        for name in names:
            damage(folder / name, how)
        log = trained(tiny_dataset, folder.parent)
        assert all(Path(name).name in log for name in names)
        assert left_by(folder) == left_by(uninterrupted)
        for name in names:
            assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_a_file_in_place_of_the_folder_is_refused_untouched(tiny_dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.touch()
    done = train(tiny_dataset, file)
    assert done.returncode == errors.BAD_CONFIGURATION
    assert f"{file} (a file is in place of a folder" in done.stderr
    assert "Traceback" not in done.stderr
    assert [*tmp_path.iterdir()] == [file]


def test_sigkill_and_the_same_command_again(tiny_dataset: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """Its newest checkpoint is damaged, and sheets of samples are, or are none: they are passed over."""
    folder = tmp_path / uninterrupted.name
    tenth = checkpoints.step_folder(folder, 10)
    with programs.start(command(tiny_dataset, tmp_path, **OFTEN)) as process:
        while max(folder.glob("step-*"), default=folder / "") < tenth and process.returncode is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    damaged = checkpoints.step_folder(folder, checkpoints.steps(folder)[-1])
    damage(damaged / "state.npz", "one byte flipped")
    stray = [folder / "samples" / name for name in ("step-0000000001.png", "step-copy.png")]
    for path in stray:
        path.write_bytes(b"no PNG")
    log = trained(tiny_dataset, tmp_path)
    for path in stray:
        path.unlink()
    assert "resuming at step" in log
    assert damaged.name in log
    assert left_by(folder) == left_by(uninterrupted)
    assert len(checkpoints.steps(folder)) == 3


@pytest.mark.slow
def test_a_time_budget_becomes_steps_that_are_kept_and_repeat_the_training(tiny_dataset: Path, tmp_path: Path) -> None:
    """A signal ends the training, and the step reached is kept, as are all before it."""
    place, lines, budget = tmp_path / "budget", [], {"minutes": 0.02, "log_every": 1}
    # A busy machine has time for few steps, so the signal comes after the first.
    with programs.start(command(tiny_dataset, place, keep_checkpoints=0, **budget, **OFTEN)) as process:
        for line in process.stderr:
            lines.append(line)
            if " step 1 of " in line:
                process.send_signal(signal.SIGTERM)
    assert process.returncode == errors.TERMINATED, "".join(lines)
    folder = training_in(place)
    stopped = checkpoints.newest(folder)
    assert stopped is not None
    steps = stopped[1].settings["steps"]
    assert stopped[1].step < steps
    assert f" {steps} steps fit" in "".join(lines)
    assert f"stopped at step {stopped[1].step} of {steps}, which is saved" in "".join(lines)
    assert checkpoints.steps(folder) == [*range(1, stopped[1].step + 1)]
    assert "resuming at step" in trained(tiny_dataset, place, **budget)
    assert checkpoints.steps(folder)[-1] == steps
    trained(tiny_dataset, tmp_path / "steps", steps=steps, log_every=1)
    assert left_by(folder) == left_by(training_in(tmp_path / "steps"))


def test_a_complete_training_is_not_trained_again(tiny_dataset: Path, uninterrupted: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path.name != ".lock"}
    assert "already complete" in trained(tiny_dataset, uninterrupted.parent)
    assert {path: path.stat().st_mtime_ns for path in uninterrupted.rglob("*") if path.name != ".lock"} == before


def test_a_complete_training_in_a_bucket_fetches_none(tiny_dataset: Path, uninterrupted: Path, bucket: Server) -> None:
    Location.of("gs://b/dataset").commit(tiny_dataset, datasets.MANIFEST)
    for checkpoint in uninterrupted.glob("step-*"):
        location = Location.of(f"gs://b/trainings/{uninterrupted.name}/{checkpoint.name}")
        location.commit(checkpoint, checkpoints.MANIFEST)
    assert "already complete" in trained("gs://b/dataset", "gs://b/trainings")
    assert [path.name for path in Location.of("gs://b/dataset").path.iterdir()] == [datasets.MANIFEST]


@pytest.mark.slow
def test_two_at_once_in_one_folder_end_as_one(tiny_dataset: Path, uninterrupted: Path, tmp_path: Path) -> None:
    both = [programs.start(command(tiny_dataset, tmp_path)) for _ in range(2)]
    messages = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], messages
    assert any("another process" in message for message in messages)
    assert left_by(training_in(tmp_path)) == left_by(uninterrupted)


@pytest.mark.slow
@pytest.mark.usefixtures("bucket")
def test_a_training_that_will_not_recover_is_ended_and_its_last_good_checkpoint_stays(tiny_dataset: Path) -> None:
    """Without a penalty: exit code, signal and step, and no checkpoint of bad windows, here and in its bucket."""
    done = train(tiny_dataset, "gs://b/trainings", **SICK)
    (location,) = Location.of("gs://b/trainings").children()
    assert done.returncode == errors.DEFECT, done.stderr
    for named in ("excess_slope", "step 1200", "since step 600", "checkpoint of step 600", "critic_learning_rate"):
        assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert checkpoints.steps(location.path) == [500, 600, 700]
    assert uploads._steps_in_bucket(location) == [500, 600, 700]
    health = training_log.read(location.path / training_log.HEALTH)
    assert [row["step"] for row in health] == [200, 400, 600, 800, 1000, 1200]
    assert [bool(row["warnings"]) for row in health] == [False, False, False, True, True, True]


def test_a_conditional_generator_draws_the_class_that_it_is_asked_for(tiny_dataset: Path, tmp_path: Path) -> None:
    """The position of each class' blob; and its grid has a class in each row."""
    changes = {"steps": 300, "base_filters": 8, "ema_decay": 0.98}
    changes |= {"critic_learning_rate": 2.4e-3, "generator_learning_rate": 1.2e-3}  # fast, for so few steps
    every = {"log_every": 100, "sample_every": 300, "checkpoint_every": 300}
    trained(tiny_dataset, tmp_path, conditioning="class", **changes, **every)
    training = training_in(tmp_path)
    folder = checkpoints.step_folder(training, 300)
    labels = np.arange(300) % 3
    latents = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    inputs = gan.with_labels(tf.constant(latents), tf.constant(labels, tf.int32), 3)
    pixels = gan.to_pixels(saved_models.load_averaged(folder)(inputs, training=False)).numpy()
    assert np.mean(classes_seen(pixels) == labels) > 0.8
    assert len(np.unique(pixels, axis=0)) > 250  # not one image for each class
    manifest = checkpoints.Manifest.of(folder)
    assert manifest.network["classes"] == 3
    assert sum(manifest.class_counts) == 300
    cells = sheets.images_of((training / "samples" / "step-0000000300.png").read_bytes(), 12, 10)
    assert cells.shape == (3, GRID_COLUMNS, 12, 10, 1)
    assert np.mean(classes_seen(cells.reshape(-1, 12, 10, 1)) == np.repeat(np.arange(3), GRID_COLUMNS)) > 0.8


def centers_of(checkpoint: Path) -> np.ndarray:
    return checkpoints.load_state(checkpoint, clusters.CENTERS)[clusters.CENTERS]


@pytest.mark.slow
def test_images_without_labels_are_trained_on_by_clusters_that_stay(unlabeled_dataset: Path, tmp_path: Path) -> None:
    changes = {"steps": 4, "checkpoint_every": 2, "learning_rate_decay": "none", "keep_checkpoints": 0}
    assert "into 2 clusters" in trained(unlabeled_dataset, tmp_path / "whole", **changes)
    training = training_in(tmp_path / "whole")
    whole, half = (checkpoints.step_folder(training, step) for step in (4, 2))
    manifest = checkpoints.Manifest.of(whole)
    images = dataset_reader.open_split(unlabeled_dataset, datasets.Manifest.of(str(unlabeled_dataset)), "train")
    centers = clusters.find(images, 2, seed=0)
    np.testing.assert_array_equal(centers_of(whole), centers)
    assert manifest.classes == ["cluster 0", "cluster 1"]
    assert manifest.class_counts == np.bincount(clusters.assign(images, centers)).tolist()

    # As if they had been found in another order.
    state = {**checkpoints.load_state(half), clusters.CENTERS: centers[::-1]}
    swapped = tmp_path / "swapped" / training.name
    shutil.copytree(training, swapped, ignore=shutil.ignore_patterns("step-*"))
    checkpoints.save(swapped, checkpoints.Manifest.of(half), state)
    trained(unlabeled_dataset, swapped.parent, **changes)
    resumed = checkpoints.step_folder(swapped, 4)
    np.testing.assert_array_equal(centers_of(resumed), centers[::-1])
    assert checkpoints.Manifest.of(resumed).class_counts == manifest.class_counts[::-1]
    trained(unlabeled_dataset, tmp_path / "warm", initial_checkpoint=resumed, **changes)
    warm = checkpoints.step_folder(training_in(tmp_path / "warm"), 4)
    np.testing.assert_array_equal(centers_of(warm), centers[::-1])


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"dataset": "nowhere"}, 65, "no dataset at nowhere"),
        ({"dataset_digest": "0" * 64}, 65, "expected 0000"),
        ({"accelerator": "gpu"}, 64, "`gpu` extra"),
        ({"accelerator": "tpu", "tpu": "local"}, 64, "no /dev/accel*"),
        ({"reproducibility": "exact", "virtual_shards": 5}, 64, "virtual_shards, got 16 for 5"),
    ],
)
def test_bad_input_is_one_clear_line(
    tiny_dataset: Path, tmp_path: Path, changes: dict[str, Any], code: int, message: str
) -> None:
    done = train(**{"dataset": tiny_dataset, "folder": tmp_path, **changes})
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("error", [MemoryError(), tf.errors.ResourceExhaustedError(None, None, "OOM")])
def test_too_little_memory_names_the_settings_to_lower(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(loop, "Session", fail)
    config = TrainConfig(dataset="d", checkpoints="c", accelerator="cpu", batch_size=4096, base_filters=1024)
    with pytest.raises(errors.ConfigError, match="a batch of 4096 and base_filters 1024"):
        loop.train(ResolvedConfig(config, artifacts.dataset(), ("none", []), "c", Path("c")), Path("d"), None)


@pytest.mark.long
def test_exact_keeps_the_same_bytes_over_1_2_4_8_and_1_replicas(tiny_dataset: Path, tmp_path: Path) -> None:
    """Also samples and log; a checkpoint made on any number of replicas resumes on any other."""
    whole, spread = tmp_path / "one", tmp_path / "spread"
    exact = {"reproducibility": "exact", "learning_rate_decay": "none"}
    trained(tiny_dataset, whole, **exact)
    # Each leg but the last is stopped at a row of the log.
    legs = [
        {"flags": flags(tiny_dataset, spread, **{**SMALL, **exact, "accelerator": "cpu", "replicas": replicas})}
        for replicas in (1, 2, 4, 8, 1)
    ]
    results = run_all([*({**leg, "plan": [["row", 1, signal.SIGTERM]]} for leg in legs[:-1]), legs[-1]])
    assert [code for code, _ in results] == [*[errors.TERMINATED] * 4, 0], "\n".join(log for _, log in results)
    for (_, stopped), (_, resumed), step in zip(results[:-1], results[1:], (7, 14, 21, 28), strict=True):
        assert f"stopped at step {step} of 30" in stopped
        assert f"resuming at step {step} of 30" in resumed
    assert left_by(training_in(whole)) == left_by(training_in(spread))


@pytest.fixture(scope="module")
def large_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So large that TensorFlow splits the work on them over threads."""
    folder, counts = tmp_path_factory.mktemp("threads"), {"train": 120, "validation": 20, "test": 20}
    return write_dataset(folder, datasets.ImageShape(28, 28, 1), counts, 3)


def threaded(dataset: Path, folder: Path, threads: int = 0, cores: set[int] | None = None, **changes: object) -> str:
    """Train in a process with so many threads an operation (0: the default) on these cores; return its log."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_NUM_INTRAOP_THREADS"}
    environment |= {"TF_NUM_INTRAOP_THREADS": str(threads)} if threads else {}
    start = f"""
import os, runpy
os.sched_setaffinity(0, {cores or os.sched_getaffinity(0)})
runpy.run_module("components", run_name="__main__")
"""
    words = command(dataset, folder, **{**THREADED, **changes})[3:]
    done = programs.run([sys.executable, "-c", start, *words], environment)
    assert done.returncode == 0, done.stderr
    return done.stderr


def bits_and_threads(folder: Path) -> tuple[str, object]:
    manifest = checkpoints.Manifest.of(checkpoints.step_folder(training_in(folder), THREADED["steps"]))
    return manifest.state_sha256, manifest.made_with["threads"]


@pytest.mark.slow
def test_exact_gives_the_same_bits_for_any_number_of_threads_and_cores(large_images: Path, tmp_path: Path) -> None:
    straight, moved = tmp_path / "straight", tmp_path / "moved"
    exact: dict[str, Any] = {"reproducibility": "exact"}
    threaded(large_images, straight, 4, **exact)
    threaded(large_images, moved, 2, **exact)
    checkpoints.remove_after(training_in(moved), 3)
    log = threaded(large_images, moved, cores={min(os.sched_getaffinity(0))}, **exact)
    assert bits_and_threads(moved) == bits_and_threads(straight)
    assert bits_and_threads(moved)[1] == 1
    assert "resuming at step" in log
    assert "bits may differ" not in log


@pytest.mark.slow
def test_standard_training_records_its_threads_and_warns_where_they_change(large_images: Path, tmp_path: Path) -> None:
    """The third training shows that threads do change bits here; otherwise the test of `exact` would prove nothing."""
    straight, resumed, moved = (tmp_path / name for name in ("straight", "resumed", "moved"))
    threaded(large_images, straight, 4)
    for copy in (resumed, moved):
        shutil.copytree(straight, copy)
        checkpoints.remove_after(training_in(copy), 3)
    assert "bits may differ" not in threaded(large_images, resumed, 4)
    assert bits_and_threads(resumed) == bits_and_threads(straight)
    assert bits_and_threads(straight)[1] == 4
    log = threaded(large_images, moved, 1)
    assert "threads was 4 and is 1 (TF_NUM_INTRAOP_THREADS=4 restores it)" in log
    assert bits_and_threads(moved)[0] != bits_and_threads(straight)[0]
