"""Schedules on Vertex: the request, field by field, and what is asked of a server in which order.

The server (tests/vertex_server.py) is no Vertex. Nothing here has been near one.
"""

import dataclasses
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.cloud.aiplatform_v1.types import Schedule as VertexSchedule
from google.protobuf import json_format

from components import digests
from components.errors import ConfigError, StageError, TransientError
from pipeline.cluster import submission
from pipeline.cluster.schedules import Schedule
from pipeline.cluster.submission import ClusterPackage, Submission
from pipeline.cluster.vertex_connection import VertexConnection
from pipeline.cluster.vertex_runs import job_content
from pipeline.cluster.vertex_schedules import VertexSchedules, schedule_of
from tests.pipeline.packages import package_of
from tests.vertex_server import Refused, VertexServer, serving

CONNECTION = VertexConnection(project="my-project-1", location="us-central1", staging_bucket="gs://staging/vertex")
NOW = datetime.datetime(2026, 11, 22, 9, 30, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ClusterPackage:
    path = tmp_path_factory.mktemp("package") / "pipeline.yaml"
    path.write_bytes(package_of("tpu-v5e-8", "vertex"))
    return submission.read_package(path, "vertex")


@pytest.fixture
def server() -> Iterator[VertexServer]:
    with serving() as found:
        yield found


@pytest.fixture
def vertex(server: VertexServer) -> VertexSchedules:
    return VertexSchedules(dataclasses.replace(CONNECTION, api_endpoint=server.url))


@pytest.fixture
def nightly(package: ClusterPackage) -> Callable[..., Schedule]:
    """A schedule, with changes: those of the run by the names of a `Submission`."""

    def make(**changes: Any) -> Schedule:
        of_run = {field.name for field in dataclasses.fields(Submission)}
        of_known_run: dict[str, Any] = {
            "package": package,
            "parameters": {"source": "gs://images", "root": "/gcs/bucket/runs", "steps": 500, "beta_1": 0.5},
            "experiment": "Nightly Runs",
            "run_name": "nightly",
        }
        run = Submission(**(of_known_run | {name: value for name, value in changes.items() if name in of_run}))
        known: dict[str, Any] = {
            "name": "nightly",
            "cron": "0 3 * * MON-FRI",
            "time_zone": "Europe/Berlin",
            "package": Path("pipeline.yaml"),
            "target": "vertex",
        }
        return Schedule(
            submission=run, **(known | {name: value for name, value in changes.items() if name not in of_run})
        )

    return make


def as_json(schedule: VertexSchedule) -> dict[str, Any]:
    return json_format.MessageToDict(VertexSchedule.pb(schedule))


def enabled(vertex: VertexSchedules) -> dict[str, bool]:
    return {each.schedule_id: each.enabled for each in vertex.live()}


def test_the_request_field_by_field(nightly: Callable[..., Schedule]) -> None:
    wanted = nightly(concurrency=2, catch_up=True)
    sent = as_json(schedule_of(wanted, CONNECTION, NOW))
    job = sent.pop("createPipelineJobRequest")
    assert sent == {
        "displayName": "nightly",
        "cron": "TZ=Europe/Berlin 0 3 * * 1-5",
        "startTime": "2027-11-22T09:30:00Z",
        "maxConcurrentRunCount": "2",
        "maxConcurrentActiveRunCount": "2",
        "allowQueueing": True,
    }
    assert job.keys() == {"parent", "pipelineJob"}
    assert job["parent"] == CONNECTION.parent
    # The job is that of a run, but for the note at the end of the pipeline's description.
    expected = job_content(wanted.submission, CONNECTION)
    expected["runtimeConfig"]["parameterValues"]["steps"] = 500.0
    description, _, note = job["pipelineJob"]["pipelineSpec"]["pipelineInfo"].pop("description").partition("\n")
    assert description == expected["pipelineSpec"]["pipelineInfo"].pop("description")
    assert note.startswith("Scheduled from {")
    assert digests.digest_of(wanted.content()) in note
    assert job["pipelineJob"] == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"cron": "0 0 3 * * 1"}, "cron must be five fields"),
        ({"concurrency": 0}, "concurrency must be 1 or more, got 0"),
        ({"name": "n" * 129}, "its name must have 1 to 128 characters, got 129"),
        ({"pipeline_root": "minio://bucket"}, "pipeline_root must be in a bucket"),
        ({"parameters": {"source": "s", "root": "r", "stepz": 1}}, "unknown parameter stepz; did you mean steps?"),
    ],
)
def test_what_vertex_cannot_express_is_refused_first(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule], changes: dict[str, Any], said: str
) -> None:
    wanted = nightly(**changes)
    for refuse in (vertex.require_expressible, vertex.create):
        with pytest.raises(ConfigError) as refusal:
            refuse(wanted)
        (problem,) = refusal.value.problems
        assert problem.startswith(f"schedule {wanted.name}: ")
        assert said in problem
    assert not server.requests
    vertex.require_expressible(nightly())


def test_one_is_made_paused(vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]) -> None:
    wanted = nightly(concurrency=3, catch_up=True)
    made = vertex.create(wanted)
    assert server.asked()[:2] == ["CreateSchedule", "PauseSchedule"]
    assert vertex.live() == [made]
    assert (made.name, made.enabled, made.next_run, made.active_runs) == ("nightly", False, None, ())
    assert made.digest == digests.digest_of(wanted.content())
    # Told exactly as it was written, or each apply would make it anew.
    assert made.content == wanted.content()
    types = {name: type(value) for name, value in made.content["parameters"].items()}
    assert types == {"source": str, "root": str, "steps": int, "beta_1": float}
    assert server.tick() == []


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"cron": "*/15 0-5 1,15 * *", "time_zone": "UTC"},
        {"pipeline_root": "gs://bucket/root", "service_account": "a@p.iam.gserviceaccount.com"},
        {"experiment": "", "parameters": {"source": "gs://ü", "root": "r"}},
        {"concurrency": 10},
    ],
)
def test_content_is_told_as_it_was_written(
    vertex: VertexSchedules, nightly: Callable[..., Schedule], changes: dict[str, Any]
) -> None:
    wanted = nightly(**changes)
    vertex.create(wanted)
    (found,) = vertex.live()
    assert found.content == wanted.content()
    assert found.digest == digests.digest_of(wanted.content())


def test_a_service_account_of_the_package_is_no_change(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule], package: ClusterPackage
) -> None:
    account = "of-profile@p.iam.gserviceaccount.com"
    text = package.text.replace(b"profile tpu-v5e-8.", f"profile tpu-v5e-8, service account {account}.".encode())
    other = dataclasses.replace(package, text=text, service_account=account)
    wanted = nightly()
    wanted = dataclasses.replace(wanted, submission=dataclasses.replace(wanted.submission, package=other))
    made = vertex.create(wanted)
    (sent,) = server.schedules.values()
    assert sent.create_pipeline_job_request.pipeline_job.service_account == account
    assert made.content == wanted.content()


@pytest.mark.parametrize(
    ("field", "value", "name", "told"),
    [
        ("cron", "TZ=Europe/Berlin 0 4 * * 1-5", "cron", "0 4 * * 1-5"),
        ("cron", "TZ=Asia/Tokyo 0 3 * * 1-5", "time_zone", "Asia/Tokyo"),
        ("cron", "0 3 * * 1-5", "time_zone", "UTC"),
        ("max_concurrent_active_run_count", 5, "concurrency", 5),
        ("allow_queueing", True, "catch_up", True),
    ],
)
def test_what_somebody_changes_in_the_console_is_told(
    vertex: VertexSchedules,
    server: VertexServer,
    nightly: Callable[..., Schedule],
    field: str,
    value: Any,
    name: str,
    told: Any,
) -> None:
    vertex.create(nightly())
    (held,) = server.schedules.values()
    setattr(held, field, value)
    (found,) = vertex.live()
    assert found.content[name] == told
    assert found.content != nightly().content()


def test_resuming_brings_the_start_near_first(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly())
    server.requests.clear()
    vertex.resume(made.schedule_id)
    assert server.asked() == ["GetSchedule", "UpdateSchedule", "ResumeSchedule"]
    assert list(server.requests[1][1].update_mask.paths) == ["start_time"]
    (found,) = vertex.live()
    assert found.enabled
    assert found.next_run is not None
    assert found.next_run - server.clock < datetime.timedelta(days=4)
    assert found.next_run.astimezone(datetime.UTC).hour in (1, 2)
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    (found,) = vertex.live()
    assert found.active_runs == (run_id,)
    assert server.tick() == [], "one at a time"
    server.set_run(run_id, "SUCCEEDED")
    (found,) = vertex.live()
    assert found.active_runs == ()


def test_a_clock_that_is_slow_here_is_no_matter(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    server.clock += datetime.timedelta(minutes=20)
    made = vertex.create(nightly())
    vertex.resume(made.schedule_id)
    assert enabled(vertex) == {made.schedule_id: True}


def test_pausing_and_resuming_again_keeps_the_start(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly(catch_up=True))
    vertex.resume(made.schedule_id)
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    vertex.pause(made.schedule_id)
    (found,) = vertex.live()
    assert (found.enabled, found.active_runs) == (False, (run_id,))
    server.requests.clear()
    vertex.pause(made.schedule_id)
    vertex.resume(made.schedule_id)
    vertex.resume(made.schedule_id)
    assert server.asked() == ["GetSchedule", "GetSchedule", "ResumeSchedule", "GetSchedule"]
    assert server.requests[2][1].catch_up
    assert enabled(vertex) == {made.schedule_id: True}


def test_missed_runs_are_not_made_up_for_unasked(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly())
    vertex.resume(made.schedule_id)
    assert not server.requests[-1][1].catch_up


def test_delete_leaves_its_runs(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly())
    vertex.resume(made.schedule_id)
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    vertex.delete(made.schedule_id)
    assert vertex.live() == []
    assert [name.rpartition("/")[2] for name in server.jobs] == [run_id]
    with pytest.raises(ConfigError, match=r"cannot delete schedule \S+: Vertex answers NOT_FOUND: [^\n]*$"):
        vertex.delete(made.schedule_id)


def test_schedules_of_others_are_not_ours(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly())
    (ours,) = server.schedules.values()
    for number, description in enumerate(("A pipeline.", "\nScheduled from nobody", "\nScheduled from {}", None)):
        theirs = VertexSchedule(ours)
        theirs.name = f"{ours.name}{number}"
        info = theirs.create_pipeline_job_request.pipeline_job.pipeline_spec["pipelineInfo"]
        info.pop("description")
        if description is not None:
            info["description"] = description
        server.schedules[theirs.name] = theirs
    assert len(server.schedules) == 5
    assert [each.schedule_id for each in vertex.live()] == [made.schedule_id]


def test_every_page_is_read(vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]) -> None:
    vertex.create(nightly())
    (ours,) = server.schedules.values()
    for number in range(100):
        theirs = VertexSchedule(ours)
        theirs.name = f"{ours.name}{number}"
        if number < 99:
            theirs.create_pipeline_job_request.pipeline_job.pipeline_spec = {}
        server.schedules[theirs.name] = theirs
    assert [each.schedule_id for each in vertex.live()] == [
        ours.name.rpartition("/")[2],
        ours.name.rpartition("/")[2] + "99",
    ]


def lose(server: VertexServer, method: str, acted: bool) -> None:
    """From now on, the connection is lost at a request, before or after the server acts upon it."""

    def hang_up(asked: str, _: Any) -> None:
        if asked == method:
            raise Refused(grpc.StatusCode.UNAVAILABLE, "connection reset")

    server.before, server.after = (None, hang_up) if acted else (hang_up, None)


@pytest.mark.parametrize("method", ["CreateSchedule", "PauseSchedule", "UpdateSchedule", "ResumeSchedule"])
@pytest.mark.parametrize("acted", [False, True])
def test_whatever_is_lost_nothing_starts_before_it_is_resumed(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule], method: str, acted: bool
) -> None:
    lose(server, method, acted)
    with pytest.raises(TransientError, match=r"^cannot (create|resume) schedule nightly: Vertex answers UNAVAILABLE"):
        vertex.resume(vertex.create(nightly()).schedule_id)
    server.before = server.after = None
    # Months of ticks, of which no schedule that was never resumed may take one.
    resumed = "ResumeSchedule" in server.asked() and acted
    for _ in range(100):
        server.clock += datetime.timedelta(days=3)
        if not resumed:
            assert server.tick() == []
            assert not any(schedule.started_run_count for schedule in server.schedules.values())
    server.clock -= datetime.timedelta(days=300)
    # Whatever was left, what apply does next brings it to life: once.
    found = vertex.live()
    assert len(found) == (0 if (method, acted) == ("CreateSchedule", False) else 1)
    assert [each.enabled for each in found] == [resumed] * len(found)
    made = found[0] if found else vertex.create(nightly())
    vertex.resume(made.schedule_id)
    assert enabled(vertex) == {made.schedule_id: True}
    server.clock += datetime.timedelta(minutes=2)
    assert len(server.tick()) == 1


def test_answers_become_one_line(
    vertex: VertexSchedules, server: VertexServer, nightly: Callable[..., Schedule]
) -> None:
    made = vertex.create(nightly())

    def refuse(_method: str, _message: Any) -> None:
        raise Refused(grpc.StatusCode.PERMISSION_DENIED, "Permission\n denied")

    server.before = refuse
    identified = made.schedule_id
    for ask in (
        vertex.live,
        lambda: vertex.create(nightly()),
        lambda: vertex.pause(identified),
        lambda: vertex.resume(identified),
        lambda: vertex.delete(identified),
    ):
        with pytest.raises(StageError) as refusal:
            ask()
        assert refusal.value.exit_code == 64
        assert "Vertex answers PERMISSION_DENIED: Permission denied; the role Vertex AI User" in str(refusal.value)
        assert len(str(refusal.value).splitlines()) == 1
