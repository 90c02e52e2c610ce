"""The contract server answers as the recorded Kubeflow Pipelines server wherever our client can reach it."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.kubeflow.server import serving
from tests.fakes.kubeflow.store import Store

PROBE = Path(os.environ.get("KFP_PROBE_DIR", os.devnull))
# Recorded requests that this server answers differently, because our client never sends them.
_OTHER = {
    *("archive_run", "archive_run again", "unarchive_run", "delete_run", "archive_experiment", "unarchive_experiment"),
    *("get recurring run raw", "get recurring after disable", "get recurring after enable", "wrong method"),
    *("delete_pipeline with versions", "delete_pipeline_version", "get pipeline without versions", "delete_pipeline"),
    "delete_experiment with runs",
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


@pytest.mark.skipif(not PROBE.is_dir(), reason="no answers of a Kubeflow server: set KFP_PROBE_DIR to their folder")
def test_answers_as_the_recorded_server(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    with serving() as server:
        command = [sys.executable, "-W", "ignore", str(PROBE / "probe.py"), server.url, str(tmp_path / "answers.jsonl")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line for line, following in itertools.pairwise(lines) if following.startswith("    real ")} == _OTHER
    assert lines[-1].startswith("177 cases, ")
    assert server.hangs == ["upload of bad.yaml, which is no YAML"]


def test_what_is_reported_of_a_run_and_forgotten_by_a_retry() -> None:
    store = Store()
    run = store.add_run({}, "PENDING")
    store.report(run["run_id"], "RUNNING", {"train": "RUNNING"})
    store.terminated.add(run["run_id"])
    store.report(run["run_id"], "RUNNING", {"train": ("FAILED", "OOMKilled"), "publish": "SKIPPED"})
    assert [status["state"] for status in run["state_history"]] == ["PENDING", "RUNNING", "FAILED"]
    tasks = {task["display_name"]: task for task in run["run_details"]["task_details"]}
    assert (tasks["train"]["state"], tasks["train"]["error"]["message"]) == ("FAILED", "OOMKilled")
    assert {"root", "root-driver", "train-driver", "publish-driver", "executor"} <= set(tasks)
    store.retry(run["run_id"])
    assert (run["state"], run["state_history"], run["finished_at"][:4]) == ("RUNNING", [], "1970")


def test_schedules_start_runs_and_their_end_kills_them() -> None:
    store = Store()
    names = ("experiment_id", "pipeline_version_reference", "runtime_config", "service_account")
    weekly = {"display_name": "weekly", "max_concurrency": "1", **dict.fromkeys(names, "x")}
    recurring, paused = (
        store.add("recurring_run", {**weekly, "mode": mode})["recurring_run_id"] for mode in ("ENABLE", "DISABLE")
    )
    (run_id,) = store.tick()
    assert (store.runs[run_id]["state"], store.runs[run_id]["recurring_run_id"]) == ("", recurring)
    assert store.tick() == []  # one at a time
    store.report(run_id, "SUCCEEDED", {})
    (second,) = store.tick()
    for recurring_run_id, killed in ((paused, []), (recurring, [second])):
        store.delete_recurring_run(recurring_run_id)
        assert store.killed_runs == killed
    assert [store.runs[each]["state"] for each in (run_id, second)] == ["SUCCEEDED", "FAILED"]
