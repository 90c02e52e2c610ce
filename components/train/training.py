"""The training loop: a block of steps, then whatever is due: a line of the log, a grid of samples, a checkpoint."""

import contextlib
import dataclasses
import functools
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from components import checkpoints, conditioning, datasets, grids, lineage, networks, records, storage
from components.accelerator import choose_strategy, set_threads
from components.agreement import Agreement
from components.cluster import Cluster
from components.data_order import EndlessOrder
from components.errors import ConfigError, DataError, TrainingDiverged
from components.interruption import deferred
from components.mapped_images import Images
from components.precision import choose_precision
from components.train import fingerprint, health, uploads
from components.train.config import TrainConfig, deciding_settings
from components.train.heartbeat import Heartbeat
from components.train.progress import Progress
from components.train.roll_back import STATE as ROLL_BACKS
from components.train.roll_back import RollBacks
from components.train.step import NETWORKS, WganStep, network_of, seed_after
from components.train.watch import Watch

log = logging.getLogger(__name__)

# Few enough that a signal is noticed within seconds, enough that a call's overhead is nothing.
_BLOCK_STEPS = 10
_GRID_IMAGES = 64
# What decides no weight, but which steps are kept, where means begin anew, and whether training goes on at all.
_ON_RECORD = ("log_every", "sample_every", "checkpoint_every", "keep_checkpoints", "when_unhealthy", "roll_backs")


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
    set_threads(exact=config.reproducibility == "exact")
    strategy = choose_strategy(
        config.accelerator, config.replicas, config.batch_size, config.tpu, cluster, config.reproducibility
    )
    workers = Agreement(strategy, cluster)
    if not workers.is_chief:
        # Again: by now nobody but the chief writes there.
        found = checkpoints.newest(place)
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
    images, labels = datasets.open_split(config.dataset, manifest, "train")
    network = network_of(config, manifest.image, manifest.class_count)
    wgan = WganStep(config, network, strategy, precision)
    own_place = place if workers.is_chief else None
    progress = Progress(own_place, config)
    class_counts = manifest.splits["train"].class_counts if network.classes else []
    held_out = datasets.open_split(config.dataset, manifest, "validation")
    watch = Watch(own_place, config, wgan, class_counts, (images, labels), held_out)
    roll_backs = RollBacks(config)
    at_start = {**progress.state(), **watch.state()}
    made_with = lineage.made_with(
        "train",
        **fingerprint.of(strategy, precision),
        **{name: getattr(config, name) for name in _ON_RECORD},
    )
    step = 0
    if found is not None:
        step = _restore(wgan, progress, watch, roll_backs, *found)
        log.info("train: going on from step %d of %d", step, config.steps)
        _tell_differences(found[1], made_with, config)
    elif config.initial_checkpoint:
        _begin(wgan, config.initial_checkpoint)
    batches = _Batches(images, labels, config)
    grid_inputs, grid_columns = _fixed_grid(config, network)
    log.info("train: %d images of %s; the first block compiles, which takes some seconds", len(images), manifest.image)

    def save() -> None:
        state = {**wgan.state_arrays(), **progress.state(), **watch.state(), **roll_backs.state()}
        noted = {**made_with, "rolled_back": len(roll_backs)} if len(roll_backs) else made_with
        checkpoints.save(place, _describe(config, network, manifest, step, noted), state)
        back = [*roll_backs.targets(step)]
        keep = functools.partial(checkpoints.kept, count=config.keep_checkpoints, good=_good(watch, config), back=back)
        checkpoints.keep(place, keep)
        sending.saved(step, keep)

    def go_back(fault: _Fault) -> int:
        """Puts everything back to a step before the fault, and returns it."""
        if len(roll_backs) == config.roll_backs:
            raise TrainingDiverged(_diverged(fault, config))
        back = roll_backs.add(fault.step)
        uploads.fetch_former(place, back.step)  # which this machine may not have, if the training began on another
        good = checkpoints.newest(place, back.step)
        returned = 0 if good is None else good[1].step
        workers.require_same({}, returned)
        log.error(
            "train: %s is not finite at step %d; that update was not applied. Rolling back (%d of at most %d): on from "
            "step %d, with other noise and another order of images from step %d on",
            *(fault.what, fault.step, len(roll_backs), config.roll_backs, returned, back.step),
        )
        if good is not None:
            _restore(wgan, progress, watch, None, *good)
        else:
            wgan.restore(WganStep(config, network, strategy, precision).state_arrays())
            progress.restore(at_start)
            watch.restore(at_start)
            if config.initial_checkpoint:
                _begin(wgan, config.initial_checkpoint)
        workers.wait()  # until nobody reads what is removed now
        if workers.is_chief:
            checkpoints.remove_after(place, returned)
        drop_after(returned)
        sending.went_back(returned)
        return returned

    def drop_after(step: int) -> None:
        progress.drop_after(step)
        watch.drop_after(step)

    sending = uploads.Uploads(own_place)
    with deferred() as stop, sending.running(), progress, Heartbeat() as heart:
        drop_after(step)
        compiling = True
        while step < config.steps:
            length, noise = _block_length(step, config), roll_backs.in_force(step)
            wgan.roll_backs.assign(noise)
            started = time.monotonic()
            rows = wgan.run_block(*batches.block(step, length, noise))
            block = {name: rows[name].numpy() for name in rows}
            heart.beat()
            fault = _fault_in(block, step, wgan)
            if fault is not None:
                step = go_back(fault)
                continue
            step += length
            # The first block compiles; its time says nothing of the speed.
            progress.add(block, None if compiling else time.monotonic() - started)
            compiling = False
            watch.add(block)
            window = health.window_steps(config)
            if step % window == 0:
                findings = watch.end_window(step, roll_backs.told(step - window))
                if config.when_unhealthy == "stop":
                    _require_recovery(findings, watch, workers, config, place, step)
            # A signal to one worker is a signal to all, at the same step.
            stop.signal = workers.largest(stop.signal or 0) or None
            if step % config.log_every == 0 or step == config.steps:
                progress.write_row(step)
            if workers.is_chief and (step % config.sample_every == 0 or step == config.steps):
                _write_samples(wgan.average, grid_inputs, grid_columns, place, step)
            if workers.is_chief and (step % config.checkpoint_every == 0 or step == config.steps or stop):
                save()
            if stop:
                log.info("train: stopped at step %d of %d, which is kept", step, config.steps)
                heart.end()
                sending.finish()
                workers.wait()
                stop.leave()
        heart.end()
        sending.finish()  # before others look there for what was made
        workers.wait()


@contextlib.contextmanager
def _too_large_told(config: TrainConfig) -> Iterator[None]:
    try:
        yield
    except (MemoryError, tf.errors.ResourceExhaustedError):
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

    def __init__(self, images: Images, labels: np.ndarray, config: TrainConfig) -> None:
        self._config = config
        self._arrays: tuple[Images, ...] = (images,) if config.conditioning == "none" else (images, labels)
        self._order, self._roll_backs = EndlessOrder(len(images), config.seed), 0

    def block(self, first_step: int, steps: int, roll_backs: int = 0) -> tuple[np.ndarray, ...]:
        """What `WganStep.run_block` takes, [steps, critic_steps, batch_size, ...]: pixels uint8, and labels int32."""
        if roll_backs != self._roll_backs:
            seed = seed_after(self._config.seed, roll_backs)
            self._order, self._roll_backs = EndlessOrder(len(self._arrays[0]), seed), roll_backs
        shape = (steps, self._config.critic_steps, self._config.batch_size)
        per_step = self._config.critic_steps * self._config.batch_size
        chosen = self._order.at(first_step * per_step, steps * per_step)
        return tuple(array[chosen].reshape(*shape, *array.shape[1:]) for array in self._arrays)


def _block_length(step: int, config: TrainConfig) -> int:
    """The length of the block from a step on, which ends at the latest where something is due."""
    periods = (config.log_every, config.sample_every, config.checkpoint_every, health.window_steps(config))
    due = min(every - step % every for every in periods)
    return min(_BLOCK_STEPS, due, config.steps - step)


@dataclasses.dataclass(frozen=True)
class _Fault:
    """A number that is not finite: what it was, and the step of the update that would have applied it."""

    what: str
    step: int


def _fault_in(block: dict[str, np.ndarray], step: int, wgan: WganStep) -> _Fault | None:
    """The first fault of a block that began after a step."""
    sick = np.flatnonzero(block["healthy"] < 1)
    if not sick.size:
        return None
    index = int(sick[0])
    # Nothing that is not finite is ever applied: a variable that is has become so by itself, and is the cause.
    broken = checkpoints.not_finite(wgan.state_arrays())
    return _Fault(broken[0] if broken else wgan.what(block["fault"][index]), step + index + 1)


def _diverged(fault: _Fault, config: TrainConfig) -> str:
    bound = ", or beyond the numbers of reproducibility exact," if config.reproducibility == "exact" else ""
    often = f", after {config.roll_backs} roll-backs" if config.roll_backs else ""
    return (
        f"{fault.what} is not finite{bound} at step {fault.step}{often}; that update was not applied and the last "
        "checkpoint is sound. Lower the learning rates, or raise penalty_weight"
    )


def _good(watch: Watch, config: TrainConfig) -> int | None:
    """While the latest window was failing, the last step before it was known to; None else.

    No later checkpoint takes the place of an earlier one, as the training may be about to be ended.
    """
    if not watch.in_doubt or config.when_unhealthy == "warn":
        return None
    return watch.last_good + health.window_steps(config) - 1


def _tell_differences(description: checkpoints.Description, made_with: dict[str, Any], config: TrainConfig) -> None:
    changed = fingerprint.differences(description.made_with, made_with, config.reproducibility == "exact")
    if changed:
        log.warning("train: from here on bits may differ from those of a training that stayed: %s", "; ".join(changed))


def _require_recovery(
    findings: list[health.Finding], watch: Watch, workers: Agreement, config: TrainConfig, place: Path, step: int
) -> None:
    """Ends a training that will not recover, on all workers if on one; its last good checkpoint stays."""
    if not workers.largest(len(findings)):
        return
    good = max((found for found in checkpoints.steps(place) if found <= watch.last_good), default=None)
    workers.wait()
    doubtful_after = _good(watch, config)
    if workers.is_chief and doubtful_after is not None:
        # They were there only to go on from after an interruption.
        checkpoints.remove_after(place, doubtful_after)
    kept = "there is no checkpoint from before" if good is None else f"the checkpoint of step {good} is from before"
    raise TrainingDiverged(
        f"{' and '.join(map(str, findings)) or 'another worker gives up'}, at step {step} as in each window since step "
        f"{watch.last_good}; such a training does not recover, and {kept}"
        + "".join(f". To train anew, {finding.remedy}" for finding in findings[:1])
    )


def _restore(
    wgan: WganStep,
    progress: Progress,
    watch: Watch,
    roll_backs: RollBacks | None,
    folder: Path,
    description: checkpoints.Description,
) -> int:
    """Takes over a checkpoint, its roll-backs only if asked to, and returns its step."""
    arrays = checkpoints.load_state(folder)
    if roll_backs is not None:
        roll_backs.restore(arrays)
    arrays.pop(ROLL_BACKS, None)
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
    made_with: dict[str, Any],
) -> checkpoints.Description:
    return checkpoints.Description(
        step=step,
        network=network.to_json(),
        settings=deciding_settings(config),
        classes=manifest.classes,
        class_counts=manifest.splits["train"].class_counts if network.classes else [],
        dataset_digest=manifest.digest,
        state_sha256="",
        made_with=made_with,
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
