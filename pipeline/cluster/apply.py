"""Brings the schedules of a place to what a file says, for every backend.

It may be stopped at any request. No two schedules of one name ever start runs, no active run is ended, and applying
again goes on from there. So a replacement is made paused, after the old schedule was paused, and only then starts runs:
it is younger than every run of the old one, and nothing is started twice for one time. The old schedule is deleted
last, once none of its runs is active; until then it stays, paused.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence

from components.core.errors import ConfigError, StageError
from pipeline.cluster.backend import LiveSchedule, Schedule, Schedules

CREATE, REPLACE, PAUSE, RESUME, UNCHANGED, DELETE = "create", "replace", "pause", "resume", "unchanged", "delete"
_DONE = {CREATE: "created", REPLACE: "replaced", PAUSE: "paused", RESUME: "resumed"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """What is to be done for one name of a schedule."""

    name: str
    action: str  # one of the words above; DELETE where the file has no such schedule
    wanted: Schedule | None = None  # what the file says
    kept: LiveSchedule | None = None  # what the place has of it already, and keeps
    superseded: tuple[LiveSchedule, ...] = ()  # what the place has under that name besides, which is to go

    @property
    def needed(self) -> bool:
        """Whether there is anything to do."""
        return self.action != UNCHANGED or bool(self.superseded)


def plan(wanted: Sequence[Schedule], live: Sequence[LiveSchedule]) -> list[Change]:
    """Return the changes that bring a place to what a file says: in the file's order, then what it no longer has."""
    changes = [_change(schedule, [each for each in live if each.name == schedule.name]) for schedule in wanted]
    names = {schedule.name for schedule in wanted}
    for name in dict.fromkeys(each.name for each in live if each.name not in names):
        superseded = tuple(each for each in live if each.name == name)
        changes.append(Change(name=name, action=DELETE, superseded=superseded))
    return changes


def _change(schedule: Schedule, live: list[LiveSchedule]) -> Change:
    alike = [each for each in live if each.digest == schedule.digest()]
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
    return Change(name=schedule.name, action=REPLACE if live else CREATE, wanted=schedule, superseded=tuple(live))


def require_expressible(wanted: Iterable[tuple[Schedules, Sequence[Schedule]]]) -> None:
    """Refuse what places cannot express, before anything is sent to any of them.

    Raises:
        ConfigError: With every mistake.
    """
    problems: list[str] = []
    for place, schedules in wanted:
        for schedule in schedules:
            try:
                place.require_expressible(schedule)
            except ConfigError as error:
                problems += error.problems
    if problems:
        raise ConfigError(*problems)


def apply(place: Schedules, wanted: Sequence[Schedule], prune: bool, show: Callable[[str], None]) -> list[LiveSchedule]:
    """Bring a place to what a file says.

    Args:
        place: Where the schedules are.
        wanted: Those of the file for this place.
        prune: Whether to delete what the file no longer has.
        show: Is called with a line for each thing done.

    Returns:
        What is paused and waits for its runs to end; applying later deletes it.

    Raises:
        StageError: A refusal of the place. Applying again goes on from there.
    """
    require_expressible([(place, wanted)])
    going: list[LiveSchedule] = []
    for change in plan(wanted, place.live()):
        if change.action == DELETE and not prune:
            continue
        _carry_out(place, change, show)
        going += change.superseded
    return _remove(place, going, show)


def _carry_out(place: Schedules, change: Change, show: Callable[[str], None]) -> None:
    """Pause what is to go, and make what is wanted exist, enabled or paused."""
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
        show(f"{change.name}: {_DONE[change.action]}{paused_too}")


def _remove(place: Schedules, going: Sequence[LiveSchedule], show: Callable[[str], None]) -> list[LiveSchedule]:
    """Delete schedules that are paused, but for those with an active run, which it returns."""
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
            show(f"{each.name}: {each.schedule_id} stays: somebody has resumed it meanwhile")
        elif each.active_runs:
            waiting.append(each)
            show(f"{each.name}: {each.schedule_id} stays, paused, until {_runs(each)}")
        else:
            place.delete(each.schedule_id)
            show(f"{each.name}: {each.schedule_id} deleted")
    return waiting


def _runs(live: LiveSchedule) -> str:
    """What a schedule waits for, as the end of a sentence."""
    one = len(live.active_runs) == 1
    return f"{'run' if one else 'runs'} {', '.join(live.active_runs)} {'has' if one else 'have'} ended"
