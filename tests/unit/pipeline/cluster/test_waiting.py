"""Waiting for the end of a run: its log, and when it gives up."""

import dataclasses
from typing import cast

import pytest

from components.core.errors import TransientError
from pipeline.cluster import backend, waiting
from pipeline.cluster.backend import RunStatus, Server, StageStatus

pytestmark = pytest.mark.usefixtures("bare_desk")


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="pipeline")


class Scripted:
    """Server of which one has these states, one after another; None where the server is away. The last one stays."""

    def __init__(self, *states: RunStatus | None) -> None:
        self.left = list(states)

    def hint_for_waiting(self, run_id: str) -> str:
        return f"look at {run_id}"

    def status(self, run_id: str) -> RunStatus:
        state = self.left.pop(0) if len(self.left) > 1 else self.left[0]
        if state is None:
            raise TransientError("the server cannot be reached")
        return state


def run(state: str, **stages: str) -> RunStatus:
    statuses = tuple(StageStatus(name=name, state=stage) for name, stage in stages.items())
    return RunStatus(run_id="7", name="mine", state=state, stages=statuses)


def wait(*states: RunStatus | None) -> RunStatus | None:
    return waiting.wait(cast(Server, Scripted(*states)), "7", None)


def test_silence_is_broken_by_a_heartbeat(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(waiting, "HEARTBEAT_SECONDS", 0.0)
    working = run(backend.RUNNING, train=backend.RUNNING)
    wait(working, working, working, run(backend.SUCCEEDED))
    still = "still running after 0 s: train"
    assert caplog.messages[2:5] == [still, "look at 7", still]


def test_a_changed_reason_to_wait_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    waiting_for = [StageStatus(name="train", state=backend.PENDING, message=why) for why in ("full", "no image")]
    full, missing = (dataclasses.replace(run(backend.RUNNING), stages=(stage,)) for stage in waiting_for)
    end = run(backend.SUCCEEDED)
    assert wait(full, full, missing, end) == end
    states = ["run 7 is running", "train: pending: no image", "run 7 is succeeded"]
    assert caplog.messages == ["train: pending: full", *states]


def test_waiting_outlives_a_server_that_is_away_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    end = run(backend.SUCCEEDED)
    assert wait(run(backend.RUNNING), None, None, None, end) == end
    away, back = (message for message in caplog.messages if "server" in message)
    assert ("cannot be reached" in away, "answers" in back) == (True, True)
