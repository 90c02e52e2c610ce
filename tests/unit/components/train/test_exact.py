"""Every pair of values of two options under `exact`, generated from the settings: replicas compute the bits of one."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from components.core import settings
from components.core.artifacts import datasets
from components.core.artifacts.datasets import ImageShape
from components.core.distributed.adam import Adam
from components.core.distributed.coordination import Agreement
from components.core.distributed.global_batch import BatchPartition, BatchShard, LossOutput, apply_update
from components.core.distributed.strategies import choose_strategy, set_threads
from components.core.errors import ConfigError
from components.core.networks.normalization import ExactLayerNormalization
from components.train import labels, loop, losses
from components.train.batches import Batches
from components.train.config import ResolvedConfig, TrainConfig, with_augmentation
from components.train.labels import conditioning_of, label_features
from components.train.step import WganStep, network_of
from tests import programs
from tests.inputs import artifacts

Row = dict[str, Any]  # a value of each option

STEPS = 3
# Of numbers those that change what is computed; others have their defaults. Small, as each row is compiled, but every
# layer has several filters and every replica several shards: of one of either nothing is summed in another order.
NUMBERS: dict[str, tuple[Any, ...]] = {
    "steps": (STEPS,),
    "batch_size": (12, 24),
    "critic_steps": (1, 2),
    "beta_1": (0.0, 0.5),
    "ema_decay": (0.0, 0.999),
    "latent_size": (6,),
    "base_filters": (4,),
    "virtual_shards": (4, 6),
}
# What is no setting: the images, and whether another training's networks are the start.
OTHERS: dict[str, tuple[Any, ...]] = {"image": ((20, 17, 3), (12, 10, 1)), "initial_checkpoint_digest": ("", "d")}


def options() -> dict[str, tuple[Any, ...]]:
    choices = {
        field.name: field.setting.choices or NUMBERS.get(field.name, (field.default,))
        for field in settings.fields_of(TrainConfig)
        if field.setting.in_key and not field.setting.digest
    }
    return {**choices, "reproducibility": ("exact",), **OTHERS}


def config_of(row: Row) -> TrainConfig:
    values = {name: value for name, value in row.items() if name != "image"}
    return TrainConfig(dataset="-", checkpoints="-", initial_checkpoint="-", accelerator="cpu", **values)


def pairs_of(row: Row) -> set[tuple[Any, ...]]:
    return {*itertools.combinations(sorted(row.items()), 2)}


def all_pairs() -> set[tuple[Any, ...]]:
    pairs = set()
    for (left, values), (right, others) in itertools.combinations(sorted(options().items()), 2):
        for pair in itertools.product(values, others):
            with_pair = dict(zip((left, right), pair, strict=True))
            try:
                config_of({"reproducibility": "exact", "batch_size": 12, "virtual_shards": 4, **with_pair})
            except ConfigError:
                continue
            pairs.add(tuple(with_pair.items()))
    return pairs


def covering_rows() -> list[Row]:
    """Return rows that hold every pair; greedily, each value is the one with the most pairs that no row has yet."""
    missing, rows = all_pairs(), []
    while missing:
        row = dict(min(missing, key=repr))
        for name, values in options().items():
            row.setdefault(name, max(values, key=lambda value: len(pairs_of({**row, name: value}) & missing)))
        rows.append(row)
        missing -= pairs_of(row)
    return rows


def results(replicas: int, file: str, rows: Sequence[Row]) -> None:
    set_threads(exact=True)
    strategy = choose_strategy("cpu", replicas, 12, exact=True)
    arrays: dict[str, np.ndarray] = {}
    for number, row in enumerate(rows):
        arrays |= {f"{number}|{name}": value for name, value in trained(row, strategy).items()}
    np.savez(file, allow_pickle=False, **arrays)


def trained(row: Row, strategy: tf.distribute.Strategy) -> dict[str, np.ndarray]:
    random, image = np.random.default_rng(0), ImageShape(*row["image"])
    images, classes = random.integers(0, 256, (400, *row["image"]), dtype=np.uint8), np.arange(400, dtype=np.int32) % 2
    splits = dict.fromkeys(datasets.SPLITS, datasets.Split(400, [200, 200], []))
    config = with_augmentation(config_of(row), len(images))
    manifest = artifacts.dataset(image=image, splits=splits)
    resolved = ResolvedConfig(config, manifest, conditioning_of(config, manifest), "c", Path("c"))
    chosen = labels.choose(resolved, [(images, classes)])
    network = network_of(config, image, len(chosen.names), label_features(chosen.kind))
    precision = loop.common_precision(config, None, Agreement(strategy, None))
    wgan = WganStep(config, network, strategy, precision.name, chosen.features)
    batches = Batches(images, chosen.by_split[0] if chosen.names else None, config)
    reported = wgan.run_block(*batches.block(0, STEPS))
    return {**wgan.state_arrays(), **{f"reported/{name}": value.numpy() for name, value in reported.items()}}


def arrays_on(replicas: int, folder: Path, call: Callable[..., None], *arguments: Any) -> dict[str, np.ndarray]:
    """Return what a function writes, which gets the number of replicas and a file, in a process of its own."""
    file = folder / f"{replicas}.npz"
    with programs.Program(call, replicas, str(file), *arguments) as program:
        _, err = program.communicate()
    assert program.returncode == 0, err
    with np.load(file) as arrays:
        return dict(arrays)


@pytest.mark.long
def test_several_replicas_compute_the_bits_of_one(tmp_path: Path) -> None:
    rows = covering_rows()
    assert (("conditioning", "cluster"), ("precision", "bfloat16")) in set().union(*map(pairs_of, rows))
    one, two = (arrays_on(count, tmp_path, results, rows) for count in (1, 2))
    assert all(np.isfinite(value).all() for value in one.values())
    assert [one[f"{number}|step"].item() for number in range(len(rows))] == [STEPS] * len(rows)
    assert one.keys() == two.keys()
    different = [name.split("|") for name in one if not np.array_equal(one[name], two[name])]
    assert different == [], {number: rows[int(number)] for number, _ in different}


def normalized(replicas: int, file: str) -> None:
    set_threads(exact=True)
    strategy = choose_strategy("cpu", replicas, 8, exact=True)
    images = tf.random.stateless_normal([8, 20, 17, 3], [0, 0])
    with strategy.scope():
        layers = []
        for level in range(3):
            layers.append(keras.layers.Conv2D(8, 5, 2, "same", kernel_initializer=keras.initializers.HeNormal(level)))
            layers += [ExactLayerNormalization(), keras.layers.LeakyReLU(0.2)]
        head = keras.layers.Dense(1, kernel_initializer=keras.initializers.HeNormal(3))
        critic = keras.Sequential([keras.Input((20, 17, 3)), *layers, keras.layers.Flatten(), head])
        variables = [variable.value for variable in critic.trainable_variables]
        adam = Adam(variables, 1e-3, 0.0, 0.99, "adam")

    def terms(shard: BatchShard) -> LossOutput:
        scores = critic(shard.of(images))[:, 0]
        return LossOutput(scores + losses.penalty(losses.gradient_norms(critic, shard.of(images))))

    @tf.function
    def update() -> None:
        strategy.run(lambda: apply_update(terms, variables, adam, BatchPartition(8, 4)))

    update()
    first = adam.state("adam", [variable.path for variable in critic.trainable_variables])
    np.savez(file, allow_pickle=False, **{name: variable.numpy() for name, variable in first.items()})


@pytest.mark.slow
def test_the_layer_normalization_of_the_library_is_exact_too(tmp_path: Path) -> None:
    """TensorFlow's arithmetic optimizer reorders its sums by the rest of the graph, so `exact` goes without."""
    one, two = (arrays_on(count, tmp_path, normalized) for count in (1, 2))
    assert any(value.any() for value in one.values())
    assert [name for name in one if not np.array_equal(one[name], two[name])] == []
