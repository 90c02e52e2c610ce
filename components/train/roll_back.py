"""Going back from numbers that are not finite: to which step, and on with what change.

Both follow from where the numbers were found. Training goes back to where that window of steps began, with each further
roll-back one window more; from there on noise is of another seed, and so is the order of images. Checkpoints and
interruptions decide none of it: it may be done again from any checkpoint up to that step, with the same bits.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from components.errors import DataError
from components.train import health
from components.train.config import TrainConfig

STATE = "roll_backs"


@dataclasses.dataclass(frozen=True)
class RollBack:
    """One roll-back.

    Attributes:
        step: The last step before the change; training goes back at least to there.
        fault: The step at which a number was not finite.
    """

    step: int
    fault: int


class RollBacks:
    """The roll-backs of a training so far; part of its checkpoints once there is one.

    Args:
        config: The training settings.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._window = health.window_steps(config)
        self._done: list[RollBack] = []

    def __len__(self) -> int:
        return len(self._done)

    def in_force(self, step: int) -> int:
        """How many count for what follows a step."""
        return sum(found.step <= step for found in self._done)

    def targets(self, step: int) -> range:
        """The steps to which the next fault after a step may lead back: the first for one that comes at once."""
        return range(max(0, step // self._window - len(self._done)) * self._window, step + 1, self._window)

    def add(self, fault: int) -> RollBack:
        """Decides on the next one, for a fault at a step (the first has number 1)."""
        found = RollBack(self.targets(fault - 1)[0], fault)
        self._done.append(found)
        return found

    def told(self, step: int) -> list[str]:
        """Of those that changed what followed a step: a line each."""
        return [
            f"rolled back from step {found.fault}, where a number was not finite: from step {step} on noise and the "
            "order of images are others"
            for found in self._done
            if found.step == step
        ]

    def state(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps; nothing if there was none."""
        if not self._done:
            return {}
        return {STATE: np.array([[found.step, found.fault] for found in self._done], np.int64)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on from a checkpoint.

        Raises:
            DataError: What it keeps of roll-backs is none.
        """
        kept = arrays.get(STATE, np.zeros((0, 2), np.int64))
        if kept.dtype != np.int64 or kept.shape[1:] != (2,):
            raise DataError(f"{STATE} is {kept.dtype}{kept.shape}, expected int64(n, 2)")
        self._done = [RollBack(*pair) for pair in kept.tolist()]
