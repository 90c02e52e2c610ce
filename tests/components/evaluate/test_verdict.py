"""Tests for components/evaluate/verdict.py."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from components.evaluate.verdict import Limits, Rival, Standing, Verdict, judge
from components.evaluations import HOLD, PROMOTE, REJECT
from components.records import ImageShape

SHAPE = ImageShape(8, 8, 1)
GOOD: dict[str, float | None] = {
    "bad_samples": 0,
    "pixel_mean_ratio": 1.1,
    "pixel_deviation_ratio": 0.9,
    "fcd_ratio": 4.0,
    "untrained_fcd_ratio": 6.0,
    "class_distance": 0.1,
    "recall": 0.6,
    "coverage": 0.7,
    "class_ratio": 0.8,
    "class_coverage": 0.9,
    "distinct_share": 1.0,
    "copy_share": 0.01,
    "copy_z": 0.5,
}
REAL: dict[str, float | None] = {
    "recall": 0.9,
    "coverage": 0.95,
    "class_distance": 0.05,
    "class_ratio": 0.9,
    "class_coverage": 0.95,
    "kcd_error": 1e-4,
    "untrained_kcd_error": 1e-4,
}
BLOCKS = {"classifier": [0.010, 0.012, 0.011, 0.009, 0.011], "untrained": [0.020, 0.021, 0.019, 0.022, 0.020]}
LIMITS = Limits(
    distance_ratio=10.0,
    recall=0.5,
    coverage=0.6,
    class_distance=0.2,
    class_ratio=0.5,
    class_coverage=0.6,
    distinct_share=0.999,
    copy_share=0.03,
    copy_z=-3.0,
)
CHAMPION = Rival(version=3, checkpoint_digest="old", image=SHAPE, standing=Standing(scores=GOOD, blocks=BLOCKS))


def _moved(by: float, *spaces: str) -> dict[str, list[float]]:
    """The champion's blocks, with those of some spaces, or of all, moved by nearly the same."""
    return {
        space: [value + by + 1e-5 * (index % 2) for index, value in enumerate(values)]
        if space in spaces or not spaces
        else values
        for space, values in BLOCKS.items()
    }


def _judge(
    scores: dict[str, float | None] | None = None,
    rival: Rival | None = None,
    limits: Limits | None = LIMITS,
    digest: str = "new",
    blocks: Mapping[str, Sequence[float]] | None = None,
    real: dict[str, float | None] | None = None,
    without: Sequence[str] = (),
    labelled: bool = True,
) -> Verdict:
    known = {name: value for name, value in (GOOD | (scores or {})).items() if name not in without}
    return judge(
        Standing(scores=known, blocks=_moved(-0.005) if blocks is None else blocks),
        limits,
        rival,
        real=REAL | (real or {}),
        spaces=list(BLOCKS),
        labelled=labelled,
        checkpoint_digest=digest,
        image=SHAPE,
    )


def _with(rival: Rival, scores: dict[str, float | None] | None = None, **changes: Any) -> Rival:
    """A champion with other scores, or with other blocks."""
    standing = Standing(scores=GOOD | (scores or {}), blocks=changes.get("blocks", BLOCKS))
    return dataclasses.replace(rival, standing=standing)


def test_the_first_good_model_is_promoted() -> None:
    found = _judge()
    assert found.verdict == PROMOTE
    assert [rule.rule for rule in found.rules] == ["bad_samples", "scores", *list(GOOD)[1:]]
    assert all(rule.passed for rule in found.rules)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bad_samples", 1),
        ("pixel_mean_ratio", 2.1),
        ("pixel_mean_ratio", 0.4),
        ("pixel_deviation_ratio", 0.4),
        ("fcd_ratio", 10.1),
        ("untrained_fcd_ratio", 10.1),
        ("recall", 0.44),
        ("coverage", 0.56),
        ("class_distance", 0.26),
        ("class_ratio", 0.44),
        ("class_coverage", 0.56),
        ("distinct_share", 0.998),
        ("copy_share", 0.031),
        ("copy_z", -3.1),
    ],
)
def test_every_limit_alone_rejects(name: str, value: float) -> None:
    found = _judge({name: value})
    assert found.verdict == REJECT
    assert [rule.rule for rule in found.rules if not rule.passed] == [name]
    assert name in found.reasons[0]


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_number_that_is_missing_or_not_finite_rejects(name: str, value: float | None) -> None:
    found = _judge({name: value}, CHAMPION)
    assert found.verdict == REJECT
    assert f"the scores {name} are missing or not finite; expected finite, every one" in found.reasons
    assert not next(rule for rule in found.rules if rule.rule == name).passed


@pytest.mark.parametrize("name", list(GOOD))
def test_a_score_that_a_rule_asks_for_and_that_is_not_there_rejects(name: str) -> None:
    assert _judge(without=[name]).verdict == REJECT


@pytest.mark.parametrize("value", [None, math.nan])
def test_a_score_that_no_rule_asks_for_must_be_a_number_too(value: float | None) -> None:
    found = _judge({"density": value})
    assert found.verdict == REJECT
    assert found.reasons == ["the scores density are missing or not finite; expected finite, every one"]


def test_without_limits_nothing_is_promoted() -> None:
    found = _judge(limits=None)
    assert found.verdict == REJECT
    assert found.reasons == ["the limits are not set; expected limits to keep to"]


@pytest.mark.parametrize("name", ["recall", "coverage", "class_distance", "class_ratio", "class_coverage"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_number_that_real_images_lack_rejects(name: str, value: float | None) -> None:
    assert _judge(real={name: value}).verdict == REJECT


def test_a_limit_that_cannot_be_told_says_whose_number_is_missing() -> None:
    of_real = "recall is 0.6, expected at least what is missing (0.5 of that of real images)"
    assert _judge(real={"recall": None}).reasons == [of_real]
    of_champion = "recall is 0.6, expected at least what is missing by the champion's"
    assert _judge(rival=_with(CHAMPION, {"recall": math.nan})).reasons == [of_champion]


@pytest.mark.parametrize("name", ["recall", "coverage", "class_distance"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_number_that_the_champion_lacks_rejects(name: str, value: float | None) -> None:
    assert _judge(rival=_with(CHAMPION, {name: value})).verdict == REJECT


def test_limits_on_classes_are_left_out_without_classes() -> None:
    found = _judge(without=["class_distance", "class_ratio", "class_coverage"], labelled=False)
    assert found.verdict == PROMOTE
    assert not [rule.rule for rule in found.rules if "class" in rule.rule]


def test_challenger_and_champion_both_ways_round() -> None:
    better = _judge(rival=CHAMPION)
    assert better.verdict == PROMOTE
    assert better.reasons == ["within every limit and better than the champion, version 3"]
    swapped = _judge(rival=_with(CHAMPION, blocks=_moved(-0.005)), blocks=BLOCKS)
    assert swapped.verdict == REJECT
    assert "excess over the champion's kernel distance (classifier)" in swapped.reasons[0]


def test_the_same_samples_hold() -> None:
    found = _judge(rival=CHAMPION, blocks=BLOCKS)
    assert found.verdict == HOLD
    assert len(found.reasons) == 1
    assert "version 3" in found.reasons[0]


def test_one_space_is_enough_to_be_better_unless_the_other_is_worse() -> None:
    assert _judge(rival=CHAMPION, blocks=_moved(-0.005, "untrained")).verdict == PROMOTE
    mixed = {**_moved(-0.005, "classifier"), "untrained": _moved(0.005)["untrained"]}
    assert _judge(rival=CHAMPION, blocks=mixed).verdict == REJECT


@pytest.mark.parametrize("spread", [2e-4, 4e-3])
def test_a_difference_within_the_spread_of_the_blocks_holds(spread: float) -> None:
    """Whether it is small enough to be within the margin, or too large to tell."""
    apart = {space: [value + (-1) ** index * spread for index, value in enumerate(BLOCKS[space])] for space in BLOCKS}
    assert _judge(rival=CHAMPION, blocks=apart).verdict == HOLD


@pytest.mark.parametrize(
    "scores", [{"class_distance": 0.14}, {"recall": 0.54}, {"coverage": 0.64}, {"class_ratio": 0.1}]
)
def test_a_better_distance_with_a_dropped_class_or_less_diversity_rejects(scores: dict[str, float | None]) -> None:
    assert _judge(scores, CHAMPION).verdict == REJECT


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
    assert _judge(rival=CHAMPION, blocks=blocks).verdict == REJECT
    assert _judge(rival=_with(CHAMPION, blocks=blocks)).verdict == REJECT


@pytest.mark.parametrize("error", [None, math.nan, math.inf])
def test_without_a_floor_nothing_is_compared(error: float | None) -> None:
    assert _judge(rival=CHAMPION, real={"untrained_kcd_error": error}).verdict == REJECT


def test_the_champion_itself_is_held() -> None:
    found = _judge(rival=CHAMPION, digest="old")
    assert found.verdict == HOLD
    assert "is already the champion, version 3" in found.reasons[0]


@pytest.mark.parametrize(
    "rival",
    [
        Rival(problem="champion.json is not JSON"),
        dataclasses.replace(CHAMPION, standing=None),
        dataclasses.replace(CHAMPION, image=ImageShape(28, 28, 1)),
    ],
)
def test_a_champion_that_cannot_be_compared_with_rejects(rival: Rival) -> None:
    assert _judge(rival=rival).verdict == REJECT
