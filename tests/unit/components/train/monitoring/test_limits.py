import dataclasses
import math
from typing import Any

import pytest

from components.train.config import TrainConfig
from components.train.monitoring import limits

GOOD = limits.Diagnostics(
    gradient_norm=1.1,
    gradient_norm_deviation=0.1,
    excess_slope=0.0,
    penalty_share=0.1,
    relative_gap=0.1,
    score_offset=3.0,
    sample_spread=1.0,
    critic_overfit=0.02,
)


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(dataset="-", checkpoints="-", **changes)


def test_a_good_window_is_not_reported() -> None:
    assert limits.findings(GOOD, "gradient_penalty") == []
    assert limits.findings(dataclasses.replace(GOOD, critic_overfit=None), "gradient_penalty") == []
    assert limits.findings(dataclasses.replace(GOOD, relative_gap=-0.03), "gradient_penalty") == []


@pytest.mark.parametrize(
    ("signal", "value", "failing"),
    [
        ("gradient_norm", 0.6, False),
        ("gradient_norm", 0.2, True),
        ("excess_slope", 0.6, False),
        ("excess_slope", 4.1, True),
        ("gradient_norm_deviation", 1.1, False),
        ("relative_gap", -0.11, True),
        ("sample_spread", 0.5, False),
        ("sample_spread", 0.2, True),
    ],
)
def test_each_limit_alone(signal: str, value: float, failing: bool) -> None:
    (finding,) = limits.findings(dataclasses.replace(GOOD, **{signal: value}), "gradient_penalty")
    assert (finding.signal, finding.value, finding.failing) == (signal, value, failing)
    assert f"{signal} is {value:g}" in str(finding)


@pytest.mark.parametrize("signal", [limit.signal for limit in limits.LIMITS])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_fails(signal: str, value: float) -> None:
    (finding,) = limits.findings(dataclasses.replace(GOOD, **{signal: value}), "gradient_penalty")
    assert finding.failing


def test_a_clipped_critic_may_be_as_steep_as_it_likes() -> None:
    steep = dataclasses.replace(GOOD, gradient_norm=50.0, excess_slope=49.0, gradient_norm_deviation=9.0)
    assert limits.findings(steep, "weight_clipping") == []
    assert len(limits.findings(steep, "gradient_penalty")) == 2


def test_windows_are_of_critic_updates_and_the_beginning_is_passed_over() -> None:
    assert [limits.window_steps(config(critic_steps=count)) for count in (1, 3, 5, 100)] == [200, 67, 40, 2]
    assert [step for step in range(0, 1400, 200) if limits.is_warm(step, config(steps=2000))] == [800, 1000, 1200]
    assert not limits.is_warm(1100, config(steps=50_000))
    assert limits.is_warm(1200, config(steps=50_000))
