"""PROMOTE, HOLD or REJECT: a pure function of numbers and limits. Anything unknown means REJECT."""

import dataclasses
import math
from collections.abc import Mapping

from components import records
from components.evaluations import HOLD, PROMOTE, REJECT


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model must keep to, whatever the champion is.

    Attributes:
        distance_ratio: Most Fréchet classifier distance, in multiples of real against real.
        class_distance: Most total variation between classes; None where the images have no classes.
        class_ratio: Least share of the rarest class against its real share; None likewise.
    """

    distance_ratio: float
    class_distance: float | None
    class_ratio: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rival:
    """The champion that a model has to beat.

    Attributes:
        version: Its version in the registry; 0 when even that could not be read.
        checkpoint_digest: The checkpoint that it was made of.
        image: Shape of its images.
        fcd: Its distance to the same test images in the same space; None if it could not be scored.
        problem: Why it could not be read or scored; empty if it could.
    """

    version: int = 0
    checkpoint_digest: str = ""
    image: records.ImageShape | None = None
    fcd: float | None = None
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
    scores: Mapping[str, float | None],
    limits: Limits,
    rival: Rival | None,
    *,
    checkpoint_digest: str,
    image: records.ImageShape,
) -> Verdict:
    """Judges a model.

    Args:
        scores: `bad_samples` (samples with a pixel that is not finite), `fcd`, `fcd_ratio` (to real against real),
            and for images with classes `class_distance` and `class_ratio`. None or absent is a failure.
        limits: The absolute limits.
        rival: The champion, scored in the same run; None only if the registry surely has none.
        checkpoint_digest: The checkpoint under judgement.
        image: Shape of the images of the dataset.
    """
    rules = [_at_most("bad_samples", scores, 0), _at_most("fcd_ratio", scores, limits.distance_ratio)]
    if limits.class_distance is not None:
        rules.append(_at_most("class_distance", scores, limits.class_distance))
    if limits.class_ratio is not None:
        rules.append(_at_least("class_ratio", scores, limits.class_ratio))
    if rival is not None:
        rules += _against(rival, scores, checkpoint_digest, image)
    failed = [rule for rule in rules if not rule.passed]
    reasons = [_reason(rule) for rule in failed]
    if any(rule.otherwise == REJECT for rule in failed):
        return Verdict(REJECT, rules, reasons)
    if failed:
        return Verdict(HOLD, rules, reasons)
    better = f"better than the champion, version {rival.version}" if rival else "the first to be published"
    return Verdict(PROMOTE, rules, [f"within every limit and {better}"])


def _against(
    rival: Rival, scores: Mapping[str, float | None], checkpoint_digest: str, image: records.ImageShape
) -> list[Rule]:
    if rival.problem:
        return [Rule("champion", f"cannot be read: {rival.problem}", "to be compared with", False)]
    if rival.image != image:
        return [Rule("champion", f"draws images of {rival.image}", f"images of {image}", False)]
    if rival.checkpoint_digest == checkpoint_digest:
        return [Rule("checkpoint", f"is already the champion, version {rival.version}", "a new one", False, HOLD)]
    champion_fcd, value = _finite(rival.fcd), _finite(scores.get("fcd"))
    if champion_fcd is None:
        return [Rule("champion", "has no score", "to be compared with", False)]
    limit = f"below {champion_fcd:.4g}, the score of the champion, version {rival.version}"
    return [Rule("fcd", value, limit, value is not None and value < champion_fcd, REJECT if value is None else HOLD)]


def _at_most(name: str, scores: Mapping[str, float | None], limit: float) -> Rule:
    value = _finite(scores.get(name))
    return Rule(name, value, f"at most {limit:g}", value is not None and value <= limit)


def _at_least(name: str, scores: Mapping[str, float | None], limit: float) -> Rule:
    value = _finite(scores.get(name))
    return Rule(name, value, f"at least {limit:g}", value is not None and value >= limit)


def _finite(value: float | None) -> float | None:
    """The value, or None for what is not a number: a NaN would fail every comparison, an infinity only some."""
    return value if value is not None and math.isfinite(value) else None


def _reason(rule: Rule) -> str:
    if isinstance(rule.value, str):
        return f"the {rule.rule} {rule.value}; expected {rule.limit}"
    if rule.value is None:
        return f"{rule.rule} is missing or not a number, expected {rule.limit}"
    return f"{rule.rule} is {rule.value:.4g}, expected {rule.limit}"
