"""Schedules in memory, as a place that can be stopped at every request."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from pipeline.cluster.backend import LiveSchedule, Schedule


class Killed(BaseException):
    """This process ends here."""


class Place:
    """Schedules in memory, which can kill whoever asks, or lose the answer, at any request."""

    def __init__(self) -> None:
        self.held: dict[str, LiveSchedule] = {}
        self.ended_at_work: list[str] = []
        self.made = 0
        self.writes = 0
        # At which request, before or after it acted, and how.
        self.fault: tuple[int, bool, type[BaseException]] | None = None
        self.requests = 0

    def _request(self) -> Iterator[None]:
        """One request: acts between its two halves."""
        self.requests += 1
        for after in (False, True):
            if self.fault and self.fault[:2] == (self.requests, after):
                raise self.fault[2]("as the test says")
            yield

    def live(self) -> list[LiveSchedule]:
        for _ in self._request():
            found = list(self.held.values())
        return found

    def create(self, schedule: Schedule) -> LiveSchedule:
        for acted in self._acting():
            if acted:
                self.made += 1
                made = LiveSchedule(
                    schedule_id=f"id-{self.made}",
                    name=schedule.name,
                    enabled=False,
                    digest=schedule.digest(),
                )
                self.held[made.schedule_id] = made
        return made

    def pause(self, schedule_id: str) -> None:
        for acted in self._acting():
            if acted:
                self._set(schedule_id, enabled=False)

    def resume(self, schedule_id: str) -> None:
        for acted in self._acting():
            if acted:
                self._set(schedule_id, enabled=True)

    def delete(self, schedule_id: str) -> None:
        for acted in self._acting():
            if acted:
                gone = self.held.pop(schedule_id)
                self.ended_at_work += gone.active_runs

    def _acting(self) -> Iterator[bool]:
        halves = self._request()
        next(halves)
        self.writes += 1
        yield True
        next(halves)

    def _set(self, schedule_id: str, **what: Any) -> None:
        self.held[schedule_id] = dataclasses.replace(self.held[schedule_id], **what)

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
