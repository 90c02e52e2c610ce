"""Tests for verdict.py."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from components.core.artifacts.datasets import ImageShape
from components.core.artifacts.evaluations import FAILED, HELD, HOLD, PASSED, PROMOTE, REJECT
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging import rule_labels
from components.evaluate.judging.champion import Champion
from components.evaluate.judging.intervals import Measured, around
from components.evaluate.judging.verdict import Scores, Verdict, judge
from tests.inputs.limits import NO_LIMITS
from tests.stages.evaluate.conftest import DOCUMENT

SHAPE = ImageShape(8, 8, 1)
# The quantities with limits.
GOOD = {
    "pixel_mean_ratio": around(1.1, 0.1),
    "pixel_deviation_ratio": around(0.9, 0.1),
    "fcd_corrected": around(0.02, 0.01),
    "untrained_fcd_corrected": around(0.03, 0.01),
    "recall against real images": around(0.7, 0.1),
    "coverage against real images": around(0.8, 0.1),
    "class_distance": around(0.05, 0.04),
    "class_ratio": around(0.8, 0.1),
    "class_coverage": around(0.8, 0.1),
    "distinct_share": around(1.0, 0.0),
    "copy_share": around(0.01, 0.005),
    "copy_nearness": around(0.4, 0.1),
}
CONFIG = EvaluateConfig(
    checkpoint="-",
    dataset="-",
    embedding="-",
    evaluation="-",
    distance_limit=0.05,
    recall_limit=0.5,
    coverage_limit=0.6,
    class_distance_limit=0.1,
    class_ratio_limit=0.5,
    class_coverage_limit=0.6,
    distinct_share_limit=0.999,
    copy_share_limit=0.03,
    copy_nearness_limit=0.55,
)
# A value beyond the limit, and half the width of an interval that is beyond it, too.
BEYOND: list[tuple[str, float, float]] = [
    ("pixel_mean_ratio", 2.2, 0.1),
    ("pixel_mean_ratio", 0.4, 0.05),
    ("pixel_deviation_ratio", 0.4, 0.05),
    ("fcd_corrected", 0.07, 0.01),
    ("untrained_fcd_corrected", 0.07, 0.01),
    ("recall against real images", 0.4, 0.05),
    ("coverage against real images", 0.5, 0.05),
    ("class_distance", 0.2, 0.05),
    ("class_ratio", 0.4, 0.05),
    ("class_coverage", 0.5, 0.05),
    ("distinct_share", 0.99, 0.005),
    ("copy_share", 0.05, 0.01),
    ("copy_nearness", 0.7, 0.1),
]
LIMITS = [field.name for field in dataclasses.fields(EvaluateConfig) if field.name.endswith("_limit")]
DIFFERENCES = dict.fromkeys(("recall", "coverage", "class_distance"), around(0.0, 0.03))
FLOOR_ERRORS: dict[str, float | None] = {"classifier": 1e-4, "untrained": 1e-4}
BLOCKS = {"classifier": [0.010, 0.012, 0.011, 0.009, 0.011], "untrained": [0.020, 0.021, 0.019, 0.022, 0.020]}
CHAMPION = Champion(version=3, checkpoint_digest="old", image=SHAPE, blocks=BLOCKS, differences=DIFFERENCES)


def _moved(by: float, *spaces: str) -> dict[str, list[float]]:
    """Return the champion's blocks, with those of some spaces, or of all, moved by nearly the same."""
    return {
        space: [value + by + 1e-5 * (index % 2) for index, value in enumerate(values)]
        if space in spaces or not spaces
        else values
        for space, values in BLOCKS.items()
    }


def _judge(
    measured: Mapping[str, Measured] | None = None,
    champion: Champion | None = None,
    config: EvaluateConfig = CONFIG,
    scores: dict[str, float | None] | None = None,
    blocks: Mapping[str, Sequence[float]] | None = None,
    without: Sequence[str] = (),
    **changes: Any,
) -> Verdict:
    measurements = {name: value for name, value in {**GOOD, **(measured or {})}.items() if name not in without}
    own: dict[str, float | None] = {"bad_samples": 0, **{name: value.value for name, value in measurements.items()}}
    model = Scores({**own, **(scores or {})}, measurements, _moved(-0.005) if blocks is None else blocks)
    inputs = {"floor_errors": FLOOR_ERRORS, "labeled": True, "checkpoint_digest": "new", "image": SHAPE, **changes}
    return judge(model, config, champion, **inputs)


def _outcomes(verdict: Verdict) -> dict[str, str]:
    return {rule.rule: rule.outcome for rule in verdict.rules if rule.outcome != PASSED}


def test_the_report_has_words_for_every_rule() -> None:
    """Fails if a step was forgotten when a rule was added."""
    unlike = [
        dataclasses.replace(CHAMPION, **change)
        for change in ({}, {"problem": "gone"}, {"checkpoint_digest": "new"}, {"blocks": None})
    ]
    verdicts = [_judge(champion=champion, uncertified="few") for champion in [None, *unlike]]
    verdicts.append(_judge(config=dataclasses.replace(CONFIG, distance_limit=0.0)))
    labels = {rule.rule: rule_labels.describe(rule.rule) for verdict in verdicts for rule in verdict.rules}
    assert labels["untrained_fcd_corrected"].name == "Realism (untrained)"
    assert len({label.name for label in labels.values()}) == len(labels)
    assert rule_labels.describe("inception_fd_corrected").name == "Realism (inception)"


def test_the_first_good_model_is_promoted() -> None:
    result = _judge()
    assert result.verdict == PROMOTE
    assert [rule.rule for rule in result.rules] == ["bad_samples", "scores", *GOOD]
    assert _outcomes(result) == {}
    rule = result.rules[4]
    assert (rule.rule, rule.value, rule.limit) == ("fcd_corrected", 0.02, "at most 0.05")
    assert (rule.low, rule.high) == pytest.approx((0.01, 0.03))


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_used_wherever_it_must_be(limit: str) -> None:
    """Fails if a step was forgotten when a limit was added."""
    changed = _judge(config=dataclasses.replace(CONFIG, **{limit: getattr(CONFIG, limit) / 2}))
    assert changed.rules != _judge().rules, "no rule in judging/verdict.py has it"
    assert limit in NO_LIMITS, "tests/inputs/limits.py lacks it"
    assert f"`--{limit}`" in DOCUMENT, "the table of limits lacks it"


def test_every_rule_is_tried_beyond_its_limit() -> None:
    assert {name for name, *_ in BEYOND} == GOOD.keys()


@pytest.mark.parametrize(("name", "value", "half_width"), BEYOND)
def test_an_interval_beyond_a_limit_alone_rejects(name: str, value: float, half_width: float) -> None:
    result = _judge({name: around(value, half_width)})
    assert result.verdict == REJECT
    assert _outcomes(result) == {name: FAILED}
    assert f"{name} is {value:g} " in result.reasons[0]


@pytest.mark.parametrize(("name", "value", "half_width"), BEYOND)
@pytest.mark.parametrize("good", [True, False])
def test_an_interval_with_the_limit_inside_alone_holds(name: str, value: float, half_width: float, good: bool) -> None:
    """On either side of the limit."""
    middle = GOOD[name].value if good else value
    result = _judge({name: around(middle, abs(value - GOOD[name].value))})
    assert result.verdict == HOLD
    assert _outcomes(result) == {name: HELD}


def test_one_limit_exceeded_rejects_however_many_are_undecided() -> None:
    wide = {name: around(good.value, 10.0) for name, good in GOOD.items()}
    assert _judge(wide).verdict == HOLD
    assert _judge({**wide, "class_ratio": around(0.1, 0.1)}).verdict == REJECT


def test_a_sample_with_a_pixel_that_is_not_finite_rejects() -> None:
    result = _judge(scores={"bad_samples": 1})
    assert result.verdict == REJECT
    assert _outcomes(result) == {"bad_samples": FAILED}


@pytest.mark.parametrize("name", ["bad_samples", "density"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_score_that_is_missing_or_not_finite_rejects(name: str, value: float | None) -> None:
    result = _judge(scores={name: value}, champion=CHAMPION)
    assert result.verdict == REJECT
    (reason,) = result.reasons
    assert name in reason


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("part", ["value", "low", "high"])
def test_an_interval_that_is_missing_or_not_a_number_rejects(name: str, part: str) -> None:
    assert _judge(without=[name]).verdict == REJECT
    damaged = dataclasses.replace(GOOD[name], **{part: math.nan})
    assert _outcomes(_judge({name: damaged}, scores={name: 1.0})) == {name: FAILED}


def test_an_end_that_is_infinite_is_written_as_unknown() -> None:
    result = _judge({"class_ratio": Measured(0.8, 0.7, math.inf)})
    assert result.verdict == PROMOTE
    (rule,) = (rule for rule in result.rules if rule.rule == "class_ratio")
    assert (rule.low, rule.high) == (0.7, None)


def test_without_limits_nothing_is_promoted() -> None:
    result = _judge(config=dataclasses.replace(CONFIG, distance_limit=0.0))
    assert result.verdict == REJECT
    assert _outcomes(result) == {"limits": FAILED}


@pytest.mark.parametrize(("uncertified", "outcome", "verdict"), [("hold", HELD, HOLD), (JUDGE, PASSED, PROMOTE)])
def test_without_a_certificate_a_good_model_is_held_unless_it_is_to_judge(
    uncertified: str, outcome: str, verdict: str
) -> None:
    config = dataclasses.replace(CONFIG, uncertified=uncertified)
    result = _judge(config=config, uncertified="34 test images, 2,000 needed")
    assert result.verdict == verdict
    assert "34 test images, 2,000 needed" in result.reasons[-1]
    assert [rule.outcome for rule in result.rules if rule.rule == "feature space"] == [outcome]
    assert _judge({"class_ratio": around(0.1, 0.1)}, config=config, uncertified="x").verdict == REJECT


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_from_the_champion_that_is_missing_rejects(name: str) -> None:
    differences = {score: value for score, value in CHAMPION.differences.items() if score != name}
    assert _judge(champion=dataclasses.replace(CHAMPION, differences=differences)).verdict == REJECT


def test_limits_on_classes_are_left_out_without_classes() -> None:
    result = _judge(without=["class_distance", "class_ratio", "class_coverage"], labeled=False, remarks=["a remark"])
    assert result.verdict == PROMOTE
    assert not [rule.rule for rule in result.rules if "class" in rule.rule]
    assert result.reasons[-1] == "a remark"


def test_challenger_and_champion_both_ways_round() -> None:
    better = _judge(champion=CHAMPION)
    assert better.verdict == PROMOTE
    assert "version 3" in better.reasons[0]
    swapped = _judge(champion=dataclasses.replace(CHAMPION, blocks=_moved(-0.005)), blocks=BLOCKS)
    assert swapped.verdict == REJECT
    assert "kernel distance (classifier)" in swapped.reasons[0]


def test_the_same_samples_hold() -> None:
    result = _judge(champion=CHAMPION, blocks=BLOCKS)
    assert result.verdict == HOLD
    assert [rule.split()[0] for rule in _outcomes(result)] == ["smallest"]


@pytest.mark.parametrize(("better", "other"), [("classifier", "untrained"), ("untrained", "classifier")])
def test_one_space_is_enough_to_be_better_unless_the_other_is_worse_or_undecided(better: str, other: str) -> None:
    moved = _moved(-0.005, better)
    assert _judge(champion=CHAMPION, blocks=moved).verdict == PROMOTE
    worse = {**moved, other: _moved(0.005)[other]}
    assert _judge(champion=CHAMPION, blocks=worse).verdict == REJECT
    wide = {**moved, other: [value + (-1) ** index * 4e-3 for index, value in enumerate(BLOCKS[other])]}
    assert _judge(champion=CHAMPION, blocks=wide).verdict == HOLD


@pytest.mark.parametrize("spread", [2e-4, 4e-3])
def test_a_difference_within_the_spread_of_the_blocks_holds(spread: float) -> None:
    """Small enough to be within the margin, or too large to tell."""
    apart = {space: [value + (-1) ** index * spread for index, value in enumerate(BLOCKS[space])] for space in BLOCKS}
    assert _judge(champion=CHAMPION, blocks=apart).verdict == HOLD


@pytest.mark.parametrize(("name", "beyond"), [("class_distance", 0.2), ("recall", -0.2), ("coverage", -0.2)])
def test_a_better_distance_with_less_diversity_than_the_champion_rejects_or_holds(name: str, beyond: float) -> None:
    rule = f"{name} less the champion's"
    for half_width, outcome in ((0.05, FAILED), (0.15, HELD)):
        differences = {**DIFFERENCES, name: around(beyond, half_width)}
        result = _judge(champion=dataclasses.replace(CHAMPION, differences=differences))
        assert _outcomes(result) == {rule: outcome}
        assert result.verdict == (REJECT if outcome == FAILED else HOLD)


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"classifier": BLOCKS["classifier"]},
        {**BLOCKS, "untrained": BLOCKS["untrained"][:4]},
        {**BLOCKS, "untrained": [*BLOCKS["untrained"][:4], math.nan]},
    ],
)
def test_blocks_that_are_missing_unlike_or_not_finite_reject(blocks: dict[str, list[float]]) -> None:
    assert _judge(champion=CHAMPION, blocks=blocks).verdict == REJECT
    assert _judge(champion=dataclasses.replace(CHAMPION, blocks=blocks)).verdict == REJECT


@pytest.mark.parametrize("error", [None, math.nan, math.inf])
def test_without_a_floor_nothing_is_compared(error: float | None) -> None:
    assert _judge(champion=CHAMPION, floor_errors={**FLOOR_ERRORS, "untrained": error}).verdict == REJECT


def test_the_champion_itself_is_held() -> None:
    result = _judge(champion=CHAMPION, checkpoint_digest="old")
    assert result.verdict == HOLD
    assert _outcomes(result) == {"checkpoint": HELD}


@pytest.mark.parametrize(
    "champion",
    [
        Champion(problem="champion.json is not JSON"),
        dataclasses.replace(CHAMPION, blocks=None),
        dataclasses.replace(CHAMPION, image=ImageShape(28, 28, 1)),
    ],
)
def test_a_champion_that_cannot_be_compared_with_rejects(champion: Champion) -> None:
    assert _judge(champion=champion).verdict == REJECT
