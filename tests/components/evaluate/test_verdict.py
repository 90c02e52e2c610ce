"""Tests for components/evaluate/verdict.py."""

import dataclasses
import math

import pytest

from components.evaluate.verdict import Limits, Rival, Verdict, judge
from components.evaluations import HOLD, PROMOTE, REJECT
from components.records import ImageShape

SHAPE = ImageShape(8, 8, 1)
GOOD = {"bad_samples": 0, "fcd": 2.0, "fcd_ratio": 4.0, "class_distance": 0.1, "class_ratio": 0.8}
LIMITS = Limits(distance_ratio=10.0, class_distance=0.25, class_ratio=0.25)
CHAMPION = Rival(version=3, checkpoint_digest="old", image=SHAPE, fcd=2.5)


def _judge(
    scores: dict[str, float | None] | None = None,
    rival: Rival | None = None,
    limits: Limits = LIMITS,
    digest: str = "new",
) -> Verdict:
    return judge(GOOD | (scores or {}), limits, rival, checkpoint_digest=digest, image=SHAPE)


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


@pytest.mark.parametrize("name", ["bad_samples", "fcd_ratio", "class_distance", "class_ratio", "fcd"])
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_number_that_is_missing_or_not_finite_rejects(name: str, value: float | None) -> None:
    found = _judge({name: value}, CHAMPION)
    assert found.verdict == REJECT
    assert "missing or not a number" in found.reasons[0]


def test_limits_on_classes_are_left_out_without_classes() -> None:
    scores: dict[str, float | None] = {"class_distance": None, "class_ratio": None}
    assert _judge(scores, limits=Limits(distance_ratio=10.0, class_distance=None, class_ratio=None)).verdict == PROMOTE


def test_challenger_and_champion_both_ways_round() -> None:
    assert _judge({"fcd": 2.0}, dataclasses.replace(CHAMPION, fcd=2.5)).verdict == PROMOTE
    found = _judge({"fcd": 2.5}, dataclasses.replace(CHAMPION, fcd=2.0))
    assert found.verdict == HOLD
    assert "version 3" in found.reasons[0]
    assert _judge({"fcd": 2.0}, dataclasses.replace(CHAMPION, fcd=2.0)).verdict == HOLD


def test_better_than_the_champion_but_beyond_a_limit_rejects() -> None:
    assert _judge({"fcd": 1.0, "class_ratio": 0.1}, CHAMPION).verdict == REJECT


def test_the_champion_itself_is_held() -> None:
    found = _judge(rival=CHAMPION, digest="old")
    assert found.verdict == HOLD
    assert "is already the champion, version 3" in found.reasons[0]


@pytest.mark.parametrize(
    "rival",
    [
        Rival(problem="champion.json is not JSON"),
        dataclasses.replace(CHAMPION, fcd=None),
        dataclasses.replace(CHAMPION, fcd=math.nan),
        dataclasses.replace(CHAMPION, image=ImageShape(28, 28, 1)),
    ],
)
def test_a_champion_that_cannot_be_compared_with_rejects(rival: Rival) -> None:
    assert _judge(rival=rival).verdict == REJECT
