"""Batches: the images of every critic update."""

import numpy as np

from components.core.data.data_order import EndlessOrder
from components.core.data.dataset_reader import Images
from components.train.config import TrainConfig
from components.train.step import seed_after


class Batches:
    """Choose images by position alone, so that resuming needs no state; with labels if there are any."""

    def __init__(self, images: Images | np.ndarray, labels: np.ndarray | None, config: TrainConfig) -> None:
        self._config = config
        self._arrays: tuple[Images | np.ndarray, ...] = (images,) if labels is None else (images, labels)
        self._order, self._rollbacks = EndlessOrder(len(images), config.seed), 0

    def block(self, first_step: int, steps: int, rollbacks: int = 0) -> tuple[np.ndarray, ...]:
        """Return what `WganStep.run_block` takes, [steps, critic_steps, batch_size, ...]: pixels, and labels."""
        if rollbacks != self._rollbacks:
            seed = seed_after(self._config.seed, rollbacks)
            self._order, self._rollbacks = EndlessOrder(len(self._arrays[0]), seed), rollbacks
        shape = (steps, self._config.critic_steps, self._config.batch_size)
        per_step = self._config.critic_steps * self._config.batch_size
        chosen = self._order.at(first_step * per_step, steps * per_step)
        return tuple(array[chosen].reshape(*shape, *array.shape[1:]) for array in self._arrays)
