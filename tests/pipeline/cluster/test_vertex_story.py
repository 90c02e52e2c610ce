"""`wgan submit`, `status`, `logs`, `cancel`, `retry` and `schedule` for Vertex, as a user would use them.

The server (tests/vertex_server.py) is no Vertex. Nothing here has been near one.
"""

import datetime
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from pipeline.__main__ import main
from pipeline.cluster import run_commands, submission
from tests.vertex_server import Refused, VertexServer, serving

pytestmark = pytest.mark.usefixtures("bare_desk")

WRITING = ("CreateSchedule", "UpdateSchedule", "PauseSchedule", "ResumeSchedule", "DeleteSchedule")


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="pipeline")


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages stay as they are here, and take most of the time to read."""
    read = functools.cache(submission.read_package)
    monkeypatch.setattr(submission, "read_package", read)
    monkeypatch.setattr(run_commands, "read_package", read)


@pytest.fixture
def server() -> Iterator[VertexServer]:
    with serving() as found:
        yield found


def place(server: VertexServer) -> list[str]:
    return ["--project", "my-project-1", "--location", "us-central1", "--api_endpoint", server.url]


def submit(server: VertexServer, package: Path, *more: str) -> int:
    words = ["submit", "--package", str(package), "--source", "gs://images", "--root", "/data/runs"]
    return main([*words, *place(server), "--pipeline_root", "gs://bucket/vertex", *more])


def on_vertex(server: VertexServer, *words: str) -> int:
    return main([*words, "--target", "vertex", *place(server)])


def play(server: VertexServer, *states: tuple[str, dict[str, tuple[str, str]]]) -> None:
    """Lets the newest run have these states, one after another, each time somebody asks for one."""
    waiting = list(states)

    def next_state(method: str, _: Any) -> None:
        if method == "GetPipelineJob" and waiting:
            server.set_run(list(server.jobs)[-1].rpartition("/")[2], *waiting.pop(0))

    server.before = next_state


def test_submit_wait_fail_retry_succeed(
    server: VertexServer,
    vertex_package: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    play(
        server,
        ("RUNNING", {"fingerprint": ("SUCCEEDED", ""), "train": ("RUNNING", "")}),
        ("FAILED", {"fingerprint": ("SUCCEEDED", ""), "train": ("FAILED", "exit code 70")}),
    )
    assert submit(server, vertex_package, "--wait", "--steps", "500") == 1
    (run_id,) = (name.rpartition("/")[2] for name in server.jobs)
    assert f"pipelines/runs/{run_id}?project=my-project-1" in capsys.readouterr().out
    assert "train" in caplog.text
    assert f"run {run_id} failed" in caplog.text
    (job,) = server.jobs.values()
    assert job.runtime_config.parameter_values["steps"] == 500
    caplog.clear()
    assert on_vertex(server, "logs", run_id, "train") == 64
    assert "gcloud logging read 'resource.labels.job_id=(\"1003\")'" in caplog.text
    caplog.clear()
    play(server, ("FAILED", {}), ("SUCCEEDED", {"train": ("SUCCEEDED", "")}))
    assert on_vertex(server, "retry", run_id) == 0
    assert "Vertex goes on with no run that has ended" in caplog.text
    assert len(server.jobs) == 2
    again = list(server.jobs)[-1].rpartition("/")[2]
    assert on_vertex(server, "status", again, "--wait") == 0
    capsys.readouterr()
    assert on_vertex(server, "status", "--json") == 0
    told = [(run["run_id"], run["state"]) for run in json.loads(capsys.readouterr().out)]
    assert told == [(again, "SUCCEEDED"), (run_id, "FAILED")]


def test_cancel(server: VertexServer, vertex_package: Path) -> None:
    assert submit(server, vertex_package) == 0
    run_id = next(iter(server.jobs)).rpartition("/")[2]
    assert on_vertex(server, "cancel", run_id) == 0
    play(server, ("CANCELLING", {}), ("CANCELLED", {}))
    assert on_vertex(server, "status", run_id, "--wait") == 3


def test_the_time_passes(server: VertexServer, vertex_package: Path) -> None:
    assert submit(server, vertex_package, "--wait", "--timeout", "0.05") == 4
    assert server.asked().count("CancelPipelineJob") == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--stepz", "5"], "unknown parameter stepz; did you mean steps?"),
        (["--steps", "many"], "steps must be"),
        (["--project", "My Project"], "project must be the id"),
        (["--location", "us-central1-a"], "its region is us-central1"),
        (["--host", "http://localhost:1"], "host is for the Kubeflow server"),
        (["--pipeline_root", "minio://bucket"], "pipeline_root must be in a bucket"),
        (["--target", "kfp"], "was compiled for vertex, and this is kfp"),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(
    server: VertexServer, vertex_package: Path, caplog: pytest.LogCaptureFixture, more: list[str], said: str
) -> None:
    assert submit(server, vertex_package, *more) == 64
    assert said in caplog.text
    assert "Traceback" not in caplog.text
    assert not server.requests


@pytest.fixture
def file(tmp_path: Path, vertex_package: Path) -> Path:
    path = tmp_path / "schedules.yaml"
    path.write_text(_FILE.format(package=vertex_package, steps=500, enabled="true"))
    return path


_FILE = """
schedules:
  nightly:
    cron: "0 3 * * MON-FRI"
    time_zone: Europe/Berlin
    package: {package}
    target: vertex
    experiment: Nightly Runs
    pipeline_root: gs://bucket/vertex
    enabled: {enabled}
    parameters: {{source: gs://images, root: /data/runs, steps: {steps}}}
"""


def schedule(server: VertexServer, file: Path, verb: str, *more: str) -> int:
    return main(["schedule", verb, *more, "--file", str(file), *place(server)])


def states(server: VertexServer) -> list[str]:
    return [each.state.name for each in server.schedules.values()]


def written(server: VertexServer) -> list[str]:
    """The requests that change something, since this was last asked."""
    found = [method for method in server.asked() if method in WRITING]
    server.requests.clear()
    return found


def test_the_story_of_a_schedule(
    server: VertexServer, file: Path, vertex_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert schedule(server, file, "apply") == 0
    assert written(server) == ["CreateSchedule", "PauseSchedule", "UpdateSchedule", "ResumeSchedule"]
    assert states(server) == ["ACTIVE"]
    assert schedule(server, file, "apply") == 0
    assert written(server) == [], "applying the same file again changes nothing"
    assert schedule(server, file, "diff", "--exit_code") == 0
    server.clock += datetime.timedelta(minutes=2)
    (run_id,) = server.tick()
    file.write_text(_FILE.format(package=vertex_package, steps=800, enabled="true"))
    capsys.readouterr()
    assert schedule(server, file, "diff", "--exit_code") == 1
    told = capsys.readouterr().out
    assert "parameters.steps: 500 -> 800" in told
    assert "cron" not in told
    assert schedule(server, file, "apply") == 0
    # The one with a run at work is paused, and goes when that has ended.
    assert states(server) == ["PAUSED", "ACTIVE"]
    server.set_run(run_id, "SUCCEEDED")
    assert schedule(server, file, "apply") == 0
    assert states(server) == ["ACTIVE"]
    assert schedule(server, file, "pause", "nightly") == 0
    assert states(server) == ["PAUSED"]
    assert schedule(server, file, "apply") == 0
    assert states(server) == ["ACTIVE"]
    file.write_text(_FILE.format(package=vertex_package, steps=800, enabled="false"))
    assert schedule(server, file, "apply") == 0
    assert states(server) == ["PAUSED"]
    assert schedule(server, file, "run-now", "nightly") == 0
    assert len(server.jobs) == 2
    capsys.readouterr()
    assert schedule(server, file, "list") == 0
    assert "nightly" in capsys.readouterr().out
    assert schedule(server, file, "delete", "nightly") == 0
    assert states(server) == []
    assert all(job.state.name != "PIPELINE_STATE_CANCELLING" for job in server.jobs.values())


def live(server: VertexServer) -> int:
    """How many schedules could start a run within the hour."""
    soon = server.clock + datetime.timedelta(hours=1)
    return sum(each.state.name == "ACTIVE" and each.start_time <= soon for each in server.schedules.values())


@pytest.mark.slow
@pytest.mark.parametrize("acted", [False, True])
def test_apply_is_stopped_at_every_request(server: VertexServer, file: Path, vertex_package: Path, acted: bool) -> None:
    assert schedule(server, file, "apply") == 0
    kept = {name: type(each)(each) for name, each in server.schedules.items()}
    file.write_text(_FILE.format(package=vertex_package, steps=800, enabled="true"))
    fired = 0
    for stop in range(1, 30):
        server.schedules.clear()
        server.schedules.update({name: type(each)(each) for name, each in kept.items()})
        server.requests.clear()

        def stop_there(_method: str, _message: Any, stop: int = stop) -> None:
            # From there on nothing gets through, as if the program were gone.
            if len(server.requests) >= stop:
                raise Refused(grpc.StatusCode.UNAVAILABLE, "gone")

        def watch(_method: str, _message: Any) -> None:
            assert live(server) <= 1

        server.before, server.after = (watch, stop_there) if acted else (stop_there, watch)
        code = schedule(server, file, "apply")
        assert live(server) <= 1
        server.before = server.after = None
        if code == 0:
            break
        fired += 1
        assert code == 75
        assert schedule(server, file, "apply") == 0
        (left,) = server.schedules.values()
        assert live(server) == 1
        assert left.create_pipeline_job_request.pipeline_job.runtime_config.parameter_values["steps"] == 800
    assert fired >= 8
