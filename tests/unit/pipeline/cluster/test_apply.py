"""Apply on a server in memory: from any state and stopped anywhere, it does no harm and ends well."""

from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from components.core.errors import TransientError
from pipeline.cluster import apply
from pipeline.cluster.backend import Schedule
from pipeline.cluster.submission import ClusterPackage, Submission
from pipeline.package.package_origin import Origin
from pipeline.package.reader import Package
from tests.unit.pipeline.cluster.memory import Killed, MemorySchedules

NAMES = ("nightly", "weekly")
_PACKAGE = ClusterPackage(
    path=Path("pipeline.yaml"),
    found=Package("pipeline", {}, {}, b"content", ""),
    origin=Origin("kfp", "cpu"),
)


def schedule(name: str, hour: int = 9, enabled: bool = True) -> Schedule:
    submission = Submission(package=_PACKAGE, parameters={"steps": 5}, experiment="e", run_name=name)
    return Schedule(
        name=name,
        cron=f"0 {hour} * * *",
        time_zone="UTC",
        target="kfp",
        submission=submission,
        enabled=enabled,
    )


def run(server: MemorySchedules, wanted: list[Schedule], prune: bool = False) -> list[str]:
    lines: list[str] = []
    apply.apply(server, wanted, prune, lines.append)
    return lines


@pytest.fixture
def server() -> MemorySchedules:
    return MemorySchedules()


def test_back_to_what_was_replaced_is_made_anew(server: MemorySchedules) -> None:
    """A schedule that was paused while another replaced it may start missed runs at once."""
    run(server, [schedule("weekly")])
    server.tick()
    run(server, [schedule("weekly", 10)])
    assert run(server, [schedule("weekly")])[0] == "weekly: replaced"
    assert [(each.schedule_id, each.enabled) for each in server.held.values()] == [("id-1", False), ("id-3", True)]


def test_two_of_one_name_become_one(server: MemorySchedules) -> None:
    for _ in range(2):
        server.resume(server.create(schedule("weekly")))
    assert server.enabled() == ["weekly", "weekly"]
    run(server, [schedule("weekly")])
    assert [each.schedule_id for each in server.held.values()] == ["id-1"]
    assert server.enabled() == ["weekly"]


def test_what_cannot_be_replaced_goes_on(server: MemorySchedules) -> None:
    run(server, [schedule("weekly")])
    # After the list and the pause.
    server.fault = (server.requests + 3, False, TransientError)
    with pytest.raises(TransientError):
        run(server, [schedule("weekly", 10)])
    assert server.enabled() == ["weekly"]
    assert [each.schedule_id for each in server.held.values()] == ["id-1"]


_HOURS = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.integers(1, 3), st.booleans()))


def wanted_of(drawn: dict[str, tuple[int, bool]]) -> list[Schedule]:
    return [schedule(name, hour, enabled) for name, (hour, enabled) in drawn.items()]


class Applying(RuleBasedStateMachine):
    """Any file, applied and stopped anywhere, while runs start and end."""

    @initialize()
    def begin(self) -> None:
        self.server = MemorySchedules()

    @rule(drawn=_HOURS, prune=st.booleans())
    def apply_to_the_end(self, drawn: dict[str, tuple[int, bool]], prune: bool) -> None:
        wanted = wanted_of(drawn)
        others = {each.schedule_id for each in self.server.held.values() if each.name not in drawn}
        run(self.server, wanted, prune)
        self.is_as_wanted(wanted, prune, others)
        self.server.writes = 0
        run(self.server, wanted, prune)
        assert self.server.writes == 0

    @rule(drawn=_HOURS, prune=st.booleans(), at=st.integers(1, 12), after=st.booleans(), is_kill=st.booleans())
    def apply_stopped(
        self, drawn: dict[str, tuple[int, bool]], prune: bool, at: int, after: bool, is_kill: bool
    ) -> None:
        wanted = wanted_of(drawn)
        live_before = set(self.server.enabled())
        self.server.fault = (self.server.requests + at, after, Killed if is_kill else TransientError)
        stopped = False
        try:
            run(self.server, wanted, prune)
        except (Killed, TransientError):
            stopped = True
        self.server.fault = None
        if stopped and not is_kill:
            # A refused or lost request leaves no name without a schedule that starts runs, but for a lost resume.
            lost = live_before & {each.name for each in wanted if each.enabled} - set(self.server.enabled())
            assert len(lost) <= 1
        run(self.server, wanted, prune)
        self.is_as_wanted(wanted, prune, None)

    @rule()
    def tick(self) -> None:
        self.server.tick()

    @rule()
    def runs_end(self) -> None:
        self.server.end_runs()

    @rule(name=st.sampled_from(NAMES))
    def somebody_pauses(self, name: str) -> None:
        for each in list(self.server.held.values()):
            if each.name == name and each.enabled:
                self.server.pause(each.schedule_id)

    def is_as_wanted(self, wanted: list[Schedule], prune: bool, others: set[str] | None) -> None:
        for each in wanted:
            of_name = [live for live in self.server.held.values() if live.name == each.name]
            kept = [live for live in of_name if live.digest == each.digest() and live.enabled == each.enabled]
            assert kept
            # Other schedules wait for their runs.
            assert all(not live.enabled and live.active_runs for live in of_name if live is not kept[0])
        names = {each.name for each in wanted}
        left = [live for live in self.server.held.values() if live.name not in names]
        if prune:
            assert all(not live.enabled and live.active_runs for live in left)
        elif others is not None:
            assert {live.schedule_id for live in left} == others

    @invariant()
    def no_harm(self) -> None:
        enabled = self.server.enabled()
        assert len(enabled) == len(set(enabled))
        assert self.server.ended_at_work == []


TestApplying = Applying.TestCase
TestApplying.settings = hypothesis.settings(stateful_step_count=15)
