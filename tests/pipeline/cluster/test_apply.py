"""Apply on a place in memory: whatever there is, and wherever it is stopped, it never does harm, and ends well."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from components.errors import ConfigError, TransientError
from pipeline.cluster import apply
from pipeline.cluster.schedules import LiveSchedule, Schedule
from pipeline.cluster.submission import ClusterPackage, Submission
from pipeline.package import Package

NAMES = ("nightly", "weekly")
_PACKAGE = ClusterPackage(
    path=Path("pipeline.yaml"),
    text=b"content",
    found=Package("pipeline", {}, (), b"", ""),
    target="kfp",
    profile="cpu",
    service_account="",
)


def schedule(name: str, hour: int = 9, enabled: bool = True) -> Schedule:
    submission = Submission(package=_PACKAGE, parameters={"steps": 5}, experiment="e", run_name=name)
    return Schedule(
        name=name,
        cron=f"0 {hour} * * *",
        time_zone="UTC",
        package=_PACKAGE.path,
        target="kfp",
        submission=submission,
        enabled=enabled,
    )


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
        self.inexpressible: set[str] = set()

    def _request(self) -> Iterator[None]:
        """One request: acts between its two halves."""
        self.requests += 1
        for after in (False, True):
            if self.fault and self.fault[:2] == (self.requests, after):
                raise self.fault[2]("as the test says")
            yield

    def require_expressible(self, schedule: Schedule) -> None:
        if schedule.name in self.inexpressible:
            raise ConfigError(f"schedule {schedule.name}: cannot be")

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
                    digest=apply.digest(schedule),
                    content=schedule.content(),
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


def run(place: Place, wanted: list[Schedule], prune: bool = False) -> list[str]:
    lines: list[str] = []
    apply.apply(place, wanted, prune, lines.append)
    return lines


@pytest.fixture
def place() -> Place:
    return Place()


def test_a_schedule_is_made_replaced_paused_resumed_and_deleted(place: Place) -> None:
    assert run(place, [schedule("weekly")]) == ["weekly: created"]
    assert place.enabled() == ["weekly"]
    assert run(place, [schedule("weekly", 10)]) == ["weekly: replaced", "weekly: id-1 deleted"]
    assert [each.schedule_id for each in place.held.values()] == ["id-2"]
    assert run(place, [schedule("weekly", 10, enabled=False)]) == ["weekly: paused"]
    assert place.enabled() == []
    assert run(place, [schedule("weekly", 10)]) == ["weekly: resumed"]
    assert run(place, []) == []
    assert place.enabled() == ["weekly"]
    assert run(place, [], prune=True) == ["weekly: id-2 deleted"]
    assert place.held == {}


def test_a_second_time_nothing_is_written(place: Place) -> None:
    wanted = [schedule("weekly"), schedule("nightly", enabled=False)]
    run(place, wanted)
    place.writes = 0
    assert run(place, wanted) == []
    assert place.writes == 0
    assert place.requests == 4 + 1


def test_made_paused_and_stays_so(place: Place) -> None:
    assert run(place, [schedule("weekly", enabled=False)]) == ["weekly: created, paused"]
    assert place.enabled() == []
    assert run(place, [schedule("weekly", 10, enabled=False)])[0] == "weekly: replaced, paused"
    assert place.enabled() == []


def test_what_has_a_run_at_work_is_deleted_once_it_has_ended(place: Place) -> None:
    run(place, [schedule("weekly")])
    place.tick()
    assert run(place, [schedule("weekly", 10)]) == [
        "weekly: replaced",
        "weekly: id-1 stays, paused, until run run-of-id-1 has ended",
    ]
    assert place.enabled() == ["weekly"]
    assert run(place, [schedule("weekly", 10)]) == ["weekly: id-1 stays, paused, until run run-of-id-1 has ended"]
    place.end_runs()
    assert run(place, [schedule("weekly", 10)]) == ["weekly: id-1 deleted"]
    assert place.ended_at_work == []


def test_back_to_what_was_replaced_is_made_anew(place: Place) -> None:
    """What was paused while another ran in its place may start at once what it missed."""
    run(place, [schedule("weekly")])
    place.tick()
    run(place, [schedule("weekly", 10)])
    assert run(place, [schedule("weekly")])[0] == "weekly: replaced"
    assert [(each.schedule_id, each.enabled) for each in place.held.values()] == [("id-1", False), ("id-3", True)]


def test_two_of_one_name_become_one(place: Place) -> None:
    for _ in range(2):
        place.resume(place.create(schedule("weekly")).schedule_id)
    assert place.enabled() == ["weekly", "weekly"]
    run(place, [schedule("weekly")])
    assert [each.schedule_id for each in place.held.values()] == ["id-1"]
    assert place.enabled() == ["weekly"]


def test_what_cannot_be_is_told_before_anything_is_asked(place: Place) -> None:
    place.inexpressible = {"weekly", "nightly"}
    with pytest.raises(ConfigError) as raised:
        run(place, [schedule("weekly"), schedule("hourly"), schedule("nightly")])
    assert raised.value.problems == ("schedule weekly: cannot be", "schedule nightly: cannot be")
    assert place.requests == 0


def test_what_cannot_be_replaced_goes_on(place: Place) -> None:
    run(place, [schedule("weekly")])
    # After the list and the pause.
    place.fault = (place.requests + 3, False, TransientError)
    with pytest.raises(TransientError):
        run(place, [schedule("weekly", 10)])
    assert place.enabled() == ["weekly"]
    assert [each.schedule_id for each in place.held.values()] == ["id-1"]


def test_the_plan_tells_what_differs() -> None:
    live = LiveSchedule(
        schedule_id="id",
        name="weekly",
        enabled=True,
        digest="another",
        content=schedule("weekly", 10).content() | {"parameters": {"steps": 5.0, "seed": 1}, "catch_up": True},
    )
    (change,) = apply.plan([schedule("weekly")], [live])
    assert change.action == apply.REPLACE
    assert [(each.name, each.live, each.wanted) for each in change.differences] == [
        ("cron", "0 10 * * *", "0 9 * * *"),
        ("catch_up", True, False),
        ("parameters.seed", 1, None),
    ]


_HOURS = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), st.booleans()))


def wanted_of(drawn: dict[str, tuple[int, bool]]) -> list[Schedule]:
    return [schedule(name, hour, enabled) for name, (hour, enabled) in drawn.items()]


class Applying(RuleBasedStateMachine):
    """Any file, applied and stopped anywhere, while runs start and end."""

    @initialize()
    def begin(self) -> None:
        self.place = Place()

    @rule(drawn=_HOURS, prune=st.booleans())
    def apply_to_the_end(self, drawn: dict[str, tuple[int, bool]], prune: bool) -> None:
        wanted = wanted_of(drawn)
        others = {each.schedule_id for each in self.place.held.values() if each.name not in drawn}
        run(self.place, wanted, prune)
        self.is_as_wanted(wanted, prune, others)
        self.place.writes = 0
        run(self.place, wanted, prune)
        assert self.place.writes == 0

    @rule(drawn=_HOURS, prune=st.booleans(), at=st.integers(1, 12), after=st.booleans(), is_kill=st.booleans())
    def apply_stopped(
        self, drawn: dict[str, tuple[int, bool]], prune: bool, at: int, after: bool, is_kill: bool
    ) -> None:
        wanted = wanted_of(drawn)
        live_before = set(self.place.enabled())
        self.place.fault = (self.place.requests + at, after, Killed if is_kill else TransientError)
        stopped = False
        try:
            run(self.place, wanted, prune)
        except (Killed, TransientError):
            stopped = True
        self.place.fault = None
        if stopped and not is_kill:
            # What was refused or lost leaves nothing without a schedule that starts runs, but for a lost resume.
            lost = live_before & {each.name for each in wanted if each.enabled} - set(self.place.enabled())
            assert len(lost) <= 1
        run(self.place, wanted, prune)
        self.is_as_wanted(wanted, prune, None)

    @rule()
    def tick(self) -> None:
        self.place.tick()

    @rule()
    def runs_end(self) -> None:
        self.place.end_runs()

    @rule(name=st.sampled_from(NAMES))
    def somebody_pauses(self, name: str) -> None:
        for each in list(self.place.held.values()):
            if each.name == name and each.enabled:
                self.place.pause(each.schedule_id)

    def is_as_wanted(self, wanted: list[Schedule], prune: bool, others: set[str] | None) -> None:
        for each in wanted:
            of_name = [live for live in self.place.held.values() if live.name == each.name]
            kept = [live for live in of_name if apply.same(live, each) and live.enabled == each.enabled]
            assert kept
            # What is there besides waits for its runs.
            assert all(not live.enabled and live.active_runs for live in of_name if live is not kept[0])
        names = {each.name for each in wanted}
        left = [live for live in self.place.held.values() if live.name not in names]
        if prune:
            assert all(not live.enabled and live.active_runs for live in left)
        elif others is not None:
            assert {live.schedule_id for live in left} == others

    @invariant()
    def no_harm(self) -> None:
        enabled = self.place.enabled()
        assert len(enabled) == len(set(enabled))
        assert self.place.ended_at_work == []


TestApplying = Applying.TestCase
TestApplying.settings = hypothesis.settings(stateful_step_count=15)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("error", [Killed, TransientError])
def test_stopped_at_every_request_and_applied_again(after: bool, error: type[BaseException]) -> None:
    """From a place with one to keep, one to replace at work, one to replace, one to pause and one to delete."""
    before = [schedule("keep"), schedule("busy"), schedule("change"), schedule("stop"), schedule("go")]
    wanted = [schedule("keep"), schedule("busy", 10), schedule("change", 10), schedule("stop", enabled=False)]

    def prepared() -> Place:
        found = Place()
        run(found, before)
        busy = next(each for each in found.held.values() if each.name == "busy")
        found._set(busy.schedule_id, active_runs=("training",))
        found.requests = 0
        return found

    def end(found: Place) -> list[tuple[str, bool, str, tuple[str, ...]]]:
        return sorted((each.name, each.enabled, each.digest, each.active_runs) for each in found.held.values())

    whole = prepared()
    run(whole, wanted, prune=True)
    assert whole.requests > 10
    for at in range(1, whole.requests + 1):
        found = prepared()
        found.fault = (at, after, error)
        with pytest.raises(error):
            run(found, wanted, prune=True)
        assert len(set(found.enabled())) == len(found.enabled())
        found.fault = None
        run(found, wanted, prune=True)
        assert end(found) == end(whole)
        assert found.ended_at_work == []
