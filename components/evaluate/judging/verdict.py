"""PROMOTE, HOLD or REJECT: a pure function of numbers and limits. Anything unknown means REJECT.

Each rule judges the confidence interval of a quantity: it passes if the whole interval is within the limit, fails if
the whole interval is beyond it, and is held if the limit lies inside (`intervals`).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from components.core.artifacts import datasets
from components.core.artifacts.evaluations import FAILED, HELD, PASSED, PROMOTE, follows
from components.core.metrics import neighbors
from components.core.reporting.metric_labels import name_of
from components.evaluate.config import JUDGE, EvaluateConfig
from components.evaluate.judging import rule_labels
from components.evaluate.judging.champion import Champion
from components.evaluate.judging.comparison import compare
from components.evaluate.judging.intervals import Measured, around

# Largest loss of recall and coverage against the champion, and largest gain in total variation between classes: about
# twice what 2,000 test images can resolve.
_LESS_DIVERSE = 0.1
_LESS_BALANCED = 0.1
# Brightness and contrast of samples over those of real images: beyond, pixels have another range.
_PIXEL_RANGE = (0.5, 2.0)
_NAMED = 5  # of the scores that are missing


@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a set of images against the test images; all are None if a number is not finite."""

    values: dict[str, float | None]  # by name; None if it could not be computed
    measured: dict[str, Measured] = dataclasses.field(default_factory=dict)  # by the name of the rule
    blocks: Mapping[str, Sequence[float]] = dataclasses.field(default_factory=dict)  # kernel distances, by space
    overlap: neighbors.Overlap | None = None  # with the test images, in the first space
    shares: np.ndarray | None = None  # of each group of images, [groups]
    count: int = 0  # images behind the shares
    # Up to 16 samples that are closest to a training image, and these images: indices, int64 [n].
    copies: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    originals: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))


@dataclasses.dataclass(frozen=True)
class Rule:
    """One comparison."""

    rule: str  # the quantity
    value: float | str | None  # None if missing or not finite
    low: float | None  # ends of its confidence interval; None if infinite or unknown
    high: float | None
    limit: str  # in words: `at most 0.1`
    outcome: str  # `passed`, `held` or `failed`


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome, every rule that was applied, and a sentence for each reason."""

    verdict: str
    rules: list[Rule]
    reasons: list[str]


def judge(
    model: Scores,
    config: EvaluateConfig,
    champion: Champion | None,
    *,
    floor_errors: Mapping[str, float | None],
    labeled: bool,
    checkpoint_digest: str,
    image: datasets.ImageShape,
    uncertified: str = "",
    remarks: Sequence[str] = (),
) -> Verdict:
    """Judge the scores of a model, `bad_samples` among them.

    Args:
        champion: Scored in the same run; None only if the registry certainly has none.
        floor_errors: Standard error of the kernel distance of real images in each space, the most important first.
        labeled: Whether the images have classes, so that there must be scores of classes.
        uncertified: Why the spaces have no certificate; empty if they have.
        remarks: Sentences to add to the reasons.
    """
    rules = _integrity(model)
    if config.distance_limit:
        rules += _within(config, model.measured, list(floor_errors), labeled)
    else:
        rules.append(_fact("limits", "are not set", "limits to judge by"))
    if uncertified:
        expected = "a certified feature space, unless uncertified is judge"
        outcome = PASSED if config.uncertified == JUDGE else HELD
        rules.append(_fact("feature space", f"is uncertified: {uncertified}", expected, outcome))
    if champion is not None:
        unable = incomparable(champion, checkpoint_digest, image)
        rules += [unable] if unable else _against(champion, model, floor_errors, labeled)
    verdict = follows([rule.outcome for rule in rules])
    missing = _missing(model)  # the rule on all scores names them already
    broken = [rule for rule in rules if rule.outcome != PASSED and (rule.value is not None or rule.rule not in missing)]
    better = f"better than the champion, version {champion.version}" if champion else "the first to be published"
    reasons = [f"significantly within every limit and {better}"] if verdict == PROMOTE else []
    reasons += [f"uncertified: {uncertified}"] if uncertified else []
    reasons += [_reason(rule) for rule in broken if rule.rule != "feature space"]
    return Verdict(verdict, rules, [*reasons, *remarks])


def incomparable(champion: Champion, checkpoint_digest: str, image: datasets.ImageShape) -> Rule | None:
    """Return the rule on a champion that cannot be compared with; None if it can."""
    if champion.problem:
        return _fact("champion", f"cannot be read: {champion.problem}", "a readable one")
    if champion.image != image:
        return _fact("champion", f"draws images of {champion.image}", f"images of {image}")
    if champion.checkpoint_digest == checkpoint_digest:
        return _fact("checkpoint", f"is already the champion, version {champion.version}", "a new one", HELD)
    return None


def _missing(model: Scores) -> list[str]:
    return [name for name, value in model.values.items() if _finite(value) is None]


def _integrity(model: Scores) -> list[Rule]:
    """Return rules that require every score to be a number, and the samples to be pictures."""
    missing = _missing(model)
    shown = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
    value = f"{shown} are missing or not finite" if missing else "are finite"
    bad = _finite(model.values.get("bad_samples"))
    return [
        _at_most("bad_samples", {} if bad is None else {"bad_samples": around(bad, 0.0)}, 0),
        _fact("scores", value, "all finite", FAILED if missing else PASSED),
        _between("pixel_mean_ratio", model.measured, *_PIXEL_RANGE),
        _between("pixel_deviation_ratio", model.measured, *_PIXEL_RANGE),
    ]


def _within(config: EvaluateConfig, measured: Mapping[str, Measured], spaces: list[str], labeled: bool) -> list[Rule]:
    """Return the rules with limits: on distances in every space, on collapse in the first, on classes, on copies."""
    recall, coverage = (f"{name_of(score, spaces[0], spaces)} against real images" for score in ("recall", "coverage"))
    class_rules = [
        _at_most("class_distance", measured, config.class_distance_limit),
        _at_least("class_ratio", measured, config.class_ratio_limit),
        _at_least("class_coverage", measured, config.class_coverage_limit),
    ]
    return [
        *(_at_most(name_of("fcd_corrected", space, spaces), measured, config.distance_limit) for space in spaces),
        _at_least(recall, measured, config.recall_limit),
        _at_least(coverage, measured, config.coverage_limit),
        *(class_rules if labeled else []),
        _at_least("distinct_share", measured, config.distinct_share_limit),
        _at_most("copy_share", measured, config.copy_share_limit),
        _at_most("copy_nearness", measured, config.copy_nearness_limit),
    ]


def _against(champion: Champion, model: Scores, floor_errors: Mapping[str, float | None], labeled: bool) -> list[Rule]:
    """Return the rules against the champion: not worse in any space, not less diverse, better in at least one space."""
    if champion.blocks is None:
        return [_fact("champion", "has no score", "one to compare with")]
    rules, best, spaces = [], around(math.inf, 0.0), list(floor_errors)
    for space, error in floor_errors.items():
        name = f"excess over the champion's kernel distance ({space})"
        floor_error = math.nan if error is None else error
        try:
            comparison = compare(model.blocks.get(space, ()), champion.blocks.get(space, ()), floor_error, len(spaces))
        except ValueError:
            rules.append(Rule(name, None, None, None, "comparable blocks", FAILED))
            continue
        best = min(best, comparison.excess, key=lambda one: one.high)
        rules.append(_rule(name, comparison.excess, f"at most {comparison.margin:.3g}", comparison.outcome))
    differences = {f"{score} less the champion's": difference for score, difference in champion.differences.items()}
    for score in ("recall", "coverage"):
        rules.append(_at_least(f"{name_of(score, spaces[0], spaces)} less the champion's", differences, -_LESS_DIVERSE))
    if labeled:
        rules.append(_at_most("class_distance less the champion's", differences, _LESS_BALANCED))
    outcome = PASSED if best.high < 0 else HELD
    limit = f"below 0, to be better than version {champion.version}"
    rules.append(_rule("smallest excess over the champion's kernel distance", best, limit, outcome))
    return rules


def _fact(rule: str, value: str, limit: str, outcome: str = FAILED) -> Rule:
    return Rule(rule, value, None, None, limit, outcome)


def _at_most(name: str, measured: Mapping[str, Measured], limit: float) -> Rule:
    return _between(name, measured, -math.inf, limit, f"at most {limit:.4g}")


def _at_least(name: str, measured: Mapping[str, Measured], limit: float) -> Rule:
    return _between(name, measured, limit, math.inf, f"at least {limit:.4g}")


def _between(name: str, measured: Mapping[str, Measured], low: float, high: float, words: str = "") -> Rule:
    """Return a rule: passed if the interval is within the limits, failed if it is outside or unknown, else held."""
    limit, interval = words or f"from {low:g} to {high:g}", measured.get(name)
    if interval is None or not interval.finite:
        return Rule(name, None, None, None, limit, FAILED)
    outcome = HELD
    if low <= interval.low and interval.high <= high:
        outcome = PASSED
    elif interval.high < low or interval.low > high:
        outcome = FAILED
    return _rule(name, interval, limit, outcome)


def _rule(name: str, measured: Measured, limit: str, outcome: str) -> Rule:
    return Rule(name, _finite(measured.value), _finite(measured.low), _finite(measured.high), limit, outcome)


def _finite(value: float | None) -> float | None:
    """Return the value, or None if it is not finite: a NaN would fail every comparison, an infinity only some."""
    return value if value is not None and math.isfinite(value) else None


def _reason(rule: Rule) -> str:
    if isinstance(rule.value, str):
        return f"the {rule.rule} {rule.value}; expected {rule.limit}"
    name = f"{rule_labels.describe(rule.rule).name}: {rule.rule}"
    if rule.value is None:
        return f"{name} is missing or not a number, expected {rule.limit}"
    if rule.value == rule.low == rule.high:
        return f"{name} is {rule.value:.4g}, expected {rule.limit}"
    ends = " to ".join("?" if end is None else f"{end:.4g}" for end in (rule.low, rule.high))
    undecided = ", undecided with these images" if rule.outcome == HELD else ""
    return f"{name} is {rule.value:.4g} ({ends}), expected {rule.limit}{undecided}"
