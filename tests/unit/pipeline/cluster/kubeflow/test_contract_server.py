"""The contract server answers as the recorded Kubeflow Pipelines server wherever our client can reach it."""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from pipeline.profiles.profiles import KFP
from tests.fakes.kubeflow.server import Request, Server, serving
from tests.unit.pipeline.packages import package_of

PROBE = Path(os.environ.get("KFP_PROBE_DIR", "none"))
API = "/apis/v2beta1"
# Recorded questions that this server answers otherwise, because our client never asks them.
_OTHER_ROUTES = {
    *("archive_run", "archive_run again", "unarchive_run", "delete_run", "archive_experiment", "unarchive_experiment"),
    *("get recurring run raw", "get recurring after disable", "get recurring after enable", "wrong method"),
    *("delete_pipeline with versions", "delete_pipeline_version", "get pipeline without versions", "delete_pipeline"),
    "delete_experiment with runs",
}
_OTHER_QUESTIONS = {
    *(f"list runs filter {what}" for what in ("name key 'name'", "substring", "snake string_value", "experiment_id")),
    *(f"list runs filter {what}" for what in ("state", "storage_state", "created_at")),
    *("list recurring filter key name", "list pipelines page_size -1"),
    *(f"create run {what}" for what in ("pipeline_id only", "no experiment", "both spec and reference", "from spec")),
    *(f"recurring {what}" for what in ("no trigger", "empty trigger", "both triggers", "bad start_time")),
    *(f"recurring {what}" for what in ("pipeline_id only", "from spec")),
    *(f"recurring raw cron {cron!r}" for cron in ("0 9 * * *", "0 9 * * 1-5", "@daily", "@every 1h")),
    "recurring raw cron '0 0 9 * * MON-FRI'",
    "upload yaml with a syntax error",  # never answered: see `Server.hangs`
}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, f"{server.url}{API}{path}", json=body, headers=headers, timeout=10)


@pytest.fixture
def start(server: Server) -> dict[str, Any]:
    """What a run or a recurring run of our package says."""
    with requests.Session() as session:
        session.trust_env = False
        url, files = f"{server.url}{API}/pipelines/upload", {"uploadfile": ("pipeline.yaml", package_of("cpu", KFP))}
        assert session.post(url, params={"name": "ours"}, files=files, timeout=10).status_code == 200
    (version,) = server.store.versions.values()
    experiment_id = ask(server, "POST", "/experiments", {"display_name": "mine"}).json()["experiment_id"]
    return {
        "display_name": "Every Monday",
        "experiment_id": experiment_id,
        "pipeline_version_reference": {name: version[name] for name in ("pipeline_id", "pipeline_version_id")},
        "runtime_config": {"parameters": {"source": "digits", "root": "/data/runs"}},
    }


@pytest.mark.skipif(not PROBE.is_dir(), reason="no answers of a Kubeflow server: set KFP_PROBE_DIR to their folder")
def test_answers_as_the_recorded_server(server: Server, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(PROBE / "probe.py"), server.url, str(tmp_path / "answers.jsonl")]
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    differ = {line for line, following in itertools.pairwise(lines) if following.startswith("    real ")}
    assert differ == _OTHER_ROUTES | _OTHER_QUESTIONS
    assert lines[-1].startswith("177 cases, ")
    assert server.hangs == ["upload of bad.yaml, which is no YAML"]


def test_what_is_reported_of_a_run_and_forgotten_by_a_retry(server: Server, start: dict[str, Any]) -> None:
    run_id = ask(server, "POST", "/runs", start).json()["run_id"]
    server.set_run(run_id, "RUNNING", {"train": "RUNNING"})
    assert ask(server, "POST", f"/runs/{run_id}:terminate").status_code == 200
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "CANCELING"
    server.set_run(run_id, "RUNNING", {"train": ("FAILED", "OOMKilled"), "publish": "SKIPPED"})
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert [status["state"] for status in run["state_history"]] == ["PENDING", "RUNNING", "FAILED"]
    tasks = {task["display_name"]: task for task in run["run_details"]["task_details"]}
    assert (tasks["train"]["state"], tasks["train"]["error"]["message"]) == ("FAILED", "OOMKilled")
    assert {"root", "root-driver", "train-driver", "publish-driver", "executor"} <= set(tasks)
    assert ask(server, "POST", f"/runs/{run_id}:retry").status_code == 200
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert (run["state"], run.get("state_history"), run["finished_at"][:4]) == ("RUNNING", None, "1970")


def test_schedules_start_runs_and_their_end_kills_them(server: Server, start: dict[str, Any]) -> None:
    weekly = {**start, "max_concurrency": "1", "trigger": {"cron_schedule": {"cron": "0 0 3 * * 1"}}}
    recurring, paused = (
        ask(server, "POST", "/recurringruns", {**weekly, "mode": mode}).json()["recurring_run_id"]
        for mode in ("ENABLE", "DISABLE")
    )
    (run_id,) = server.tick()
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert "state" not in run
    assert run["recurring_run_id"] == recurring
    assert server.tick() == []  # one at a time
    server.set_run(run_id, "SUCCEEDED")
    (second,) = server.tick()
    for recurring_run_id, killed in ((paused, []), (recurring, [second])):
        assert ask(server, "DELETE", f"/recurringruns/{recurring_run_id}").status_code == 200
        assert server.store.killed_runs == killed
    assert ask(server, "GET", f"/runs/{second}").json()["state"] == "FAILED"
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "SUCCEEDED"


def test_a_mistake_in_a_hook_is_not_swallowed() -> None:
    def mistaken(request: Request) -> None:
        raise KeyError(request.path)

    def serve_with_it() -> None:
        with serving() as server:
            server.before = mistaken
            ask(server, "GET", "/healthz")

    with pytest.raises(KeyError, match="healthz"):
        serve_with_it()
