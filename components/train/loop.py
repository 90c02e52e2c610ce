"""The training loop: a block of steps, then a row of the log, a grid of samples or a checkpoint if due."""

import dataclasses
import functools
import logging
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import tensorflow as tf

from components.core.artifacts import checkpoints, training_log
from components.core.data import dataset_reader
from components.core.distributed.cluster import Cluster
from components.core.distributed.coordination import Agreement
from components.core.distributed.strategies import choose_strategy, set_threads
from components.core.errors import ConfigError, DataError, TrainingDiverged
from components.core.networks.precision import Precision, choose_precision, report
from components.core.stage import provenance
from components.core.stage.signals import deferred
from components.train import clusters, environment, rollback, uploads
from components.train.batches import Batches, Place, ReadAhead
from components.train.config import ON_RECORD, Checkpoint, ResolvedConfig, TrainConfig, deciding_settings, sample_period
from components.train.labels import choose, label_features
from components.train.monitoring import limits
from components.train.monitoring.metrics_writer import MetricsWriter
from components.train.monitoring.monitor import Monitor
from components.train.monitoring.watchdog import Watchdog
from components.train.step import NETWORKS, WganStep, network_of

log = logging.getLogger(__name__)

_BLOCK_STEPS = 10  # few enough to notice a signal within seconds, enough that a call's overhead does not matter
_LEAST_BLOCKS, _LEAST_SECONDS = 5, 5.0  # of the measurement for a time budget
# Locations and hardware, in which workers may differ.
_PER_WORKER = {"dataset", "dataset_digest", "checkpoints", "initial_checkpoint", "accelerator", "tpu", "replicas"}


def train(resolved: ResolvedConfig, dataset: Path, checkpoint: Checkpoint, cluster: Cluster | None = None) -> int:
    """Train on a dataset from the checkpoint found (None: from the start) to the last step, and return this step.

    With a cluster every worker trains and the chief alone writes; each returns when all have finished.
    """
    config, exact = resolved.config, resolved.config.reproducibility == "exact"
    set_threads(exact)
    strategy = choose_strategy(config.accelerator, config.replicas, config.batch_size, config.tpu, cluster, exact)
    workers = Agreement(strategy, cluster)
    if not workers.is_chief:
        checkpoint = checkpoints.newest(resolved.folder)  # again: from here on nobody but the chief writes there
    try:
        with workers.or_try_again():
            return Session(resolved, dataset, checkpoint, workers).run()
    except (MemoryError, tf.errors.ResourceExhaustedError):
        raise ConfigError(
            f"not enough memory for a batch of {config.batch_size} and base_filters {config.base_filters}; "
            "lower either, or use more replicas, each with its own memory"
        ) from None


def common_precision(config: TrainConfig, checkpoint: Checkpoint, workers: Agreement) -> Precision:
    """Return the precision in which all workers train, and log it; a resumed training keeps that of its checkpoint."""
    made_with = {} if checkpoint is None else checkpoint[1].made_with
    if config.precision == "auto" and "precision" in made_with:
        chosen = Precision(made_with["precision"], made_with.get("precision_reason", "as in its checkpoint"))
    elif config.precision == "auto" and config.reproducibility == "exact":
        chosen = Precision("float32", "reproducibility is exact")  # alike on all hardware
    else:
        chosen = choose_precision(config.precision, workers.strategy)
    if workers.largest(chosen.name == "float32") and chosen.name != "float32":
        chosen = Precision("float32", "another worker chose it")
    report(chosen, workers.strategy)
    return chosen


def measured_steps(wgan: WganStep, batches: Batches, config: TrainConfig, workers: Agreement) -> int:
    """Return how many steps fit into `config.minutes`, by the median of some blocks of a new `wgan`, of no use after.

    Every worker computes as many blocks, and gets the largest of the workers' results.
    """
    log.info("train: measuring the speed for a budget of %g minutes", config.minutes)
    seconds: list[float] = []
    wgan.run_block(*batches.block(0, _BLOCK_STEPS))["finite"].numpy()  # compiles
    while workers.largest(len(seconds) < _LEAST_BLOCKS or sum(seconds) < _LEAST_SECONDS):
        started = time.monotonic()
        wgan.run_block(*batches.block(len(seconds) * _BLOCK_STEPS, _BLOCK_STEPS))["finite"].numpy()
        seconds.append(time.monotonic() - started)
    median = statistics.median(seconds)
    steps = workers.largest(max(1, round(60 * config.minutes * _BLOCK_STEPS / median)))
    message = "train: %.3g ms a step, so %d steps fit; --steps %d without minutes repeats this training"
    log.info(message, 1000 * median / _BLOCK_STEPS, steps, steps)
    return steps


class Session:
    """A training on one worker. `step` counts the generator updates done."""

    def __init__(self, resolved: ResolvedConfig, dataset: Path, checkpoint: Checkpoint, workers: Agreement) -> None:
        """Make the parts of a training, and take their state from a checkpoint; None to start."""
        # Agree with the other workers.
        config, manifest, steps = resolved.config, resolved.manifest, resolved.steps(checkpoint)
        common = {name: value for name, value in dataclasses.asdict(config).items() if name not in _PER_WORKER}
        common |= {"steps": steps, "dataset": manifest.digest}
        workers.require_same(common, 0 if checkpoint is None else checkpoint[1].step)
        precision, strategy = common_precision(config, checkpoint, workers), workers.strategy

        # Open the images, and choose their labels.
        splits = tuple(dataset_reader.open_split(dataset, manifest, name) for name in ("train", "validation"))
        start = checkpoint[0] if checkpoint else resolved.initial_checkpoint
        labels = choose(resolved, [(images, images.labels) for images in splits], start)
        network = network_of(config, manifest.image, len(labels.names), label_features(labels.kind))
        batches = Batches(splits[0], labels.by_split[0] if labels.names else None, config)

        # Settle the steps, the only setting found so late: a new training measures how many its time budget allows.
        if config.minutes and checkpoint is None:
            measured = WganStep(config, network, strategy, precision.name, labels.features)
            steps = measured_steps(measured, batches, config, workers)
            del measured
        config = dataclasses.replace(config, steps=steps)

        # Construct the networks with their optimizers, and what goes with them.
        self.config, self._manifest, self._workers = config, manifest, workers
        self._location, self._folder, self._initial = resolved.location, resolved.folder, resolved.initial_checkpoint
        self._labels, self._network, self._batches = labels, network, ReadAhead(batches)
        self._wgan = WganStep(config, network, strategy, precision.name, labels.features)
        written_folder = self._folder if workers.is_chief else None
        self._metrics = MetricsWriter(written_folder, config, network)
        labeled = zip(splits, labels.by_split, strict=True)
        self._monitor = Monitor(written_folder, config, self._wgan, labels.counts, *labeled)
        self._uploads = uploads.Uploads(self._location, sends=workers.is_chief)
        self._rollbacks, self._window_steps = rollback.Rollbacks(config), limits.window_steps(config)
        hardware = {**environment.of(strategy, precision.name), "precision_reason": precision.reason}
        recorded = {name: getattr(config, name) for name in (*ON_RECORD, "minutes")}
        self._made_with = provenance.made_with("train", **hardware, **recorded)

        # Take the state to start or to resume from.
        self._at_start = self._state()
        self._rollbacks.restore(self._take_state(checkpoint))
        if checkpoint is not None:
            log.info("train: resuming at step %d of %d", self.step, config.steps)
            exact = config.reproducibility == "exact"
            if changed := environment.differences(checkpoint[1].made_with, self._made_with, exact):
                message = "train: bits may differ from here on from an uninterrupted training: %s"
                log.warning(message, "; ".join(changed))
        log.info("train: %d images of %s; compiling the first block takes some seconds", len(splits[0]), manifest.image)

    def run(self) -> int:
        """Train to the last step and return it; or until a signal: then save the current step, and leave."""
        config, stopped = self.config, False
        with deferred() as stop:
            with self._uploads.running(), self._metrics, self._batches, Watchdog() as watchdog:
                while self.step < config.steps and not stopped:
                    # Train for a block of steps.
                    place = self._place_of_block(self.step)
                    self._wgan.rollbacks.assign(place.rollbacks)
                    started = time.monotonic()
                    following = self._place_of_block(self.step + place.steps)
                    rows = self._wgan.run_block(*self._batches.block(place, following))
                    block = {name: values.numpy() for name, values in rows.items()}
                    seconds = time.monotonic() - started
                    watchdog.beat()
                    if not block["finite"].all():
                        self._rollback(self.step + 1 + int(block["finite"].argmin()))
                        continue
                    self.step += place.steps

                    # Check for a training that fails, on all workers alike.
                    self._metrics.add(block, seconds)
                    self._monitor.window.add(block)
                    if self.step % self._window_steps == 0:
                        notes = self._rollbacks.notes(self.step - self._window_steps)
                        findings = self._monitor.end_window(self.step, notes)
                        if config.when_unhealthy == "stop" and self._workers.largest(len(findings)):
                            self._give_up(findings)

                    # Show the progress.
                    self._metrics.report(self.step, self._kept)
                    if self._is_due(config.log_every):
                        self._metrics.write_row(self.step)
                    if self._is_due(sample_period(config)):
                        self._metrics.write_samples(self._wgan.average, self.step)

                    # Save a checkpoint. A signal to one worker is a signal to all, at the same step.
                    stop.signal = self._workers.largest(stop.signal)
                    stopped = bool(stop)
                    if self._workers.is_chief and (stopped or self._is_due(config.checkpoint_every)):
                        self._save()
                self._metrics.report(self.step, self._kept)
                if stopped:
                    log.info("train: stopped at step %d of %d, which is saved", self.step, config.steps)
            self._workers.wait()  # everything is uploaded, before others look for the result
            if stopped:
                stop.leave()
        return self.step

    def _place_of_block(self, step: int) -> Place:
        """Return the steps from one until something is due, but not too many; no steps after the last one."""
        config = self.config
        periods = (config.log_every, sample_period(config), config.checkpoint_every, self._window_steps)
        due = min(period - step % period for period in periods)
        return Place(step, min(_BLOCK_STEPS, due, config.steps - step), self._rollbacks.in_force(step))

    def _is_due(self, period: int) -> bool:
        return self.step % period == 0 or self.step == self.config.steps

    def _rollback(self, nonfinite: int) -> None:
        """Return to before the step with a bad number, on all workers; raise after too many rollbacks."""
        count, is_exact = len(self._rollbacks), self.config.reproducibility == "exact"
        if count >= self.config.rollbacks:  # more, if a resumed training has a lower limit
            bound = ", or is beyond the numbers of reproducibility exact," if is_exact else ""
            after = f", after {count} rollbacks" if count else ""
            raise TrainingDiverged(
                f"a number is not finite{bound} at step {nonfinite}{after}; that update was not applied and the last "
                "checkpoint is sound. Lower the learning rates, or raise penalty_weight"
            )
        back = self._rollbacks.add(nonfinite)
        uploads.fetch(self._location, back)  # this machine may lack it, if the training began on another
        good = checkpoints.newest(self._folder, back)
        returned = 0 if good is None else good[1].step
        self._workers.require_same({}, returned)
        log.error(
            "train: a number is not finite at step %d; that update was not applied. Rolling back (%d of at most %d) to "
            "step %d; noise and image order differ from step %d on",
            *(nonfinite, count + 1, self.config.rollbacks, returned, back),
        )
        self._take_state(good)
        self._workers.wait()  # until nobody reads the files to remove
        if self._workers.is_chief:
            checkpoints.remove_after(self._folder, returned)
        self._uploads.went_back(returned)

    def _take_state(self, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
        """Take the state and the logs of a checkpoint, or of the start, with the networks of the initial checkpoint.

        Return the arrays; rollbacks are not taken from them, as they still count after one more.
        """
        source, name, self.step = self._initial, f"initial_checkpoint {self.config.initial_checkpoint}", 0
        if checkpoint is not None:
            source, manifest = checkpoint
            name, self.step = f"checkpoint {source}", manifest.step
        self._kept = self.step  # the step of the newest checkpoint
        arrays = self._at_start
        if source:
            prefix = NETWORKS if checkpoint is None else ""
            loaded = checkpoints.load_state(source, prefix)
            wanted = {name: array for name, array in arrays.items() if name.startswith(prefix)}
            wanted |= {name: array for name, array in loaded.items() if name == rollback.STATE}
            if wrong := checkpoints.differences(wanted, loaded):
                raise DataError(f"{name} does not fit: {'; '.join(wrong)}")
            arrays = arrays | loaded
        for part in (self._wgan, self._metrics.window, self._monitor):
            part.restore(arrays)
        if checkpoint is None and source:
            log.info("train: starting from the networks of %s", self.config.initial_checkpoint)
        if self._workers.is_chief:
            training_log.go_back(self._folder, self.step, checkpoints.step_folder(self._folder, self.step))
            self._metrics.go_back(self.step)
        return arrays

    def _state(self) -> dict[str, np.ndarray]:
        """Return the arrays of every checkpoint; those of rollbacks exist only after one."""
        centers = {} if self._labels.centers is None else {clusters.CENTERS: self._labels.centers}
        return self._wgan.state_arrays() | centers | self._metrics.window.state() | self._monitor.state()

    def _save(self) -> None:
        """Write a checkpoint of this step, remove superseded ones, and have it uploaded."""
        rolled_back = {"rolled_back": len(self._rollbacks)} if len(self._rollbacks) else {}
        manifest = checkpoints.Manifest(
            step=self.step,
            network=dataclasses.asdict(self._network),
            settings=deciding_settings(self.config),
            classes=self._labels.names or self._manifest.classes,
            class_counts=self._labels.counts,
            dataset_digest=self._manifest.digest,
            state_sha256="",
            made_with={**self._made_with, **rolled_back},
        )
        checkpoints.save(self._folder, manifest, self._state() | self._rollbacks.state())
        self._kept = self.step
        needed = self._needed()
        checkpoints.keep(self._folder, needed)
        self._uploads.saved(self.step, needed)

    def _needed(self) -> Callable[[list[int]], list[int]]:
        """Return the choice of the checkpoints to keep, from the steps of all."""
        good, back = self._monitor.last_undoubted, [*self._rollbacks.targets(self.step)]
        return functools.partial(checkpoints.kept, count=self.config.keep_checkpoints, good=good, back=back)

    def _give_up(self, findings: list[limits.Finding]) -> NoReturn:
        last_good = self._monitor.last_good
        good = max((step for step in checkpoints.steps(self._folder) if step <= last_good), default=None)
        self._workers.wait()
        doubtful_after = self._monitor.last_undoubted
        if self._workers.is_chief and doubtful_after is not None:
            checkpoints.remove_after(self._folder, doubtful_after)  # needed only to resume after an interruption
            self._uploads.went_back(doubtful_after)
            self._uploads.saved(doubtful_after, self._needed())
            self._uploads.finish()
        kept = "there is no checkpoint from before" if good is None else f"the checkpoint of step {good} is from before"
        raise TrainingDiverged(
            f"{' and '.join(map(str, findings)) or 'another worker gives up'}, at step {self.step} as in each window "
            f"since step {last_good}; training does not recover from this, and {kept}"
            + "".join(f". To train anew, {finding.remedy}" for finding in findings[:1])
        )
