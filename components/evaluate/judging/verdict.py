"""PROMOTE, HOLD or REJECT: a pure function of numbers and limits. Anything unknown means REJECT.

Every limit is judged with the confidence interval of what it limits: a rule passes if the whole interval is within the
limit, fails if the whole interval is beyond it, and is held if the limit lies inside (`intervals`).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from components.core.artifacts import datasets
from components.core.artifacts.evaluations import FAILED, HELD, PASSED, PROMOTE, follows
from components.core.reporting.metric_labels import name_of
from components.evaluate.judging.comparison import compare
from components.evaluate.judging.intervals import Measured, exact

# How much less recall and coverage than the champion a model may have, and how much more total variation between
# classes: about twice what 2,000 test images can tell apart.
_LESS_DIVERSE = 0.1
_LESS_BALANCED = 0.1
# Brightness and contrast of samples in multiples of those of real images: beyond, pixels are of another range.
_PIXEL_RANGE = (0.5, 2.0)
_NAMED = 5  # of the scores that are missing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model must keep to, whatever the champion is. docs/calibration.md says how they were chosen.

    Attributes:
        distance: Most Fréchet distance per direction in any space, corrected for the number of images.
        recall, coverage: Least of each in the first space, in multiples of real against real.
        class_distance: Most total variation between classes.
        class_ratio: Least share of the class that is rarest against its real share.
        class_coverage: Least coverage of the class that is covered worst, against that of all.
        distinct_share: Least share of distinct images.
        copy_share: Most images as near to a training image as 1% of test images are.
        copy_nearness: Most chance that a sample is nearer to the training images than a test image is.
    """

    distance: float
    recall: float
    coverage: float
    class_distance: float
    class_ratio: float
    class_coverage: float
    distinct_share: float
    copy_share: float
    copy_nearness: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """What is known of a model.

    Attributes:
        scores: By name; None is a failure.
        measured: What limits are on, with its interval, by the name of the rule; absent fails the rule.
        blocks: Kernel distance of each block, by the name of the space.
    """

    scores: Mapping[str, float | None]
    measured: Mapping[str, Measured]
    blocks: Mapping[str, Sequence[float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rival:
    """The champion that a model has to beat.

    Attributes:
        version: Its version in the registry; 0 when even that could not be read.
        checkpoint_digest: The checkpoint that it was made of.
        image: Shape of its images.
        blocks: Its kernel distances as of `Standing`, from the same test images; None if it could not be scored.
        differences: By how much the model exceeds it in recall, coverage and class distance, by the score's name.
        problem: Why it could not be read or scored; empty if it could.
    """

    version: int = 0
    checkpoint_digest: str = ""
    image: datasets.ImageShape | None = None
    blocks: Mapping[str, Sequence[float]] | None = None
    differences: Mapping[str, Measured] = dataclasses.field(default_factory=dict)
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One comparison.

    Attributes:
        rule: The quantity.
        value: Its value; None if it is missing or not finite.
        low, high: Ends of its confidence interval; None if infinite, unknown, or no number.
        limit: The limit with its sense, in words.
        outcome: `passed`, `held` or `failed`.
    """

    rule: str
    value: float | str | None
    low: float | None
    high: float | None
    limit: str
    outcome: str


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome, every rule that was applied, and a sentence for each reason."""

    verdict: str
    rules: list[Rule]
    reasons: list[str]


def judge(
    model: Standing,
    limits: Limits | None,
    rival: Rival | None,
    *,
    floor_errors: Mapping[str, float | None],
    labelled: bool,
    checkpoint_digest: str,
    image: datasets.ImageShape,
    uncertified: str = "",
    hold_uncertified: bool = True,
    remarks: Sequence[str] = (),
) -> Verdict:
    """Judges a model.

    Args:
        model: Its scores, with `bad_samples` (samples with a pixel that is not finite).
        limits: What it must keep to whatever the champion is; None, which rejects, if nobody has set any.
        rival: The champion, scored in the same run; None only if the registry surely has none.
        floor_errors: Standard error of the kernel distance of real images in each space, the one that matters most
            first.
        labelled: Whether the images have classes, so that there must be scores of classes.
        checkpoint_digest: The checkpoint under judgement.
        image: Shape of the images of the dataset.
        uncertified: Why the spaces have no certificate; empty if they have.
        hold_uncertified: Whether that alone holds the model.
        remarks: Sentences to add to the reasons.
    """
    rules = _integrity(model)
    if limits is None:
        rules.append(_fact("limits", "are not set", "limits to keep to"))
    else:
        rules += _within(limits, model.measured, list(floor_errors), labelled)
    if uncertified:
        expected = "a certified feature space, unless uncertified is judge"
        outcome = HELD if hold_uncertified else PASSED
        rules.append(_fact("feature space", f"is uncertified: {uncertified}", expected, outcome))
    if rival is not None:
        unable = _incomparable(rival, checkpoint_digest, image)
        rules += [unable] if unable else _against(rival, model, floor_errors, labelled)
    verdict = follows([rule.outcome for rule in rules])
    told = {name for name, value in model.scores.items() if _finite(value) is None}  # by the rule on all scores
    broken = [rule for rule in rules if rule.outcome != PASSED and (rule.value is not None or rule.rule not in told)]
    better = f"better than the champion, version {rival.version}" if rival else "the first to be published"
    reasons = [f"significantly within every limit and {better}"] if verdict == PROMOTE else []
    reasons += [f"uncertified: {uncertified}"] if uncertified else []
    reasons += [_reason(rule) for rule in broken if rule.rule != "feature space"]
    return Verdict(verdict, rules, [*reasons, *remarks])


def _integrity(model: Standing) -> list[Rule]:
    """Every number is there, and the samples are pictures at all."""
    missing = [name for name, value in model.scores.items() if _finite(value) is None]
    some = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
    value = f"{some} are missing or not finite" if missing else "are finite"
    bad = _finite(model.scores.get("bad_samples"))
    return [
        _at_most("bad_samples", None if bad is None else exact(bad), 0),
        _fact("scores", value, "finite, every one", FAILED if missing else PASSED),
        *(
            _between(name, model.measured.get(name), *_PIXEL_RANGE)
            for name in ("pixel_mean_ratio", "pixel_deviation_ratio")
        ),
    ]


def _within(limits: Limits, measured: Mapping[str, Measured], spaces: Sequence[str], labelled: bool) -> list[Rule]:
    """The limits: on distances in every space, on collapse in the first, on classes if there are any, on copies."""
    distances = [name_of("fcd_corrected", space, spaces) for space in spaces]
    rules = [_at_most(name, measured.get(name), limits.distance) for name in distances]
    for score, least in (("recall", limits.recall), ("coverage", limits.coverage)):
        name = f"{name_of(score, spaces[0], spaces)} against real images"
        rules.append(_at_least(name, measured.get(name), least))
    if labelled:
        rules.append(_at_most("class_distance", measured.get("class_distance"), limits.class_distance))
        rules.append(_at_least("class_ratio", measured.get("class_ratio"), limits.class_ratio))
        rules.append(_at_least("class_coverage", measured.get("class_coverage"), limits.class_coverage))
    rules.append(_at_least("distinct_share", measured.get("distinct_share"), limits.distinct_share))
    rules.append(_at_most("copy_share", measured.get("copy_share"), limits.copy_share))
    rules.append(_at_most("copy_nearness", measured.get("copy_nearness"), limits.copy_nearness))
    return rules


def _incomparable(rival: Rival, checkpoint_digest: str, image: datasets.ImageShape) -> Rule | None:
    """The rule that fails where there is nothing to compare; None where there is."""
    if rival.problem:
        return _fact("champion", f"cannot be read: {rival.problem}", "to be compared with")
    if rival.image != image:
        return _fact("champion", f"draws images of {rival.image}", f"images of {image}")
    if rival.checkpoint_digest == checkpoint_digest:
        return _fact("checkpoint", f"is already the champion, version {rival.version}", "a new one", HELD)
    return None


def _against(rival: Rival, model: Standing, floor_errors: Mapping[str, float | None], labelled: bool) -> list[Rule]:
    """Not worse than the champion in any space, not less diverse, and better in at least one space."""
    if rival.blocks is None:
        return [_fact("champion", "has no score", "to be compared with")]
    rules, best, spaces = [], exact(math.inf), list(floor_errors)
    for space, error in floor_errors.items():
        name = f"excess over the champion's kernel distance ({space})"
        try:
            found = compare(model.blocks.get(space, ()), rival.blocks.get(space, ()), _known(error), len(floor_errors))
        except ValueError:
            rules.append(Rule(name, None, None, None, "comparable blocks", FAILED))
            continue
        excess = Measured(found.mean, found.lower, found.upper)
        best = min(best, excess, key=lambda one: one.high)
        outcome = PASSED if found.not_worse else FAILED if found.worse else HELD
        rules.append(_rule(name, excess, f"at most {found.margin:.3g}", outcome))
    for score in ("recall", "coverage"):
        name = name_of(score, spaces[0], spaces)
        rules.append(_at_least(f"{name} less the champion's", rival.differences.get(name), -_LESS_DIVERSE))
    if labelled:
        difference = rival.differences.get("class_distance")
        rules.append(_at_most("class_distance less the champion's", difference, _LESS_BALANCED))
    outcome = PASSED if best.high < 0 else HELD
    limit = f"below 0, to be better than version {rival.version}"
    rules.append(_rule("smallest excess over the champion's kernel distance", best, limit, outcome))
    return rules


def _known(value: float | None) -> float:
    """The value; of none or of what is not finite NaN, which no comparison survives."""
    finite = _finite(value)
    return math.nan if finite is None else finite


def _fact(rule: str, value: str, limit: str, outcome: str = FAILED) -> Rule:
    return Rule(rule, value, None, None, limit, outcome)


def _at_most(name: str, measured: Measured | None, limit: float) -> Rule:
    return _between(name, measured, -math.inf, limit, f"at most {limit:.4g}")


def _at_least(name: str, measured: Measured | None, limit: float) -> Rule:
    return _between(name, measured, limit, math.inf, f"at least {limit:.4g}")


def _between(name: str, measured: Measured | None, low: float, high: float, words: str = "") -> Rule:
    """Passed if the interval lies within the limits, failed if it lies outside or is unknown, else held."""
    limit = words or f"from {low:g} to {high:g}"
    if measured is None or not measured.finite:
        return Rule(name, None, None, None, limit, FAILED)
    outcome = HELD
    if low <= measured.low and measured.high <= high:
        outcome = PASSED
    elif measured.high < low or measured.low > high:
        outcome = FAILED
    return _rule(name, measured, limit, outcome)


def _rule(name: str, measured: Measured, limit: str, outcome: str) -> Rule:
    return Rule(name, _finite(measured.value), _finite(measured.low), _finite(measured.high), limit, outcome)


def _finite(value: float | None) -> float | None:
    """The value, or None for what is not a number: a NaN would fail every comparison, an infinity only some."""
    return value if value is not None and math.isfinite(value) else None


def _reason(rule: Rule) -> str:
    if isinstance(rule.value, str):
        return f"the {rule.rule} {rule.value}; expected {rule.limit}"
    if rule.value is None:
        return f"{rule.rule} is missing or not a number, expected {rule.limit}"
    if rule.value == rule.low == rule.high:
        return f"{rule.rule} is {rule.value:.4g}, expected {rule.limit}"
    ends = " to ".join("?" if end is None else f"{end:.4g}" for end in (rule.low, rule.high))
    undecided = ", undecided with these images" if rule.outcome == HELD else ""
    return f"{rule.rule} is {rule.value:.4g} ({ends}), expected {rule.limit}{undecided}"
