"""Agreement among the workers of one training: small whole numbers, exchanged over the strategy that trains."""

import contextlib
import hashlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from components.core.distributed.cluster import Cluster
from components.core.errors import ConfigError, TransientError

log = logging.getLogger(__name__)

# TensorFlow raises any of these where a collective operation cannot end.
_LOST = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnavailableError,
)
_TASK = re.compile(r"/job:worker/replica:\d+/task:(\d+)")
_HASH_DIGITS = 15  # hexadecimal, 60 bits, which fit into an int64


class Agreement:
    """The workers of a training as a group; a process without a cluster agrees with itself at no cost.

    Every worker must call the same methods in the same order: each call waits for all workers.
    """

    def __init__(self, strategy: tf.distribute.Strategy, cluster: Cluster | None) -> None:
        self.strategy, self._cluster = strategy, cluster

    @property
    def is_chief(self) -> bool:
        return self._cluster is None or self._cluster.is_chief

    def all_gather(self, values: list[int]) -> np.ndarray:
        """Return each worker's values, int64 [workers, values]."""
        if self._cluster is None:
            return np.array([values], np.int64)
        rows = np.zeros((self._cluster.size, len(values)), np.int64)
        rows[self._cluster.number] = values
        # Every collective can sum, and each row is zero on all workers but one.
        gathered: np.ndarray = self.strategy.reduce(tf.distribute.ReduceOp.SUM, tf.identity(rows), axis=None).numpy()
        return gathered

    def largest(self, value: int) -> int:
        return int(self.all_gather([value]).max())

    def wait(self) -> None:
        self.all_gather([0])

    def require_same(self, settings: Mapping[str, Any], step: int) -> None:
        """Raise a `ConfigError` on every worker if any has other settings, or found the checkpoint of another step."""
        names = sorted(settings)
        texts = [json.dumps(settings[name], sort_keys=True).encode() for name in names]
        numbers = [int(hashlib.sha256(text).hexdigest()[:_HASH_DIGITS], 16) for text in texts]
        rows = self.all_gather([step, *numbers])
        differ = [name for name, column in zip(names, rows[:, 1:].T, strict=True) if len(set(column.tolist())) > 1]
        if differ:
            raise ConfigError(f"workers were given different values of {', '.join(differ)}; give all of them the same")
        steps = rows[:, 0].tolist()
        if len(set(steps)) > 1:
            raise ConfigError(
                f"the newest checkpoints that workers 0 to {len(steps) - 1} find are of steps "
                f"{', '.join(map(str, steps))}; checkpoints must be in storage that all workers share"
            )

    @contextlib.contextmanager
    def or_try_again(self) -> Iterator[None]:
        """Turn the loss of another worker within the block into a `TransientError`."""
        try:
            yield
        except _LOST as error:
            if self._cluster is None:
                raise
            task = _TASK.search(str(error))
            worker = f"the worker at {self._cluster.addresses[int(task[1])]}" if task else "another worker"
            raise TransientError(
                f"{worker} is gone, and training needs every worker; start all workers again to resume from the newest "
                "checkpoint"
            ) from None
