"""The contract server answers as the recorded Kubeflow Pipelines server wherever our client can reach it."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.kubeflow.server import serving

PROBE = Path(os.environ.get("KFP_PROBE_DIR", os.devnull))
# Recorded requests that this server answers differently, because our client never sends them.
_OTHER = {
    *("archive_run", "archive_run again", "unarchive_run", "delete_run", "archive_experiment", "unarchive_experiment"),
    *("get recurring run raw", "get recurring after disable", "get recurring after enable", "wrong method"),
    *("delete_pipeline with versions", "delete_pipeline_version", "get pipeline without versions", "delete_pipeline"),
    "delete_experiment with runs",
    *(f"list runs filter {case}" for case in ("name key 'name'", "substring", "snake string_value", "experiment_id")),
    *(f"list runs filter {case}" for case in ("state", "storage_state", "created_at")),
    *("list recurring filter key name", "list pipelines page_size -1"),
    *(f"create run {case}" for case in ("pipeline_id only", "no experiment", "both spec and reference", "from spec")),
    *(f"recurring {case}" for case in ("no trigger", "empty trigger", "both triggers", "bad start_time")),
    *(f"recurring {case}" for case in ("pipeline_id only", "from spec")),
    *(f"recurring raw cron {cron!r}" for cron in ("0 9 * * *", "0 9 * * 1-5", "@daily", "@every 1h")),
    "recurring raw cron '0 0 9 * * MON-FRI'",
    "upload yaml with a syntax error",  # never answered
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
