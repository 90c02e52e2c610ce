"""Warm starts: what a training inherits, what it logs, and when it does without."""

import dataclasses
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.core import errors
from components.core.artifacts import checkpoints, datasets
from components.core.data import dataset_reader
from components.core.distributed.coordination import Agreement
from components.core.errors import ConfigError, DataError
from components.train import clusters, labels, loop, run
from components.train.config import TrainConfig, deciding_settings
from components.train.step import WganStep, network_of
from tests import programs
from tests.inputs import artifacts
from tests.proofs.stages import command
from tests.stages.train.attempts import training_in

HERE = tf.distribute.OneDeviceStrategy("/cpu:0")
SMALL: dict[str, Any] = {"batch_size": 16, "latent_size": 8, "base_filters": 4}


def write_champion(folder: Path, dataset: Path, **changes: Any) -> Path:
    """Write a checkpoint of step 500 whose weights, slots and counters all differ from those of a new training."""
    config = TrainConfig(dataset=str(dataset), checkpoints="unused", **{**SMALL, "seed": 7, **changes})
    manifest = datasets.Manifest.of(str(dataset))
    network = network_of(config, manifest.image, len(manifest.classes))
    wgan = WganStep(config, network, HERE)
    random = np.random.default_rng(7)
    state = {
        name: (array + random.uniform(0.01, 0.02, array.shape)).astype(array.dtype) if array.ndim else array + 500
        for name, array in wgan.state_arrays().items()
    }
    checkpoint = artifacts.checkpoint(
        500, network=dataclasses.asdict(network), settings=deciding_settings(config), classes=manifest.classes
    )
    checkpoints.save(folder, checkpoint, state)
    return checkpoints.step_folder(folder, 500)


@pytest.fixture(scope="module")
def champion(tiny_dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_champion(tmp_path_factory.mktemp("champion"), tiny_dataset)


def config_of(dataset: Path, champion: Path | str, **changes: Any) -> TrainConfig:
    options: dict[str, Any] = {"checkpoints": "unused", **SMALL, **changes}
    return TrainConfig(dataset=str(dataset), initial_checkpoint=str(champion), **options)


def train(dataset: Path, folder: Path, champion: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    options = {"dataset": dataset, "checkpoints": folder, "initial_checkpoint": champion, **SMALL, **changes}
    exact = {"reproducibility": "exact", "virtual_shards": 2, "learning_rate_decay": "none", "accelerator": "cpu"}
    every = {"checkpoint_every": 1, "keep_checkpoints": 0, "log_every": 5, "sample_every": 5}
    return programs.run(command("train", **{**exact, **every, **options}))


def test_a_training_begins_with_both_networks_and_their_average_alone(
    tiny_dataset: Path, champion: Path, tmp_path: Path
) -> None:
    """Seen in the checkpoint of the first step, which moved each weight by at most the step size of Adam."""
    done = train(tiny_dataset, tmp_path / "t", champion, steps=1, reproducibility="standard")
    assert done.returncode == 0, done.stderr
    assert str(champion) in done.stderr
    first = training_in(tmp_path / "t") / "step-0000000001"
    before, after = checkpoints.load_state(champion), checkpoints.load_state(first)
    rates = {"generator": TrainConfig.generator_learning_rate, "critic": TrainConfig.critic_learning_rate}
    trained = [name for name in after if f"{name.split('/')[0]}_adam/first/{'/'.join(name.split('/')[1:])}" in after]
    assert {name.split("/")[0] for name in trained} == set(rates)
    for name in trained:
        moved = np.abs(after[name] - before[name]).max()
        assert 0 < moved <= 1.01 * rates[name.split("/")[0]], name
    assert (after["step"], after["generator_adam/iterations"], after["critic_adam/iterations"]) == (1, 1, 1)
    slots = [name for name in after if "/first/" in name]
    for name in slots:  # g and 0.01 g^2: no moment came from before
        np.testing.assert_allclose(after[name] ** 2, 100 * after[name.replace("/first/", "/second/")], rtol=1e-3)
    # The average keeps all but a hundredth of the champion's, where it would begin by keeping a tenth.
    averages = [name for name in after if name.startswith("average/")]
    assert averages
    for name in averages:
        expected = 0.99 * before[name] + 0.01 * after[name.replace("average", "generator")]
        np.testing.assert_allclose(after[name], expected, rtol=1e-5, atol=1e-7)
    settings = checkpoints.Manifest.of(first).settings
    assert settings["initial_checkpoint_digest"] == checkpoints.Manifest.of(champion).digest
    assert "initial_checkpoint" not in settings  # its location may change


@pytest.mark.long
def test_begun_on_two_replicas_it_goes_on_without_the_initial_one_and_ends_in_the_same_bits(
    tiny_dataset: Path, champion: Path, tmp_path: Path
) -> None:
    digest, gone = checkpoints.Manifest.of(champion).digest, tmp_path / "gone"
    for folder, replicas in (("whole", 0), ("t", 2)):
        done = train(tiny_dataset, tmp_path / folder, champion, steps=10, replicas=replicas)
        assert done.returncode == 0, done.stderr
    whole, resumed = (training_in(tmp_path / folder) for folder in ("whole", "t"))
    checkpoints.remove_after(resumed, 5)
    done = train(tiny_dataset, tmp_path / "t", gone, steps=10, initial_checkpoint_digest=digest)
    assert done.returncode == 0, done.stderr
    assert "step 5 of 10" in done.stderr
    left, right = (checkpoints.load_state(folder / "step-0000000010") for folder in (whole, resumed))
    assert left.keys() == right.keys()
    assert [name for name in left if not np.array_equal(left[name], right[name])] == []
    for name in ("step-0000000005.png", "step-0000000010.png"):
        assert (whole / "samples" / name).read_bytes() == (resumed / "samples" / name).read_bytes()
    with pytest.raises(DataError, match="initial_checkpoint_digest"):
        run.run(config_of(tiny_dataset, gone, checkpoints=str(tmp_path / "t")))


def test_all_workers_begin_with_one_checkpoint(tiny_dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []

    def compare(_: Agreement, settings: dict[str, Any], step: int) -> None:
        compared.append(settings)
        raise ConfigError("compared")

    monkeypatch.setattr(Agreement, "require_same", compare)
    for location, digest in (("here", "a" * 64), ("there", "a" * 64), ("there", "b" * 64)):
        resolved = run.resolve(config_of(tiny_dataset, location, initial_checkpoint_digest=digest))
        with pytest.raises(ConfigError, match="compared"):
            loop.Session(resolved, tiny_dataset, None, Agreement(HERE, None))
    assert compared[0] == compared[1] != compared[2]


def test_the_folder_is_named_by_what_the_initial_checkpoint_holds_not_by_where_it_lies(
    tiny_dataset: Path, champion: Path, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(champion, tmp_path / "elsewhere" / champion.name)
    other = shutil.copytree(champion, tmp_path / "other" / champion.name)
    checkpoint = artifacts.unsealed(other / checkpoints.MANIFEST)
    artifacts.seal(other / checkpoints.MANIFEST, checkpoint, step=501)

    def location(folder: Path | str, **changes: Any) -> str:
        return run.resolve(config_of(tiny_dataset, folder, **changes)).location

    named = location(champion)
    assert named == location(elsewhere)
    assert named == location(tmp_path, initial_checkpoint_digest=checkpoints.Manifest.of(champion).digest)
    assert location(other) != named
    assert location("") != named


def refusal(dataset: Path, folder: Path, champion: Path | str, **changes: Any) -> str:
    """Return why a training is refused; nothing is left of the attempt."""
    with pytest.raises(errors.StageError) as raised:
        run.run(config_of(dataset, champion, checkpoints=str(folder), **changes))
    assert not folder.exists()
    assert "\n" not in str(raised.value)
    return f"{raised.value.exit_code}: {raised.value}"


def test_networks_of_another_kind_are_refused_with_every_difference(
    tiny_dataset: Path, unlabeled_dataset: Path, champion: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    reason = refusal(tiny_dataset, new, champion, latent_size=9, base_filters=8, generator_normalization="none")
    assert reason.startswith(f"64: initial_checkpoint {champion} ")
    assert "latent_size is 8 there and 9 here; base_filters is 4 there and 8 here; " in reason
    assert "generator_normalization is batch there and none here; give the settings" in reason
    assert ": conditioning is class there and none here; " in refusal(tiny_dataset, new, champion, conditioning="none")
    assert "image is 12x10x1 there and 9x16x3 here" in refusal(unlabeled_dataset, new, champion)


def test_a_conditional_training_begins_with_one_of_the_same_classes_alone(tiny_dataset: Path, tmp_path: Path) -> None:
    conditional = write_champion(tmp_path, tiny_dataset)
    checkpoint = artifacts.unsealed(conditional / checkpoints.MANIFEST)
    artifacts.seal(conditional / checkpoints.MANIFEST, checkpoint, classes=["0", "1", "ankle\nboot"])
    reason = refusal(tiny_dataset, tmp_path / "new", conditional)
    assert r"classes is ['0', '1', 'ankle\nboot'] there and ['0', '1', '2'] here" in reason
    artifacts.seal(conditional / checkpoints.MANIFEST, checkpoint)
    run.require_fitting(run.resolve(config_of(tiny_dataset, conditional)))


def test_a_training_on_more_images_keeps_its_first_clusters(unlabeled_dataset: Path, tmp_path: Path) -> None:
    manifest = datasets.Manifest.of(str(unlabeled_dataset))
    images = dataset_reader.load_split(unlabeled_dataset, manifest, "train")
    centers = clusters.find(images[0], 3, seed=1)  # of its own 400 images a training would find two
    config = config_of(unlabeled_dataset, tmp_path / "step-0000000500")
    network = dataclasses.asdict(network_of(config, manifest.image, 3, 32))
    names = [f"cluster {number}" for number in range(3)]
    checkpoint = artifacts.checkpoint(500, network=network, classes=names, class_counts=[200, 100, 100])
    checkpoints.save(tmp_path, checkpoint, {clusters.CENTERS: centers})
    resolved = run.resolve(config)
    run.require_fitting(resolved)
    chosen = labels.choose(resolved, [images], resolved.initial_checkpoint)
    assert (chosen.names, len(chosen.counts)) == (names, 3)
    np.testing.assert_array_equal(chosen.centers, centers)


def test_a_missing_damaged_or_other_checkpoint_is_refused(tiny_dataset: Path, champion: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    refused = refusal(tiny_dataset, new, champion.parent)
    assert refused.startswith("65: initial_checkpoint must be ")
    assert f" at {champion.parent}" in refused
    assert "has digest" in refusal(tiny_dataset, new, champion, initial_checkpoint_digest="0" * 64)
    damaged = shutil.copytree(champion, tmp_path / champion.name)
    (damaged / "state.npz").write_bytes((damaged / "state.npz").read_bytes()[:-1])
    assert "state.npz" in refusal(tiny_dataset, new, damaged)
    with pytest.raises(ConfigError, match=r"initial_checkpoint .* 000"):
        config_of(tiny_dataset, "", initial_checkpoint_digest="0" * 64)


def test_variables_that_the_networks_do_not_have_are_named(tiny_dataset: Path, champion: Path, tmp_path: Path) -> None:
    """Those of an earlier version of this program, whose networks of the same settings were others."""
    state = checkpoints.load_state(champion)
    lost = next(name for name in state if name.startswith("critic/"))
    changed = {"critic/old": state.pop(lost), **state, "step": np.zeros(3)}  # of its step nothing is taken
    checkpoints.save(tmp_path, checkpoints.Manifest.of(champion), changed)
    resolved = run.resolve(config_of(tiny_dataset, tmp_path / champion.name))
    with pytest.raises(DataError, match=f"{lost} is missing; critic/old is not known$"):
        loop.Session(resolved, tiny_dataset, None, Agreement(HERE, None))
