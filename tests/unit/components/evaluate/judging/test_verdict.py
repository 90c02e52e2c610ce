import dataclasses
import math
from collections.abc import Mapping, Sequence

import pytest

from components.core.artifacts.evaluations import FAILED, HELD, HOLD, PASSED, PROMOTE, REJECT
from components.core.metrics.intervals import MISSING, Measured, around
from components.core.metrics.quantities import CHAMPION, EXCESS, REAL, SHIFTS, Quantity, Scores, Space, spaces_of
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging.verdict import ScoredChampion, Verdict, fact, follows, judge
from tests.inputs.limits import NO_LIMITS
from tests.stages.evaluate.conftest import DOCUMENT

FIRST, UNTRAINED = SPACES = spaces_of(["classifier", "untrained"])
BAD, CLASS_DISTANCE, CLASS_RATIO = Quantity("bad_samples"), Quantity("class_distance"), Quantity("class_ratio")
ACCURACY = Quantity("class_accuracy")
# The quantities with limits: a good interval, and values and half widths of others that are wholly beyond the limit.
LIMITED = {
    **dict.fromkeys(SHIFTS, (around(-0.05, 0.02), [(0.2, 0.05), (-0.2, 0.05)])),
    Quantity("pixel_deviation_ratio"): (around(0.95, 0.02), [(0.8, 0.05), (1.2, 0.05)]),
    Quantity("fcd_corrected", FIRST): (around(0.02, 0.01), [(0.07, 0.01)]),
    Quantity("fcd_corrected", UNTRAINED): (around(0.03, 0.01), [(0.07, 0.01)]),
    Quantity("recall", FIRST, REAL): (around(0.7, 0.1), [(0.4, 0.05)]),
    Quantity("coverage", FIRST, REAL): (around(0.8, 0.1), [(0.4, 0.05)]),
    CLASS_DISTANCE: (around(0.05, 0.04), [(0.2, 0.05)]),
    CLASS_RATIO: (around(0.8, 0.1), [(0.4, 0.05)]),
    Quantity("class_coverage"): (around(0.8, 0.1), [(0.3, 0.05)]),
    Quantity("class_accuracy", None, REAL): (around(1.0, 0.01), [(0.7, 0.05)]),
    Quantity("worst_class_accuracy"): (around(0.9, 0.1), [(0.3, 0.1)]),
    Quantity("faulty_share"): (around(0.01, 0.005), [(0.05, 0.01)]),
    Quantity("outlier_share"): (around(0.001, 0.001), [(0.02, 0.005)]),
    Quantity("repeat_share"): (around(0.02, 0.01), [(0.2, 0.05)]),
    Quantity("distinct_share"): (around(1.0, 0.0), [(0.99, 0.005)]),
    Quantity("copy_share"): (around(0.01, 0.005), [(0.07, 0.01)]),
    Quantity("copy_nearness"): (around(0.4, 0.1), [(0.7, 0.1)]),
}
GOOD = {ACCURACY: Measured(0.9), **{quantity: good for quantity, (good, _) in LIMITED.items()}}
CONFIG = EvaluateConfig(checkpoint="-", dataset="-", embedding="-", evaluation="-")
LIMITS = [field.name for field in dataclasses.fields(EvaluateConfig) if field.name.endswith("_limit")]
BLOCKS = {FIRST: [0.010, 0.012, 0.011, 0.009, 0.011], UNTRAINED: [0.020, 0.021, 0.019, 0.022, 0.020]}
ERRORS = {Quantity("kcd_error", space): Measured(1e-4) for space in SPACES}
COLORED = dict.fromkeys(SHIFTS, around(0.0, 0.01))
REAL_SCORES = Scores({**ERRORS, **COLORED, CLASS_DISTANCE: around(0.0, 0.1), ACCURACY: Measured(0.9)}, BLOCKS)
DIFFERENCES = {
    Quantity("recall", FIRST, CHAMPION): (around(0.0, 0.03), -0.2),
    Quantity("coverage", FIRST, CHAMPION): (around(0.0, 0.03), -0.2),
    Quantity("class_distance", None, CHAMPION): (around(0.0, 0.03), 0.2),
}
RIVAL = ScoredChampion(version=3, blocks=BLOCKS, differences={name: good for name, (good, _) in DIFFERENCES.items()})


def _moved(by: float, *spaces: Space) -> dict[Space, list[float]]:
    """Return the champion's blocks, with those of some spaces, or of all, moved by nearly the same."""
    moved = {space: [value + by + 1e-5 * (at % 2) for at, value in enumerate(BLOCKS[space])] for space in BLOCKS}
    return {space: moved[space] if space in spaces or not spaces else BLOCKS[space] for space in BLOCKS}


def _judge(
    changed: Mapping[Quantity, Measured] | None = None,
    champion: ScoredChampion | None = None,
    config: EvaluateConfig = CONFIG,
    blocks: Mapping[Space, Sequence[float]] | None = None,
    real: Scores = REAL_SCORES,
    uncertified: str = "",
) -> Verdict:
    model = Scores({BAD: around(0, 0.0), **GOOD, **(changed or {})}, _moved(-0.005) if blocks is None else blocks)
    return judge(model, real, champion, config, uncertified)


def _outcomes(verdict: Verdict) -> dict[Quantity, str]:
    return {rule.quantity: rule.outcome for rule in verdict.rules if rule.outcome != PASSED}


def test_rules_have_names_of_files_and_words_of_their_own() -> None:
    """Fails if a step was forgotten when a rule was added."""
    no_limits = _judge(config=dataclasses.replace(CONFIG, distance_limit=0.0)).rules
    incomparable = [fact(name, "is gone", "one") for name in ("champion", "checkpoint")]
    rules = [*_judge(champion=RIVAL, uncertified="few").rules, no_limits[-1], *incomparable]
    labels = {rule.quantity.name: rule.label.name for rule in rules}
    assert len(set(labels.values())) == len(labels) == len(rules)
    expected = {
        "untrained_fcd_corrected": "Realism (untrained)",
        "recall against real images": "Variety",
        "recall less the champion's": "Variety, compared",
        f"class_distance{CHAMPION}": "Class balance, compared",
    }
    assert expected.items() <= labels.items()
    assert {f"smallest {EXCESS}", *(f"{EXCESS} ({space.name})" for space in SPACES)} <= labels.keys()
    custom, *_ = spaces_of(["inception"])
    rule = dataclasses.replace(rules[0], quantity=Quantity("fcd_corrected", custom))
    assert (rule.quantity.name, rule.label.name) == ("inception_fd_corrected", "Realism (inception)")


def test_the_first_good_model_is_promoted() -> None:
    result = _judge()
    assert (result.verdict, _outcomes(result)) == (PROMOTE, {})
    assert [rule.quantity for rule in result.rules] == [BAD, Quantity("scores"), *LIMITED]
    rule = result.rules[9].to_json()
    assert (rule.pop("low"), rule.pop("high")) == pytest.approx((0.01, 0.03))
    assert rule == {"rule": "fcd_corrected", "value": 0.02, "limit": "at most 0.055", "outcome": PASSED}


def test_one_rule_that_failed_rejects_and_one_that_is_held_holds() -> None:
    assert (follows([PASSED, PASSED]), follows([PASSED, HELD])) == (PROMOTE, HOLD)
    assert follows([HELD, FAILED, PASSED]) == follows([PASSED, "of no name"]) == REJECT


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_is_used_wherever_it_must_be(limit: str) -> None:
    """Fails if a step was forgotten when a limit was added."""
    changed = _judge(config=dataclasses.replace(CONFIG, **{limit: getattr(CONFIG, limit) / 2}))
    assert changed.rules != _judge().rules, "no rule in judging/verdict.py has it"
    assert limit in NO_LIMITS, "tests/inputs/limits.py lacks it"
    assert f"`--{limit.replace('_', '-')}`" in DOCUMENT, "the table of limits lacks it"


@pytest.mark.parametrize("quantity", LIMITED, ids=lambda quantity: quantity.name)
def test_an_interval_beyond_a_limit_alone_rejects_and_one_around_it_alone_holds(quantity: Quantity) -> None:
    good, beyond = LIMITED[quantity]
    for value, half_width in beyond:
        result = _judge({quantity: around(value, half_width)})
        assert (result.verdict, _outcomes(result)) == (REJECT, {quantity: FAILED})
        assert f"{quantity.name} is {value:g} " in result.reasons[0]
        for middle in (good.value, value):  # on either side of the limit
            result = _judge({quantity: around(middle, abs(value - good.value))})
            assert (result.verdict, _outcomes(result)) == (HOLD, {quantity: HELD})
    for part in ("value", "low", "high"):
        damaged = _judge({quantity: dataclasses.replace(good, **{part: math.nan})})
        assert _outcomes(damaged)[quantity] == FAILED
    kept = {other: value for other, value in GOOD.items() if other != quantity}
    assert judge(Scores({BAD: around(0, 0.0), **kept}), REAL_SCORES, None, CONFIG).verdict == REJECT


@pytest.mark.parametrize("quantity", [BAD, Quantity("density", FIRST)])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_missing_or_not_finite_rejects(quantity: Quantity, value: float) -> None:
    result = _judge({quantity: Measured(value, value, value)}, champion=RIVAL)
    assert result.verdict == REJECT
    (reason,) = result.reasons
    assert quantity.name in reason
    assert _judge({BAD: around(1, 0.0)}).verdict == REJECT  # one sample with such a pixel


def test_an_end_that_is_infinite_is_written_as_unknown() -> None:
    result = _judge({CLASS_RATIO: Measured(0.8, 0.7, math.inf)})
    ends = {rule.quantity: (rule.low, rule.high) for rule in result.rules}
    assert (result.verdict, ends[CLASS_RATIO]) == (PROMOTE, (0.7, None))


def test_without_limits_nothing_is_promoted() -> None:
    result = _judge(config=dataclasses.replace(CONFIG, distance_limit=0.0))
    assert (result.verdict, _outcomes(result)) == (REJECT, {Quantity("limits"): FAILED})


@pytest.mark.parametrize(("uncertified", "verdict"), [("hold", HOLD), (JUDGE, PROMOTE)])
def test_without_a_certificate_a_good_model_is_held_unless_it_is_to_judge(uncertified: str, verdict: str) -> None:
    config = dataclasses.replace(CONFIG, uncertified=uncertified)
    result = _judge(config=config, uncertified="34 test images, 2,000 needed")
    assert result.verdict == verdict
    assert "34 test images, 2,000 needed" in result.reasons[-1]
    assert _judge({CLASS_RATIO: around(0.1, 0.1)}, config=config, uncertified="x").verdict == REJECT


def test_limits_on_classes_are_left_out_if_real_images_have_none() -> None:
    without = {quantity: MISSING for quantity in GOOD if "class" in quantity.score}
    for champion in (None, RIVAL):
        result = _judge(without, champion, real=Scores(ERRORS, BLOCKS))
        assert not [rule for rule in result.rules if "class" in rule.quantity.score]
    gray = judge(Scores({BAD: around(0, 0.0), **GOOD}), Scores({SHIFTS[0]: around(0.0, 0.0)}, BLOCKS), None, CONFIG)
    assert [rule.quantity for rule in gray.rules if rule.quantity in SHIFTS] == SHIFTS[:1]
    unasked = {quantity: score for quantity, score in GOOD.items() if "accuracy" not in quantity.score}
    assert judge(Scores({BAD: around(0, 0.0), **unasked}), REAL_SCORES, None, CONFIG).verdict == PROMOTE


@pytest.mark.parametrize(("better", "other"), [(FIRST, UNTRAINED), (UNTRAINED, FIRST)])
def test_one_space_is_enough_to_be_better_unless_the_other_is_worse_or_undecided(better: Space, other: Space) -> None:
    moved = _moved(-0.005, better)
    promoted = _judge(champion=RIVAL, blocks=moved)
    assert (promoted.verdict, "version 3" in promoted.reasons[0]) == (PROMOTE, True)
    rejected = _judge(champion=RIVAL, blocks={**moved, other: _moved(0.005)[other]})
    assert (rejected.verdict, f"kernel distance ({other.name})" in rejected.reasons[0]) == (REJECT, True)
    wide = {**moved, other: [value + (-1) ** index * 4e-3 for index, value in enumerate(BLOCKS[other])]}
    assert _judge(champion=RIVAL, blocks=wide).verdict == HOLD
    same = _judge(champion=RIVAL, blocks=BLOCKS)
    assert (same.verdict, [quantity.name.split()[0] for quantity in _outcomes(same)]) == (HOLD, ["smallest"])


@pytest.mark.parametrize("quantity", DIFFERENCES, ids=lambda quantity: quantity.name)
def test_a_better_distance_with_less_diversity_than_the_champion_rejects_or_holds(quantity: Quantity) -> None:
    beyond = DIFFERENCES[quantity][1]
    for measured, outcome in ((around(beyond, 0.05), FAILED), (around(beyond, 0.15), HELD), (MISSING, FAILED)):
        differences = {**RIVAL.differences, quantity: measured}
        result = _judge(champion=dataclasses.replace(RIVAL, differences=differences))
        assert _outcomes(result) == {quantity: outcome}
        assert result.verdict == (REJECT if outcome == FAILED else HOLD)
    without = {other: value for other, value in RIVAL.differences.items() if other != quantity}
    assert _judge(champion=dataclasses.replace(RIVAL, differences=without)).verdict == REJECT


@pytest.mark.parametrize(
    "blocks", [{}, {FIRST: BLOCKS[FIRST]}, {**BLOCKS, UNTRAINED: [*BLOCKS[UNTRAINED][:4], math.nan]}]
)
def test_blocks_that_are_missing_unlike_or_not_finite_reject(blocks: dict[Space, list[float]]) -> None:
    assert _judge(champion=RIVAL, blocks=blocks).verdict == REJECT
    assert _judge(champion=dataclasses.replace(RIVAL, blocks=blocks)).verdict == REJECT
