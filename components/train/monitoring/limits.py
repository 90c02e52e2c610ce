"""Diagnostics of a window of training steps, and limits for success, found by the trainings in docs/evaluation.md."""

import dataclasses
import math

from components.train.config import TrainConfig

FAILING_WINDOWS = 3  # consecutive, after which a training will not recover
_WINDOW_UPDATES = 200  # of the critic
_WARM_UP_STEPS, _WARM_UP_SHARE = 500, 0.02


@dataclasses.dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """The signals of a window; None where one cannot be computed."""

    gradient_norm: float  # mean norm of the critic's gradient at interpolates; 1 or slightly more in a good critic
    gradient_norm_deviation: float  # its standard deviation
    # The norm minus the best one for this gap, 1 + W / (2 penalty_weight), where W is the gap over the norm: for c
    # times as steep a critic the penalized gap is c W - penalty_weight (c - 1)^2.
    excess_slope: float
    penalty_share: float  # the weighted penalty over the magnitude of the critic's gap
    relative_gap: float  # mean score of real images minus that of samples, over the mean distance between real images
    score_offset: float  # magnitude of the mean score of real images over that of the gap
    sample_spread: float  # mean distance between samples, in multiples of that between real images
    critic_overfit: float | None  # share of the gap by which training images score higher than others


@dataclasses.dataclass(frozen=True)
class Limit:
    """Warning and failure thresholds of a signal, lowest and highest; None disables one."""

    signal: str
    warn: tuple[float | None, float | None]
    fail: tuple[float | None, float | None]
    remedy: str  # what usually helps
    penalty_only: bool = False  # whether it applies to the gradient penalty alone


_STEEP = "lower critic_learning_rate, or raise penalty_weight"
LIMITS = (
    Limit("gradient_norm", (0.7, None), (0.3, None), "lower critic_learning_rate or penalty_weight", True),
    Limit("excess_slope", (None, 0.5), (None, 4.0), _STEEP, True),
    Limit("gradient_norm_deviation", (None, 1.0), (None, None), _STEEP, True),
    # A healthy gap can be below 0 for some hundred steps, by 0.04 of the distance at 256x256.
    Limit("relative_gap", (-0.1, None), (-0.1, None), "lower critic_learning_rate, or raise critic_steps"),
    Limit("sample_spread", (0.6, None), (0.25, None), "change generator_learning_rate, or raise critic_steps"),
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """A signal beyond one of its limits."""

    signal: str
    value: float
    expected: str
    failing: bool  # beyond the failure threshold
    remedy: str

    def __str__(self) -> str:
        return f"{self.signal} is {self.value:.4g}, expected {self.expected}"


def findings(signals: Diagnostics, constraint: str) -> list[Finding]:
    """Return every signal that is beyond a limit; one that is not finite is failing."""
    problems = []
    for limit in LIMITS:
        value = getattr(signals, limit.signal)
        if value is None or (limit.penalty_only and constraint != "gradient_penalty"):
            continue
        for failing, (low, high) in ((True, limit.fail), (False, limit.warn)):
            within = (low is None or value >= low) and (high is None or value <= high)
            if not (math.isfinite(value) and within):
                bounds = (("at least", low), ("at most", high))
                expected = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
                problems.append(Finding(limit.signal, value, expected or "a number", failing, limit.remedy))
                break
    return problems


def window_steps(config: TrainConfig) -> int:
    """Generator updates in a window of about 200 critic updates."""
    return math.ceil(_WINDOW_UPDATES / config.critic_steps)


def is_warm(step: int, config: TrainConfig) -> bool:
    """Return whether a window that ends at a step is past the start, where every training has wild numbers."""
    return step - window_steps(config) >= max(_WARM_UP_STEPS, _WARM_UP_SHARE * config.steps)
