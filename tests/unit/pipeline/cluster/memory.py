"""Schedules in memory, on a server that can fail at every request."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from pipeline.cluster.backend import LiveSchedule, Schedule


class Killed(BaseException):
    """This process ends here."""


class MemorySchedules:
    """Schedules in memory; any request can kill the client, or lose its answer."""

    def __init__(self) -> None:
        self.held: dict[str, LiveSchedule] = {}
        self.ended_at_work: list[str] = []
        self.made = self.requests = self.writes = 0
        # At which request, before or after it acted, and how.
        self.fault: tuple[int, bool, type[BaseException]] | None = None

    @contextlib.contextmanager
    def _request(self) -> Iterator[None]:
        """One request, which acts within the block."""
        self.requests += 1
        self._fail(after=False)
        yield
        self._fail(after=True)

    def _fail(self, after: bool) -> None:
        if self.fault and self.fault[:2] == (self.requests, after):
            raise self.fault[2]("as the test says")

    def live(self) -> list[LiveSchedule]:
        with self._request():
            return list(self.held.values())

    def create(self, schedule: Schedule) -> str:
        with self._request():
            self.made += 1
            schedule_id = f"id-{self.made}"
            self._hold(
                LiveSchedule(schedule_id=schedule_id, name=schedule.name, enabled=False, digest=schedule.digest())
            )
        return schedule_id

    def pause(self, schedule_id: str) -> None:
        with self._request():
            self._set(schedule_id, enabled=False)

    def resume(self, schedule_id: str) -> None:
        with self._request():
            self._set(schedule_id, enabled=True)

    def delete(self, schedule_id: str) -> None:
        with self._request():
            self.writes += 1
            self.ended_at_work += self.held.pop(schedule_id).active_runs

    def _hold(self, live: LiveSchedule) -> None:
        self.writes += 1
        self.held[live.schedule_id] = live

    def _set(self, schedule_id: str, **what: Any) -> None:
        self._hold(dataclasses.replace(self.held[schedule_id], **what))

    def tick(self) -> None:
        """What is enabled starts a run."""
        for each in list(self.held.values()):
            if each.enabled and not each.active_runs:
                self._set(each.schedule_id, active_runs=(f"run-of-{each.schedule_id}",))

    def end_runs(self) -> None:
        for schedule_id in self.held:
            self._set(schedule_id, active_runs=())

    def enabled(self) -> list[str]:
        return sorted(each.name for each in self.held.values() if each.enabled)
