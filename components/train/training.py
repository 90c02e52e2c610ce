"""The training loop: a block of steps, then whatever is due: a line of the log, a grid of samples, a checkpoint."""

import contextlib
import dataclasses
import logging
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components import checkpoints, conditioning, datasets, grids, lineage, networks, records, storage
from components.accelerator import choose_strategy, compute_side_by_side, kind_of
from components.agreement import Agreement
from components.cluster import Cluster
from components.data_order import EndlessOrder
from components.errors import ConfigError, DataError, TrainingDiverged
from components.interruption import deferred
from components.precision import choose_precision
from components.train import health
from components.train.config import TrainConfig, deciding_settings
from components.train.progress import Progress
from components.train.step import NETWORKS, WganStep, network_of
from components.train.uploads import Uploads
from components.train.watch import Watch

log = logging.getLogger(__name__)

# Few enough that a signal is noticed within seconds, enough that a call's overhead is nothing.
_BLOCK_STEPS = 10
_GRID_IMAGES = 64
# What decides no weight, but which steps are kept, where means begin anew, and whether training goes on at all.
_ON_RECORD = ("log_every", "sample_every", "checkpoint_every", "keep_checkpoints", "when_unhealthy")


def train(
    config: TrainConfig,
    manifest: records.Manifest,
    place: Path,
    found: tuple[Path, checkpoints.Description] | None,
    cluster: Cluster | None = None,
) -> None:
    """Trains from what was found (None: from the start) to `config.steps`, keeping checkpoints in `place`.

    The start is that of the initial checkpoint, if there is one: `config` then has its digest.

    With a cluster, every worker trains and the chief alone writes; each returns when all have come to the end.
    """
    compute_side_by_side()
    strategy = choose_strategy(config.accelerator, config.replicas, config.batch_size, config.tpu, cluster)
    workers = Agreement(strategy, cluster)
    if not workers.is_chief:
        # Again: by now nobody but the chief writes there.
        found = checkpoints.newest(place)
    _require_memory(config, manifest.image)
    precision = choose_precision(config.precision, strategy)
    with workers.or_try_again(), _too_large_told(config):
        # Of the precision what was chosen: `auto` asks the hardware, which may differ.
        common = {**_common_settings(config, manifest), "precision": precision}
        workers.require_same(common, 0 if found is None else found[1].step)
        _train(config, manifest, place, found, strategy, workers, precision)


def _train(
    config: TrainConfig,
    manifest: records.Manifest,
    place: Path,
    found: tuple[Path, checkpoints.Description] | None,
    strategy: tf.distribute.Strategy,
    workers: Agreement,
    precision: str,
) -> None:
    images, labels = datasets.load_split(config.dataset, manifest, "train")
    network = network_of(config, manifest.image, manifest.class_count)
    wgan = WganStep(config, network, strategy, precision)
    own_place = place if workers.is_chief else None
    progress = Progress(own_place, config)
    class_counts = manifest.splits["train"].class_counts if network.classes else []
    held_out = datasets.load_split(config.dataset, manifest, "validation")
    watch = Watch(own_place, config, wgan, class_counts, (images, labels), held_out)
    step = 0
    if found is not None:
        step = _restore(wgan, progress, watch, *found)
        log.info("train: going on from step %d of %d", step, config.steps)
    elif config.initial_checkpoint:
        _begin(wgan, config.initial_checkpoint)
    batches = _Batches(images, labels, config)
    grid_inputs, grid_columns = _fixed_grid(config, network)
    log.info("train: %d images of %s; the first block compiles, which takes some seconds", len(images), manifest.image)

    def save() -> None:
        state = {**wgan.state_arrays(), **progress.state(), **watch.state()}
        checkpoints.save(place, _describe(config, network, manifest, step, strategy, precision), state)
        if config.keep_checkpoints:
            checkpoints.keep_newest(place, config.keep_checkpoints)
        sending.saved(step)

    sending = Uploads(own_place, config.keep_checkpoints)
    with deferred() as stop, sending.running(), progress:
        progress.drop_after(step)
        watch.drop_after(step)
        compiling = True
        for length in _block_lengths(step, config):
            started = time.monotonic()
            rows = wgan.run_block(*batches.block(step, length))
            block = {name: rows[name].numpy() for name in rows}
            _check_healthy(block, step)
            step += length
            # The first block compiles; its time says nothing of the speed.
            progress.add(block, None if compiling else time.monotonic() - started)
            compiling = False
            watch.add(block)
            if step % health.window_steps(config) == 0:
                findings = watch.end_window(step)
                if config.when_unhealthy == "stop":
                    _require_recovery(findings, watch, workers, place, step)
            # A signal to one worker is a signal to all, at the same step.
            stop.signal = workers.largest(stop.signal or 0) or None
            if step % config.log_every == 0 or step == config.steps:
                progress.write_row(step)
            if workers.is_chief and (step % config.sample_every == 0 or step == config.steps):
                _write_samples(wgan.average, grid_inputs, grid_columns, place, step)
            due = step % config.checkpoint_every == 0 and not (watch.in_doubt and config.when_unhealthy == "stop")
            if workers.is_chief and (due or step == config.steps or stop):
                save()
            if stop:
                log.info("train: stopped at step %d of %d, which is kept", step, config.steps)
                sending.finish()
                workers.wait()
                stop.leave()
        workers.wait()


def _require_memory(config: TrainConfig, image: records.ImageShape) -> None:
    """Refuses what cannot be: the critic's first layer, in the numbers that one update keeps of it, over all memory."""
    scores_of = 3  # real, generated and interpolated images
    side = math.ceil(image.height / 2) * math.ceil(image.width / 2)
    needed = 4 * scores_of * config.batch_size * config.base_filters * side
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if not tf.config.list_physical_devices("GPU") and needed > memory:
        raise ConfigError(
            f"networks with base_filters {config.base_filters} for images of {image} need more than {needed / 1e9:.0f} "
            f"GB for a batch of {config.batch_size}, and this machine has {memory / 1e9:.0f} GB; lower base_filters or "
            "batch_size, or prepare smaller images"
        )


@contextlib.contextmanager
def _too_large_told(config: TrainConfig) -> Iterator[None]:
    try:
        yield
    except tf.errors.ResourceExhaustedError:
        raise ConfigError(
            f"the memory does not suffice for a batch of {config.batch_size} and base_filters {config.base_filters}; "
            "lower either, or give more replicas with memory of their own"
        ) from None


def _common_settings(config: TrainConfig, manifest: records.Manifest) -> dict[str, Any]:
    """What all workers must have been given alike: all but places, and the hardware of each."""
    own = ("dataset", "dataset_digest", "checkpoints", "initial_checkpoint", "accelerator", "tpu", "replicas")
    given = {name: value for name, value in dataclasses.asdict(config).items() if name not in own}
    return {**given, "dataset": manifest.digest}


class _Batches:
    """The images of every critic update, by position alone; with their labels where training is conditional."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, config: TrainConfig) -> None:
        self._config = config
        self._arrays = (images,) if config.conditioning == "none" else (images, labels)
        self._order = EndlessOrder(len(images), config.seed)

    def block(self, first_step: int, steps: int) -> tuple[np.ndarray, ...]:
        """What `WganStep.run_block` takes, [steps, critic_steps, batch_size, ...]: pixels uint8, and labels int32."""
        shape = (steps, self._config.critic_steps, self._config.batch_size)
        per_step = self._config.critic_steps * self._config.batch_size
        chosen = self._order.at(first_step * per_step, steps * per_step)
        return tuple(array[chosen].reshape(*shape, *array.shape[1:]) for array in self._arrays)


def _block_lengths(step: int, config: TrainConfig) -> Iterator[int]:
    """Lengths of the blocks from a step to the last, each ending at the latest where something is due."""
    periods = (config.log_every, config.sample_every, config.checkpoint_every, health.window_steps(config))
    while step < config.steps:
        due = min(every - step % every for every in periods)
        length = min(_BLOCK_STEPS, due, config.steps - step)
        yield length
        step += length


def _check_healthy(block: dict[str, np.ndarray], step: int) -> None:
    sick = np.flatnonzero(block["healthy"] < 1)
    if sick.size:
        index = int(sick[0])
        terms = [name for name in block if name != "healthy" and not np.isfinite(block[name][index])]
        raise TrainingDiverged(
            f"{' and '.join(terms) or 'a gradient'} is not finite at step {step + index + 1}; that update was not "
            "applied and the last checkpoint is sound. Lower the learning rates, or raise penalty_weight"
        )


def _require_recovery(findings: list[health.Finding], watch: Watch, workers: Agreement, place: Path, step: int) -> None:
    """Ends a training that will not recover, on all workers if on one; its last good checkpoint stays."""
    if not workers.largest(len(findings)):
        return
    good = max((found for found in checkpoints.steps(place) if found <= watch.last_good), default=None)
    kept = "there is no checkpoint from before" if good is None else f"the checkpoint of step {good} is from before"
    raise TrainingDiverged(
        f"{' and '.join(map(str, findings)) or 'another worker gives up'}, at step {step} as in each window since step "
        f"{watch.last_good}; such a training does not recover, and {kept}"
        + "".join(f". To train anew, {finding.remedy}" for finding in findings[:1])
    )


def _restore(
    wgan: WganStep, progress: Progress, watch: Watch, folder: Path, description: checkpoints.Description
) -> int:
    arrays = checkpoints.load_state(folder)
    wanted = {**wgan.state_arrays(), **progress.state(), **watch.state()}
    wrong = checkpoints.differences(wanted, arrays)
    if wrong:
        raise DataError(f"checkpoint {folder} does not fit: {'; '.join(wrong)}")
    wgan.restore(arrays)
    progress.restore(arrays)
    watch.restore(arrays)
    return description.step


def _begin(wgan: WganStep, initial_checkpoint: str) -> None:
    """Takes the networks and the average of another training; step, optimisers and means stay as new."""
    new = wgan.state_arrays()
    arrays = _of_networks(checkpoints.load_state(initial_checkpoint))
    wrong = checkpoints.differences(_of_networks(new), arrays)
    if wrong:
        raise DataError(f"initial_checkpoint {initial_checkpoint} does not fit: {'; '.join(wrong)}")
    wgan.restore({**new, **arrays})
    log.info("train: beginning with the networks of %s", initial_checkpoint)


def _of_networks(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in state.items() if name.split("/")[0] in NETWORKS}


def _describe(
    config: TrainConfig,
    network: networks.NetworkConfig,
    manifest: records.Manifest,
    step: int,
    strategy: tf.distribute.Strategy,
    precision: str,
) -> checkpoints.Description:
    return checkpoints.Description(
        step=step,
        network=network.to_json(),
        settings=deciding_settings(config),
        classes=manifest.classes,
        class_counts=manifest.splits["train"].class_counts if network.classes else [],
        dataset_digest=manifest.digest,
        state_sha256="",
        made_with=lineage.made_with(
            "train",
            accelerator=kind_of(strategy),
            replicas=strategy.num_replicas_in_sync,
            precision=precision,
            **{name: getattr(config, name) for name in _ON_RECORD},
        ),
    )


def _fixed_grid(config: TrainConfig, network: networks.NetworkConfig) -> tuple[Any, int]:
    """What every grid of samples is drawn from, the same all through a training, and its columns (0: nearly square).

    A conditional generator draws one class a row, from the same latents.
    """
    count = conditioning.GRID_COLUMNS if network.classes else _GRID_IMAGES
    latents = tf.random.stateless_normal([count, config.latent_size], [config.seed, 0], alg="philox")
    if not network.classes:
        return latents, 0
    return networks.with_labels(*conditioning.rows_by_class(latents, network.classes), network.classes), count


def _write_samples(average: keras.Model, inputs: Any, columns: int, place: Path, step: int) -> None:
    pixels = networks.to_pixels(average(inputs, training=False)).numpy()
    storage.write_file(place / "samples" / f"step-{step:010d}.png", grids.png_grid(pixels, columns))
