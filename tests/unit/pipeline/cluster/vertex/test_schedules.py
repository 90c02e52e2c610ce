"""Schedules on Vertex: the requests and their order. `test_sdk.py` compares their content."""

import datetime

import pytest
from google.cloud.aiplatform_v1.types import Schedule as VertexSchedule

from pipeline.cluster.vertex.connection import VertexConnection
from pipeline.cluster.vertex.schedules import VertexBackend
from tests.fakes.vertex.server import VertexServer
from tests.unit.pipeline.cluster.vertex.conftest import Nightly


@pytest.fixture
def vertex(connection: VertexConnection) -> VertexBackend:
    return VertexBackend(connection)


def enabled(vertex: VertexBackend) -> dict[str, bool]:
    return {schedule.schedule_id: schedule.enabled for schedule in vertex.live()}


def test_resuming_brings_the_start_near(vertex: VertexBackend, server: VertexServer, nightly: Nightly) -> None:
    wanted = nightly(concurrency=1, catch_up=True)
    schedule_id = vertex.create(wanted)
    assert server.asked() == ["CreateSchedule", "PauseSchedule"]
    (live,) = vertex.live()
    assert (live.schedule_id, live.name, live.digest) == (schedule_id, "nightly", wanted.digest())
    assert (live.enabled, live.next_run, live.active_runs) == (False, None, ())
    assert server.tick() == []
    (created,) = server.schedules.values()
    assert created.start_time > server.clock + datetime.timedelta(days=300)  # for one whose pause is lost
    server.requests.clear()
    vertex.resume(schedule_id)
    assert server.asked() == ["GetSchedule", "UpdateSchedule", "ResumeSchedule"]
    assert list(server.requests[1][1].update_mask.paths) == ["start_time"]
    (live,) = vertex.live()
    assert live.enabled
    assert live.next_run is not None
    assert live.next_run - server.clock < datetime.timedelta(days=4)
    assert live.next_run.astimezone(datetime.UTC).hour in (1, 2)
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    (live,) = vertex.live()
    assert live.active_runs == (run_id,)
    assert server.tick() == [], "one at a time"
    server.set_run(run_id, "SUCCEEDED")
    (live,) = vertex.live()
    assert live.active_runs == ()


def test_our_clock_may_be_slow(vertex: VertexBackend, server: VertexServer, nightly: Nightly) -> None:
    server.clock += datetime.timedelta(minutes=20)
    schedule_id = vertex.create(nightly())
    vertex.resume(schedule_id)
    assert enabled(vertex) == {schedule_id: True}


@pytest.mark.parametrize("catch_up", [False, True])
def test_the_start_stays(vertex: VertexBackend, server: VertexServer, nightly: Nightly, catch_up: bool) -> None:
    schedule_id = vertex.create(nightly(catch_up=catch_up))
    vertex.resume(schedule_id)
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    vertex.pause(schedule_id)
    (live,) = vertex.live()
    assert (live.enabled, live.active_runs) == (False, (run_id,))
    server.requests.clear()
    vertex.pause(schedule_id)
    vertex.resume(schedule_id)
    vertex.resume(schedule_id)
    assert server.asked() == ["GetSchedule", "GetSchedule", "ResumeSchedule", "GetSchedule"]
    assert server.requests[2][1].catch_up == catch_up
    assert enabled(vertex) == {schedule_id: True}


def test_others_schedules_are_not_ours(vertex: VertexBackend, server: VertexServer, nightly: Nightly) -> None:
    schedule_id = vertex.create(nightly())
    (ours,) = server.schedules.values()
    notes = ("A pipeline.", "\nScheduled from nobody", "\nScheduled from {}", "")
    for number in range(101):
        other = VertexSchedule(ours)
        other.name = f"{ours.name}{number}"
        job = other.create_pipeline_job_request.pipeline_job
        if number < len(notes):
            job.pipeline_spec["pipelineInfo"]["description"] = notes[number]
        elif number < 100:
            job.pipeline_spec = {}
        server.schedules[other.name] = other
    assert [schedule.schedule_id for schedule in vertex.live()] == [schedule_id, f"{schedule_id}100"]
