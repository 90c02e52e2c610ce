"""Make a server's schedules those of a file, for every backend. It may be stopped at any request.

No two schedules of one name ever start runs, no active run is ended, and applying again continues. So a replacement is
created paused, after the old one was paused, and only then starts runs: nothing is started twice for one time. The old
one is deleted last, when none of its runs is active; until then it stays paused.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from components.core.errors import StageError
from pipeline.cluster.backend import LiveSchedule, Schedule, Server

CREATE, REPLACE, PAUSE, RESUME, UNCHANGED, DELETE = "create", "replace", "pause", "resume", "unchanged", "delete"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """Change to the schedules of one name."""

    name: str
    action: str  # one of the words above; DELETE if the file has no such schedule
    wanted: Schedule | None = None  # of the file
    kept: LiveSchedule | None = None  # of the server, unchanged
    superseded: tuple[LiveSchedule, ...] = ()  # others of that name on the server, to be deleted


def required_changes(wanted: Sequence[Schedule], live: Sequence[LiveSchedule]) -> list[Change]:
    """Return the changes that a file requires: in its order, then schedules that it no longer has."""
    by_name: dict[str, list[LiveSchedule]] = {schedule.name: [] for schedule in wanted}
    for existing in live:
        by_name.setdefault(existing.name, []).append(existing)
    changes = []
    for schedule in wanted:
        namesakes = by_name.pop(schedule.name)
        alike = [existing for existing in namesakes if existing.digest == schedule.digest()]
        kept = next((existing for existing in alike if existing.enabled), None)
        if kept is None and alike and (len(namesakes) == 1 or not schedule.enabled):
            # With others of its name, a paused one is created again: a target may start missed runs at once, and they
            # have started that.
            kept = alike[0]
        action = REPLACE if namesakes else CREATE
        if kept:
            action = UNCHANGED if kept.enabled == schedule.enabled else RESUME if schedule.enabled else PAUSE
        superseded = tuple(existing for existing in namesakes if existing is not kept)
        changes.append(Change(name=schedule.name, action=action, wanted=schedule, kept=kept, superseded=superseded))
    return changes + [Change(name=name, action=DELETE, superseded=tuple(old)) for name, old in by_name.items()]


def apply(target: str, server: Server, wanted: Sequence[Schedule], prune: bool) -> Iterator[str]:
    """Make a server's schedules those of a file; yield a line for each thing done.

    Those stay whose runs are active. With `prune`, what the file no longer has is deleted, too.
    """
    going: set[str] = set()
    for change in required_changes(wanted, server.live()):
        if change.action != DELETE or prune:
            yield from _carry_out(server, change)
            going |= {schedule.schedule_id for schedule in change.superseded}
    # They may have started runs until they were paused, so active runs are counted only now.
    stays = False
    for live in server.live() if going else ():
        if live.schedule_id not in going:
            continue
        if live.enabled:
            yield f"{live.name}: {live.schedule_id} stays: it was resumed meanwhile"
        elif live.active_runs:
            yield f"{live.name}: {live.schedule_id} stays, paused, for its active runs: {', '.join(live.active_runs)}"
        else:
            server.delete(live.schedule_id)
            yield f"{live.name}: {live.schedule_id} deleted"
            continue
        stays = True
    if stays:
        yield f"{target}: apply again later to delete what stays"


def _carry_out(server: Server, change: Change) -> Iterator[str]:
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
            with contextlib.suppress(StageError):
                for schedule in paused[:1]:  # nothing has replaced it: it continues
                    server.resume(schedule.schedule_id)
            raise
    if change.wanted.enabled != enabled:
        (server.resume if change.wanted.enabled else server.pause)(schedule_id)
    if change.action != UNCHANGED:
        paused_too = "" if change.wanted.enabled or change.action == PAUSE else ", paused"
        yield f"{change.name}: {change.action}d{paused_too}"
