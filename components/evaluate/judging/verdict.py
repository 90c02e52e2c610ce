"""PROMOTE, HOLD or REJECT: a pure function of scores and limits. Anything unknown means REJECT.

Each rule judges the confidence interval of a quantity: it passes if the whole interval is within the limit, fails if
the whole interval is beyond it, and is held if the limit lies inside (`intervals`).
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from components.core.artifacts.evaluations import FAILED, HELD, HOLD, PASSED, PROMOTE, REJECT
from components.core.metrics.intervals import MISSING, Measured, around
from components.core.metrics.quantities import CHAMPION, EXCESS, REAL, SHIFTS, Quantity, Scores, Space
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging import rule_labels
from components.evaluate.judging.comparison import compare

# Largest loss of recall and coverage against the champion, and largest gain in total variation between classes: about
# twice what 2,000 test images can resolve.
_WORSE = 0.1
_NAMED = 5  # of the scores that are missing
_CLASS_DISTANCE, _ACCURACY = Quantity("class_distance"), Quantity("class_accuracy")

Values = Mapping[Quantity, Measured]


@dataclasses.dataclass(frozen=True)
class Rule:
    quantity: Quantity
    value: float | str | None  # None if missing or not finite
    low: float | None  # ends of its confidence interval; None if infinite or unknown
    high: float | None
    limit: str  # in words: `at most 0.1`
    outcome: str  # `passed`, `held` or `failed`

    @property
    def label(self) -> rule_labels.RuleLabel:
        return rule_labels.describe(self.quantity)

    def to_json(self) -> dict[str, Any]:
        """The value in `verdict.json`."""
        return {"rule": self.quantity.name, **{name: value for name, value in vars(self).items() if name != "quantity"}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoredChampion:
    """The published champion, or images in its place, scored in the same run if it can be compared with."""

    version: int  # in the registry; 0 if unreadable, and for images
    incomparable: Rule | None = None  # says why it cannot be compared with
    blocks: Mapping[Space, Sequence[float]] = dataclasses.field(default_factory=dict)  # as of `Scores`
    differences: Values = dataclasses.field(default_factory=dict)  # scores of the model minus its own

    @property
    def name(self) -> str:
        return f"champion, version {self.version}" if self.version else "images of --against"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome, every rule that was applied, and a sentence for each reason."""

    verdict: str
    rules: list[Rule]
    reasons: list[str]


def judge(
    model: Scores, real: Scores, champion: ScoredChampion | None, config: EvaluateConfig, uncertified: str = ""
) -> Verdict:
    """Judge the scores of a model, `bad_samples` among them.

    Args:
        real: Scores of real images. Their spaces are those to judge in, the most important first, and if they have
            scores of classes, so must the model.
        champion: None only if the registry certainly has none.
        uncertified: Why the spaces have no certificate; empty if they have.
    """
    missing = [quantity for quantity, number in model.numbers.items() if number is None]
    names = [quantity.name for quantity in missing]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    value = f"{', '.join(names[:_NAMED])}{more} are missing or not finite" if names else "are finite"
    rules = [
        _between(Quantity("bad_samples"), model.values, high=0),
        fact("scores", value, "all finite", FAILED if names else PASSED),
    ]
    if config.distance_limit:
        rules += _within(config, model.values, real)
    else:
        rules.append(fact("limits", "are not set", "limits to judge by"))
    if uncertified:
        expected = "a certified feature space, unless uncertified is judge"
        outcome = PASSED if config.uncertified == JUDGE else HELD
        rules.append(fact("feature space", f"is uncertified: {uncertified}", expected, outcome))
    if champion is not None:
        rules += [champion.incomparable] if champion.incomparable else _against(champion, model, real)
    verdict = follows(rule.outcome for rule in rules)
    broken = [rule for rule in rules if rule.outcome != PASSED and rule.quantity.score != "feature space"]
    first = "" if config.samples else " and the first to be published"
    better = f" and better than the {champion.name}" if champion else first
    reasons = [f"significantly within every limit{better}"] if verdict == PROMOTE else []
    reasons += [f"uncertified: {uncertified}"] if uncertified else []
    # The rule on all scores names those that are missing already.
    reasons += [_reason(rule) for rule in broken if rule.value is not None or rule.quantity not in missing]
    return Verdict(verdict, rules, reasons)


def follows(outcomes: Iterable[str]) -> str:
    """Return the verdict that follows from the outcomes of the rules; an unknown outcome counts as a failure."""
    distinct = set(outcomes)
    if not distinct <= {PASSED, HELD}:
        return REJECT
    return HOLD if HELD in distinct else PROMOTE


def fact(score: str, value: str, limit: str, outcome: str = FAILED) -> Rule:
    """Return a rule on something other than a number, in words."""
    return Rule(Quantity(score), value, None, None, limit, outcome)


def _within(config: EvaluateConfig, values: Values, real: Scores) -> list[Rule]:
    """Return the rules with limits: on pixels, distances, collapse, classes, faults, and copies of any image."""
    first, *_ = spaces = list(real.blocks)
    class_rules = [
        _between(_CLASS_DISTANCE, values, high=config.class_distance_limit),
        _between(Quantity("class_ratio"), values, low=config.class_ratio_limit),
        _between(Quantity("class_coverage"), values, low=config.class_coverage_limit),
    ]
    if _ACCURACY in values and _ACCURACY in real.values:  # the generator was asked for these classes
        class_rules += [
            _between(dataclasses.replace(_ACCURACY, against=REAL), values, low=config.class_accuracy_limit),
            _between(Quantity("worst_class_accuracy"), values, low=config.worst_class_accuracy_limit),
        ]
    largest, shifts = config.pixel_limit, [quantity for quantity in SHIFTS if quantity in real.values]
    return [
        *(_between(quantity, values, -largest, largest) for quantity in shifts),
        _between(Quantity("pixel_deviation_ratio"), values, 1 - largest, 1 + largest),
        *(_between(Quantity("fcd_corrected", space), values, high=config.distance_limit) for space in spaces),
        _between(Quantity("recall", first, REAL), values, low=config.recall_limit),
        _between(Quantity("coverage", first, REAL), values, low=config.coverage_limit),
        *(class_rules if _CLASS_DISTANCE in real.values else []),
        _between(Quantity("faulty_share"), values, high=config.faulty_share_limit),
        _between(Quantity("outlier_share"), values, high=config.outlier_share_limit),
        _between(Quantity("repeat_share"), values, high=config.repeat_share_limit),
        _between(Quantity("distinct_share"), values, low=config.distinct_share_limit),
        _between(Quantity("copy_share"), values, high=config.copy_share_limit),
        _between(Quantity("copy_nearness"), values, high=config.copy_nearness_limit),
    ]


def _against(champion: ScoredChampion, model: Scores, real: Scores) -> list[Rule]:
    """Return the rules against the champion: not worse in any space, not less diverse, better in at least one space."""
    first, *_ = spaces = list(real.blocks)
    rules, best = [], around(math.inf, 0.0)
    for space in spaces:
        quantity, floor_error = Quantity(EXCESS, space), real.values[Quantity("kcd_error", space)].value
        try:
            comparison = compare(model.blocks.get(space, ()), champion.blocks.get(space, ()), floor_error, len(spaces))
        except ValueError:
            rules.append(Rule(quantity, None, None, None, "comparable blocks", FAILED))
            continue
        best = min(best, comparison.excess, key=lambda one: one.high)
        rules.append(_rule(quantity, comparison.excess, f"at most {comparison.margin:.3g}", comparison.outcome))
    for score in ("recall", "coverage"):
        rules.append(_between(Quantity(score, first, CHAMPION), champion.differences, low=-_WORSE))
    if _CLASS_DISTANCE in real.values:
        rules.append(_between(Quantity("class_distance", None, CHAMPION), champion.differences, high=_WORSE))
    limit = f"below 0, to be better than the {champion.name}"
    return [*rules, _rule(Quantity(f"smallest {EXCESS}"), best, limit, PASSED if best.high < 0 else HELD)]


def _between(quantity: Quantity, values: Values, low: float = -math.inf, high: float = math.inf) -> Rule:
    """Return a rule: passed if the interval is within the limits, failed if it is outside or unknown, else held."""
    limit = f"from {low:g} to {high:g}"
    if math.inf in (high, -low):
        limit = f"at most {high:.4g}" if low == -math.inf else f"at least {low:.4g}"
    interval = values.get(quantity, MISSING)
    if math.isnan(interval.low) or math.isnan(interval.high) or not math.isfinite(interval.value):
        return Rule(quantity, None, None, None, limit, FAILED)
    is_within, is_outside = low <= interval.low and interval.high <= high, interval.high < low or interval.low > high
    return _rule(quantity, interval, limit, PASSED if is_within else FAILED if is_outside else HELD)


def _rule(quantity: Quantity, measured: Measured, limit: str, outcome: str) -> Rule:
    """Return a rule with None for a number that is not finite, which JSON does not have."""
    value, low, high = (number if math.isfinite(number) else None for number in dataclasses.astuple(measured))
    return Rule(quantity, value, low, high, limit, outcome)


def _reason(rule: Rule) -> str:
    if isinstance(rule.value, str):
        return f"the {rule.quantity.name} {rule.value}; expected {rule.limit}"
    name = f"{rule.label.name}: {rule.quantity.name}"
    if rule.value is None:
        return f"{name} is missing or not a number, expected {rule.limit}"
    if rule.value == rule.low == rule.high:
        return f"{name} is {rule.value:.4g}, expected {rule.limit}"
    ends = " to ".join("?" if end is None else f"{end:.4g}" for end in (rule.low, rule.high))
    undecided = ", undecided with these images" if rule.outcome == HELD else ""
    return f"{name} is {rule.value:.4g} ({ends}), expected {rule.limit}{undecided}"
