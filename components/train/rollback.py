"""Rollback after NaN or infinity: to the start of that window of steps, with each further rollback a window earlier.

From there noise and order of images have another seed: the same from any checkpoint, as the bad step decides all.
"""

from collections.abc import Mapping

import numpy as np

from components.train.config import TrainConfig
from components.train.monitoring import limits

STATE = "rollbacks"


class Rollbacks:
    """The rollbacks of a training so far; in its checkpoints once there is one."""

    def __init__(self, config: TrainConfig) -> None:
        self._window = limits.window_steps(config)
        # The last step before the change, to which training returns or further; and the step of the bad number.
        self._done: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._done)

    def in_force(self, step: int) -> int:
        """Return the number of rollbacks before a step that affect it."""
        return sum(back <= step for back, _ in self._done)

    def targets(self, step: int) -> range:
        """Return the steps to which a bad number after a step may lead back: the first if it comes at once."""
        return range(max(0, step // self._window - len(self._done)) * self._window, step + 1, self._window)

    def add(self, step: int) -> int:
        """Return the last step to keep, for a bad number at a step (counted from 1)."""
        back = self.targets(step - 1)[0]
        self._done.append((back, step))
        return back

    def notes(self, step: int) -> list[str]:
        """Return a line for each rollback that changed the steps after a step."""
        return [
            f"rolled back from step {nonfinite}, where a number was not finite: noise and image order differ from step "
            f"{step} on"
            for back, nonfinite in self._done
            if back == step
        ]

    def state(self) -> dict[str, np.ndarray]:
        """Return the state for a checkpoint; nothing without rollbacks."""
        return {STATE: np.array(self._done, np.int64)} if self._done else {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._done = [(back, nonfinite) for back, nonfinite in arrays[STATE].tolist()] if STATE in arrays else []
