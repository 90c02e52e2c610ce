"""Number of steps that fit into a time budget, measured at the start of a training."""

import logging
import statistics
import time

from components.core.distributed.coordination import Agreement
from components.train.batches import Batches
from components.train.config import TrainConfig
from components.train.step import WganStep

log = logging.getLogger(__name__)

_BLOCK_STEPS, _LEAST_BLOCKS, _LEAST_SECONDS = 10, 5, 5.0


def measured_steps(wgan: WganStep, batches: Batches, config: TrainConfig, workers: Agreement) -> int:
    """Return how many steps fit into `config.minutes`, by the median of some blocks; `wgan` is of no use after.

    Every worker computes as many blocks, until none needs more, and gets the largest of the workers' results.
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
