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
GOOD = {
    "bad_samples": 0,
    "fcd_ratio": 4.0,
    "class_distance": 0.1,
    "class_ratio": 0.8,
    "recall": 0.6,
    "coverage": 0.7,
}
BLOCKS = {"classifier": [0.010, 0.012, 0.011, 0.009, 0.011], "untrained": [0.020, 0.021, 0.019, 0.022, 0.020]}
LIMITS = Limits(distance_ratio=10.0, class_distance=0.25, class_ratio=0.25)
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
    limits: Limits = LIMITS,
    digest: str = "new",
    blocks: Mapping[str, Sequence[float]] | None = None,
    floor_error: float | None = 1e-4,
) -> Verdict:
    return judge(
        Standing(scores=GOOD | (scores or {}), blocks=_moved(-0.005) if blocks is None else blocks),
        limits,
        rival,
        floor_errors=dict.fromkeys(BLOCKS, floor_error),
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
    assert [rule.rule for rule in found.rules] == ["bad_samples", "fcd_ratio", "class_distance", "class_ratio"]
    assert all(rule.passed for rule in found.rules)


@pytest.mark.parametrize(
    ("name", "value"), [("bad_samples", 1), ("fcd_ratio", 10.1), ("class_distance", 0.26), ("class_ratio", 0.24)]
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
    assert "missing or not a number" in found.reasons[0]


@pytest.mark.parametrize("name", ["recall", "coverage", "class_distance"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_number_that_the_champion_lacks_rejects(name: str, value: float | None) -> None:
    assert _judge(rival=_with(CHAMPION, {name: value})).verdict == REJECT


def test_limits_on_classes_are_left_out_without_classes() -> None:
    scores: dict[str, float | None] = {"class_distance": None, "class_ratio": None}
    assert _judge(scores, limits=Limits(distance_ratio=10.0, class_distance=None, class_ratio=None)).verdict == PROMOTE


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
    assert _judge(rival=CHAMPION, floor_error=error).verdict == REJECT


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
