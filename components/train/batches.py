"""Batches: the images of every critic update."""

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from components.core.data.data_order import examples_at
from components.core.data.dataset_reader import Images
from components.train.config import TrainConfig
from components.train.step import seed_after

Arrays = tuple[np.ndarray, ...]  # of a block: pixels, and labels if there are any


class Place(NamedTuple):
    """Where a block is: which steps, in the order of images after so many rollbacks."""

    first_step: int
    steps: int
    rollbacks: int


class Batches:
    """Choose images by position alone, so that resuming needs no state; with labels if there are any."""

    def __init__(self, images: Images | np.ndarray, labels: np.ndarray | None, config: TrainConfig) -> None:
        self._config = config
        self._arrays: tuple[Images | np.ndarray, ...] = (images,) if labels is None else (images, labels)

    def block(self, first_step: int, steps: int, rollbacks: int = 0) -> Arrays:
        """Return what `WganStep.run_block` takes, [steps, critic_steps, batch_size, ...]: pixels, and labels."""
        shape = (steps, self._config.critic_steps, self._config.batch_size)
        per_step, seed = self._config.critic_steps * self._config.batch_size, seed_after(self._config.seed, rollbacks)
        chosen = examples_at(first_step * per_step, steps * per_step, len(self._arrays[0]), seed)
        return tuple(array[chosen].reshape(*shape, *array.shape[1:]) for array in self._arrays)


class ReadAhead(contextlib.AbstractContextManager["ReadAhead"]):
    """Reads the block after the present one in a thread, while that one is computed; at most one block ahead."""

    def __init__(self, batches: Batches) -> None:
        self._batches, self._thread = batches, ThreadPoolExecutor(1, "read-ahead")
        self._reading: dict[Place, Future[Arrays]] = {}

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)

    def block(self, place: Place, following: Place) -> Arrays:
        """Return a block, and begin to read the following one, unless it has no steps."""
        earlier, wanted = self._reading, (place, following) if following.steps else (place,)
        # The place is not among the earlier ones at the start, and after a rollback.
        self._reading = {at: earlier.get(at) or self._thread.submit(self._batches.block, *at) for at in wanted}
        return self._reading.pop(place).result()
