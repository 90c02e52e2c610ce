"""Make a server's schedules those of a file, for every backend. It may be stopped at any request.

No two schedules of one name ever start runs, no active run is ended, and applying again continues. So a replacement is
created paused, after the old schedule was paused, and only then starts runs: it is younger than every run of the old
one, and nothing is started twice for one time. The old schedule is deleted last, when none of its runs is active; until
then it stays paused.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from components.core.errors import StageError
from pipeline.cluster.backend import LiveSchedule, Schedule, Schedules

CREATE, REPLACE, PAUSE, RESUME, UNCHANGED, DELETE = "create", "replace", "pause", "resume", "unchanged", "delete"
_PARTICIPLES = {CREATE: "created", REPLACE: "replaced", PAUSE: "paused", RESUME: "resumed"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """Change to the schedules of one name."""

    name: str
    action: str  # one of the words above; DELETE if the file has no such schedule
    wanted: Schedule | None = None  # of the file
    kept: LiveSchedule | None = None  # of the server, unchanged
    superseded: tuple[LiveSchedule, ...] = ()  # others of that name on the server, to be deleted


def plan(wanted: Sequence[Schedule], live: Sequence[LiveSchedule]) -> list[Change]:
    """Return the changes that a file requires: in its order, then schedules that it no longer has."""
    changes = [_change(schedule, live) for schedule in wanted]
    names = {schedule.name for schedule in wanted}
    for name in dict.fromkeys(existing.name for existing in live if existing.name not in names):
        superseded = tuple(existing for existing in live if existing.name == name)
        changes.append(Change(name=name, action=DELETE, superseded=superseded))
    return changes


def _change(schedule: Schedule, live: Sequence[LiveSchedule]) -> Change:
    live = [existing for existing in live if existing.name == schedule.name]
    alike = [existing for existing in live if existing.digest == schedule.digest()]
    kept = next((existing for existing in alike if existing.enabled), None)
    if kept is None and alike and (len(live) == 1 or not schedule.enabled):
        # With others of its name, a paused one is created again: a target may start missed runs at once, and they have
        # started that.
        kept = alike[0]
    if kept:
        action = UNCHANGED
        if kept.enabled != schedule.enabled:
            action = RESUME if schedule.enabled else PAUSE
        superseded = tuple(existing for existing in live if existing is not kept)
        return Change(name=schedule.name, action=action, wanted=schedule, kept=kept, superseded=superseded)
    return Change(name=schedule.name, action=REPLACE if live else CREATE, wanted=schedule, superseded=tuple(live))


def apply(server: Schedules, wanted: Sequence[Schedule], prune: bool, show: Callable[[str], None]) -> bool:
    """Make a server's schedules those of a file; return whether any stays until its runs have ended.

    With `prune`, what the file no longer has is deleted, too; `show` gets a line for each thing done.
    """
    going: set[str] = set()
    for change in plan(wanted, server.live()):
        if change.action != DELETE or prune:
            _carry_out(server, change, show)
            going |= {schedule.schedule_id for schedule in change.superseded}
    # They may have started runs until they were paused, so active runs are counted only now.
    live = [schedule for schedule in server.live() if schedule.schedule_id in going] if going else []
    return bool([schedule for schedule in live if not _delete_if_idle(server, schedule, show)])


def _carry_out(server: Schedules, change: Change, show: Callable[[str], None]) -> None:
    """Pause superseded schedules, and make the wanted one exist, enabled or paused."""
    paused = [schedule for schedule in change.superseded if schedule.enabled]
    for schedule in paused:
        server.pause(schedule.schedule_id)
    if change.wanted is None:
        return
    if change.kept:
        schedule_id, enabled = change.kept.schedule_id, change.kept.enabled
    else:
        try:
            schedule_id, enabled = server.create(change.wanted), False
        except StageError:
            # Nothing has replaced it: the old schedule continues.
            with contextlib.suppress(StageError):
                for schedule in paused[:1]:
                    server.resume(schedule.schedule_id)
            raise
    if change.wanted.enabled and not enabled:
        server.resume(schedule_id)
    elif enabled and not change.wanted.enabled:
        server.pause(schedule_id)
    if change.action != UNCHANGED:
        paused_too = "" if change.wanted.enabled or change.action == PAUSE else ", paused"
        show(f"{change.name}: {_PARTICIPLES[change.action]}{paused_too}")


def _delete_if_idle(server: Schedules, live: LiveSchedule, show: Callable[[str], None]) -> bool:
    """Delete a paused schedule without active runs; return whether it is gone."""
    if live.enabled:
        show(f"{live.name}: {live.schedule_id} stays: it was resumed meanwhile")
    elif live.active_runs:
        show(f"{live.name}: {live.schedule_id} stays, paused, for its active runs: {', '.join(live.active_runs)}")
    else:
        server.delete(live.schedule_id)
        show(f"{live.name}: {live.schedule_id} deleted")
        return True
    return False
