"""Brings the schedules of a place to what a file says: the same for Kubeflow and for Vertex.

Whatever happens at whatever request, no name has two schedules that start runs, no run at work is ended, and applying
again goes on from there. So what a schedule is replaced by is made, paused, after the old one was paused, and only then
starts runs: it was made later than whatever the old one has started, and nothing is started twice for one time. What
was replaced is deleted last, once none of its runs is at work; until then it stays, paused.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from components import digests
from components.errors import ConfigError, StageError
from pipeline.cluster.schedules import LiveSchedule, Schedule, Schedules

CREATE, REPLACE, PAUSE, RESUME, UNCHANGED, DELETE = "create", "replace", "pause", "resume", "unchanged", "delete"
_DONE = {CREATE: "created", REPLACE: "replaced", PAUSE: "paused", RESUME: "resumed"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that a file says otherwise than its place; None where a side says nothing of it."""

    name: str
    live: Any
    wanted: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """What is to be done for one name.

    Attributes:
        name: The schedules' name.
        action: One of the words above; `delete` where the file has no such schedule.
        wanted: The schedule of the file.
        kept: What the place has of it already, and keeps.
        superseded: What the place has under that name besides, which is to go.
        differences: What is replaced by what.
    """

    name: str
    action: str
    wanted: Schedule | None = None
    kept: LiveSchedule | None = None
    superseded: tuple[LiveSchedule, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return self.action != UNCHANGED or bool(self.superseded)


def digest(schedule: Schedule) -> str:
    """Digest of all that a target is told of a schedule; what it makes carries it."""
    return digests.digest_of(schedule.content())


def same(live: LiveSchedule, schedule: Schedule) -> bool:
    """Whether a place has just this schedule."""
    return live.digest == digest(schedule)


def plan(wanted: Sequence[Schedule], live: Sequence[LiveSchedule]) -> list[Change]:
    """What would bring a place to what a file says: in the file's order, then what the file no longer has."""
    changes = [_change(schedule, [each for each in live if each.name == schedule.name]) for schedule in wanted]
    names = {schedule.name for schedule in wanted}
    for name in dict.fromkeys(each.name for each in live if each.name not in names):
        superseded = tuple(each for each in live if each.name == name)
        changes.append(Change(name=name, action=DELETE, superseded=superseded))
    return changes


def _change(schedule: Schedule, live: list[LiveSchedule]) -> Change:
    alike = [each for each in live if same(each, schedule)]
    kept = next((each for each in alike if each.enabled), None)
    if kept is None and alike and (len(live) == 1 or not schedule.enabled):
        # With others of its name, a paused one is made anew: a target may start at once what it missed, and they have
        # started that.
        kept = alike[0]
    if kept:
        action = UNCHANGED
        if kept.enabled != schedule.enabled:
            action = RESUME if schedule.enabled else PAUSE
        superseded = tuple(each for each in live if each is not kept)
        return Change(name=schedule.name, action=action, wanted=schedule, kept=kept, superseded=superseded)
    before = max(live, key=lambda each: each.enabled, default=None)
    return Change(
        name=schedule.name,
        action=REPLACE if before else CREATE,
        wanted=schedule,
        superseded=tuple(live),
        differences=tuple(_differences(before.content, schedule.content())) if before else (),
    )


def _differences(live: dict[str, Any], wanted: dict[str, Any]) -> Iterator[Difference]:
    """What differs, parameter by parameter."""
    one, other = flat(live), flat(wanted)
    for name in dict.fromkeys([*other, *one]):
        if name not in one or name not in other or not _alike(one[name], other[name]):
            yield Difference(name=name, live=one.get(name), wanted=other.get(name))


def flat(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a schedule with each parameter as a name of its own, `parameters.NAME`."""
    found = {name: value for name, value in content.items() if name != "parameters"}
    return found | {f"parameters.{name}": value for name, value in content.get("parameters", {}).items()}


def _alike(one: Any, other: Any) -> bool:
    """Whether two JSON values are one to a target, which has a single type for numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return float(one) == float(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return bool(one == other)


def require_expressible(place: Schedules, wanted: Sequence[Schedule]) -> None:
    """Refuses what a place cannot express, before anything is sent.

    Raises:
        ConfigError: With every mistake.
    """
    problems: list[str] = []
    for schedule in wanted:
        try:
            place.require_expressible(schedule)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)


def apply(place: Schedules, wanted: Sequence[Schedule], prune: bool, tell: Callable[[str], None]) -> list[LiveSchedule]:
    """Brings a place to what a file says.

    Args:
        place: Where the schedules are.
        wanted: Those of the file for this place.
        prune: Whether to delete what the file no longer has.
        tell: Is told what is done, a line each.

    Returns:
        What is paused and waits for its runs to end; applying later deletes it.

    Raises:
        StageError: What the place answered. Applying again goes on from there.
    """
    require_expressible(place, wanted)
    going: list[LiveSchedule] = []
    for change in plan(wanted, place.live()):
        if change.action == DELETE and not prune:
            continue
        _carry_out(place, change, tell)
        going += change.superseded
    return remove(place, going, tell)


def _carry_out(place: Schedules, change: Change, tell: Callable[[str], None]) -> None:
    """Pauses what is to go, and sees to it that what is wanted is there, and is enabled or not."""
    paused = [each for each in change.superseded if each.enabled]
    for each in paused:
        place.pause(each.schedule_id)
    if change.wanted is None:
        return
    kept = change.kept
    if kept is None:
        try:
            kept = place.create(change.wanted)
        except StageError:
            # Nothing that starts runs has taken its place: what was there goes on.
            with contextlib.suppress(StageError):
                for each in paused[:1]:
                    place.resume(each.schedule_id)
            raise
    if change.wanted.enabled and not kept.enabled:
        place.resume(kept.schedule_id)
    elif kept.enabled and not change.wanted.enabled:
        place.pause(kept.schedule_id)
    if change.action != UNCHANGED:
        paused_too = "" if change.wanted.enabled or change.action == PAUSE else ", paused"
        tell(f"{change.name}: {_DONE[change.action]}{paused_too}")


def remove(place: Schedules, going: Sequence[LiveSchedule], tell: Callable[[str], None]) -> list[LiveSchedule]:
    """Deletes schedules that are paused, but for those with a run at work, which it returns.

    Args:
        place: Where they are.
        going: Those to delete.
        tell: Is told what is done, a line each.

    Raises:
        StageError: What the place answered.
    """
    if not going:
        return []
    ids = {each.schedule_id for each in going}
    waiting = []
    # They may have started runs until they were paused: what they have at work is seen only from then on.
    for each in place.live():
        if each.schedule_id not in ids:
            continue
        if each.enabled:
            waiting.append(each)
            tell(f"{each.name}: {each.schedule_id} stays: somebody has resumed it meanwhile")
        elif each.active_runs:
            waiting.append(each)
            tell(f"{each.name}: {each.schedule_id} stays, paused, until {_runs(each)}")
        else:
            place.delete(each.schedule_id)
            tell(f"{each.name}: {each.schedule_id} deleted")
    return waiting


def _runs(live: LiveSchedule) -> str:
    """What a schedule waits for, as the end of a sentence."""
    one = len(live.active_runs) == 1
    return f"{'run' if one else 'runs'} {', '.join(live.active_runs)} {'has' if one else 'have'} ended"
