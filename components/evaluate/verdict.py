"""PROMOTE, HOLD or REJECT: a pure function of numbers and limits. Anything unknown means REJECT."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from components import records
from components.evaluate.comparison import compare
from components.evaluations import HOLD, PROMOTE, REJECT
from components.score_names import name_of

# How much less diverse than the champion a model may be, and how much further from the classes' shares.
_LESS_DIVERSE = 0.05
_LESS_BALANCED = 0.03
# Brightness and contrast of samples in multiples of those of real images: beyond, pixels are of another range.
_PIXEL_RANGE = (0.5, 2.0)
_NAMED = 5  # of the scores that are missing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model must keep to, whatever the champion is; how they were found: docs/calibration.md.

    Attributes:
        distance_ratio: Most Fréchet distance in any space, in multiples of real against real.
        recall, coverage: Least of each in the first space, in multiples of real against real.
        class_distance: Most total variation between classes, above that of real against real.
        class_ratio, class_coverage: Least share and coverage of the class that fares worst, in multiples of real
            against real.
        distinct_share: Least share of distinct images.
        copy_share: Most images as near to a training image as 1% of test images are.
        copy_z: Least z of the samples' nearness to training images against that of test images.
    """

    distance_ratio: float
    recall: float
    coverage: float
    class_distance: float
    class_ratio: float
    class_coverage: float
    distinct_share: float
    copy_share: float
    copy_z: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """What is known of a model.

    Attributes:
        scores: By name; None or absent is a failure of every rule that asks for it.
        blocks: Kernel distance of each block, by the name of the space.
    """

    scores: Mapping[str, float | None]
    blocks: Mapping[str, Sequence[float]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rival:
    """The champion that a model has to beat.

    Attributes:
        version: Its version in the registry; 0 when even that could not be read.
        checkpoint_digest: The checkpoint that it was made of.
        image: Shape of its images.
        standing: Its scores against the same test images in the same spaces; None if it could not be scored.
        problem: Why it could not be read or scored; empty if it could.
    """

    version: int = 0
    checkpoint_digest: str = ""
    image: records.ImageShape | None = None
    standing: Standing | None = None
    problem: str = ""


@dataclasses.dataclass(frozen=True)
class Rule:
    """One comparison: the quantity, its value, the limit with its sense, whether it held, and what failing it means."""

    rule: str
    value: float | str | None
    limit: str
    passed: bool
    otherwise: str = REJECT


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
    real: Mapping[str, float | None],
    spaces: Sequence[str],
    labelled: bool,
    checkpoint_digest: str,
    image: records.ImageShape,
) -> Verdict:
    """Judges a model.

    Args:
        model: Its scores, as of `scores.score`, with `bad_samples` (samples with a pixel that is not finite).
        limits: What it must keep to whatever the champion is; None, which rejects, if nobody has set any.
        rival: The champion, scored in the same run; None only if the registry surely has none.
        real: Scores of real images against real images.
        spaces: Names of the spaces, the one that matters most first.
        labelled: Whether the images have classes, so that there must be scores of classes.
        checkpoint_digest: The checkpoint under judgement.
        image: Shape of the images of the dataset.
    """
    rules = _integrity(model.scores)
    if limits is None:
        rules.append(Rule("limits", "are not set", "limits to keep to", False))
    else:
        rules += _within(limits, model.scores, real, spaces, labelled)
    if rival is not None:
        unable = _incomparable(rival, checkpoint_digest, image)
        floor_errors = {space: real.get(name_of("kcd_error", space, spaces)) for space in spaces}
        rules += [unable] if unable else _against(rival, model, floor_errors, labelled)
    failed = [rule for rule in rules if not rule.passed]
    told = {name for name, value in model.scores.items() if _finite(value) is None}  # by the rule on all scores
    reasons = [_reason(rule) for rule in failed if rule.value is not None or rule.rule not in told]
    if any(rule.otherwise == REJECT for rule in failed):
        return Verdict(REJECT, rules, reasons)
    if failed:
        return Verdict(HOLD, rules, reasons)
    better = f"better than the champion, version {rival.version}" if rival else "the first to be published"
    return Verdict(PROMOTE, rules, [f"within every limit and {better}"])


def _integrity(scores: Mapping[str, float | None]) -> list[Rule]:
    """Every number is there, and the samples are pictures at all."""
    missing = [name for name, value in scores.items() if _finite(value) is None]
    some = ", ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
    low, high = _PIXEL_RANGE
    return [
        _at_most("bad_samples", scores, 0),
        Rule(
            "scores", f"{some} are missing or not finite" if missing else "are finite", "finite, every one", not missing
        ),
        *(_between(name, scores, low, high) for name in ("pixel_mean_ratio", "pixel_deviation_ratio")),
    ]


def _within(
    limits: Limits,
    scores: Mapping[str, float | None],
    real: Mapping[str, float | None],
    spaces: Sequence[str],
    labelled: bool,
) -> list[Rule]:
    """The limits: on distances in every space, on collapse in the first, on classes if there are any, on copies."""
    rules = [_at_most(name_of("fcd_ratio", space, spaces), scores, limits.distance_ratio) for space in spaces]
    shares = [("recall", limits.recall), ("coverage", limits.coverage)]
    least = [(name_of(score, spaces[0], spaces), share) for score, share in shares]
    if labelled:
        most = _moved(real.get("class_distance"), limits.class_distance)
        rules.append(_at_most("class_distance", scores, most, f" ({limits.class_distance:g} above real images)"))
        least += [("class_ratio", limits.class_ratio), ("class_coverage", limits.class_coverage)]
    for name, share in least:
        reals = _finite(real.get(name))
        limit = None if reals is None else share * reals
        rules.append(_at_least(name, scores, limit, f" ({share:g} of that of real images)"))
    rules.append(_at_least("distinct_share", scores, limits.distinct_share))
    rules.append(_at_most("copy_share", scores, limits.copy_share))
    rules.append(_at_least("copy_z", scores, limits.copy_z))
    return rules


def _incomparable(rival: Rival, checkpoint_digest: str, image: records.ImageShape) -> Rule | None:
    """The rule that fails where there is nothing to compare; None where there is."""
    if rival.problem:
        return Rule("champion", f"cannot be read: {rival.problem}", "to be compared with", False)
    if rival.image != image:
        return Rule("champion", f"draws images of {rival.image}", f"images of {image}", False)
    if rival.checkpoint_digest == checkpoint_digest:
        return Rule("checkpoint", f"is already the champion, version {rival.version}", "a new one", False, HOLD)
    return None


def _against(rival: Rival, model: Standing, floor_errors: Mapping[str, float | None], labelled: bool) -> list[Rule]:
    """Not worse than the champion in any space, not less diverse, and better in at least one space.

    The value of an excess is the upper end of where it surely lies. What is surely worse is rejected, what may be held.
    """
    if rival.standing is None:
        return [Rule("champion", "has no score", "to be compared with", False)]
    theirs, rules, best, spaces = rival.standing, [], math.inf, list(floor_errors)
    for space, error in floor_errors.items():
        name = f"excess over the champion's kernel distance ({space})"
        try:
            found = compare(model.blocks.get(space, ()), theirs.blocks.get(space, ()), _known(error), len(floor_errors))
        except ValueError:
            rules.append(Rule(name, None, "comparable blocks", False))
            continue
        best = min(best, found.upper)
        otherwise = REJECT if found.worse else HOLD
        rules.append(Rule(name, found.upper, f"surely at most {found.margin:.3g}", found.not_worse, otherwise))
    for score in ("recall", "coverage"):
        name = name_of(score, spaces[0], spaces)
        least = _moved(theirs.scores.get(name), -_LESS_DIVERSE)
        rules.append(_at_least(name, model.scores, least, " by the champion's"))
    if labelled:
        most = _moved(theirs.scores.get("class_distance"), _LESS_BALANCED)
        rules.append(_at_most("class_distance", model.scores, most, " by the champion's"))
    limit = f"surely below 0, to be better than version {rival.version}"
    rules.append(Rule("smallest excess over the champion's kernel distance", _finite(best), limit, best < 0, HOLD))
    return rules


def _known(value: float | None) -> float:
    """The value; of none or of what is not finite NaN, which no comparison survives."""
    finite = _finite(value)
    return math.nan if finite is None else finite


def _moved(value: float | None, by: float) -> float | None:
    """A limit so much away from a value; None if that is missing."""
    finite = _finite(value)
    return None if finite is None else finite + by


def _at_most(name: str, scores: Mapping[str, float | None], limit: float | None, why: str = "") -> Rule:
    value = _finite(scores.get(name))
    held = value is not None and limit is not None and value <= limit
    return Rule(name, value, f"at most {_told(limit)}{why}", held)


def _at_least(name: str, scores: Mapping[str, float | None], limit: float | None, why: str = "") -> Rule:
    value = _finite(scores.get(name))
    held = value is not None and limit is not None and value >= limit
    return Rule(name, value, f"at least {_told(limit)}{why}", held)


def _told(limit: float | None) -> str:
    return "what is missing" if limit is None else f"{limit:.4g}"


def _between(name: str, scores: Mapping[str, float | None], low: float, high: float) -> Rule:
    value = _finite(scores.get(name))
    return Rule(name, value, f"from {low:g} to {high:g}", value is not None and low <= value <= high)


def _finite(value: float | None) -> float | None:
    """The value, or None for what is not a number: a NaN would fail every comparison, an infinity only some."""
    return value if value is not None and math.isfinite(value) else None


def _reason(rule: Rule) -> str:
    if isinstance(rule.value, str):
        return f"the {rule.rule} {rule.value}; expected {rule.limit}"
    if rule.value is None:
        return f"{rule.rule} is missing or not a number, expected {rule.limit}"
    return f"{rule.rule} is {rule.value:.4g}, expected {rule.limit}"
