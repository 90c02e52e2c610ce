"""The contract server answers as the recorded Kubeflow Pipelines server wherever our client can reach it."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import croniter
import pytest
import requests
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.profiles.profiles import KFP
from tests.fakes.kubeflow import cron
from tests.fakes.kubeflow.requests import Refusal
from tests.fakes.kubeflow.server import HangUp, Request, Server, serving
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


def refused(answer: requests.Response) -> tuple[int, int]:
    """Status and code of an answer that is an error."""
    return answer.status_code, answer.json()["code"]


def uploaded(server: Server, profile: str) -> dict[str, Any]:
    """Uploads our package for a profile; what a run or a recurring run of it says."""
    text = package_of(profile, KFP)
    with requests.Session() as session:
        session.trust_env = False
        url, files = f"{server.url}{API}/pipelines/upload", {"uploadfile": ("pipeline.yaml", text)}
        assert session.post(url, params={"name": profile}, files=files, timeout=10).status_code == 200
    (version,) = server.store.versions.values()
    experiment_id = ask(server, "POST", "/experiments", {"display_name": "mine"}).json()["experiment_id"]
    values = {"STRING": "", "NUMBER_INTEGER": 1, "NUMBER_DOUBLE": 0.5, "BOOLEAN": True}
    defined = next(yaml.safe_load_all(text))["root"]["inputDefinitions"]["parameters"]
    parameters = {
        name: values[parameter["parameterType"]]
        for name, parameter in defined.items()
        if "defaultValue" not in parameter
    }
    return {
        "display_name": "Every Monday",
        "experiment_id": experiment_id,
        "pipeline_version_reference": {name: version[name] for name in ("pipeline_id", "pipeline_version_id")},
        "runtime_config": {"parameters": parameters},
    }


def weekly(body: dict[str, Any], mode: str = "ENABLE") -> dict[str, Any]:
    return {**body, "mode": mode, "max_concurrency": "1", "trigger": {"cron_schedule": {"cron": "0 0 3 * * 1"}}}


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


@pytest.mark.parametrize("profile", ["cpu", "gpu-l4-4", "tpu-v5e-4-spot"])
def test_our_packages_run_on_it(server: Server, profile: str) -> None:
    """The recorded server took this kind as well, for runs and for recurring runs."""
    body = uploaded(server, profile)
    assert ask(server, "POST", "/runs", body).status_code == 200
    assert ask(server, "POST", "/recurringruns", weekly(body)).status_code == 200


def test_an_old_server_does_not_know_new_settings() -> None:
    with serving(version="2.2.0") as server:
        answer = ask(server, "POST", "/runs", uploaded(server, "gpu-l4-4"))
        assert refused(answer) == (500, 13)
        assert answer.json()["message"].endswith('unknown field "emptyDirMounts"')


def cron_field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    # croniter takes a range of one, such as `0-0`, for all of them.
    ends = st.tuples(number, number).filter(lambda both: both[0] != both[1])
    span = ends.map(lambda both: f"{min(both)}-{max(both)}")
    part = st.one_of(
        st.just("*"),
        number.map(str),
        span,
        st.integers(1, most).map(lambda step: f"*/{step}"),
        st.tuples(span, st.integers(1, most)).map(lambda both: f"{both[0]}/{both[1]}"),
    )
    return st.lists(part, min_size=1, max_size=3).map(",".join)


CRON = st.tuples(*(cron_field(*ends) for ends in ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)))).map(" ".join)


@given(CRON)
def test_cron_is_read_as_croniter_reads_it(expression: str) -> None:
    read, _ = croniter.croniter.expand(expression, second_at_beginning=True)
    seconds_first = [read[-1], *read[:-1]]
    bounds = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    wanted = [
        set(range(least, most + 1)) if "*" in values else set(values)
        for values, (least, most) in zip(seconds_first, bounds, strict=True)
    ]
    assert cron.fields(expression) == wanted


def mistyped(expression: str, at: int, character: str) -> str:
    at %= len(expression) + 1
    return expression[:at] + character + expression[at:]


@given(st.builds(mistyped, CRON, st.integers(0, 200), st.sampled_from("0123456789*/-,?LW#a ")))
def test_cron_refuses_what_croniter_refuses(expression: str) -> None:
    """Only that way round: croniter knows more (`L`, `#`, Sunday as 7, ranges that wrap)."""
    try:
        cron.check(expression)
    except Refusal:
        return
    # Go's library takes these and makes nothing of what is odd in them.
    odd = re.search(r"[*?][^*?/, ]*-|\?.|,,|(^| ),|,( |$)", expression)
    if not odd and len(expression.split()) == 6:
        assert croniter.croniter.is_valid(expression, second_at_beginning=True)


@pytest.mark.parametrize(
    ("expression", "reading"),
    [
        ("0 9 * * *", [{0}, {9}, set(range(24)), set(range(1, 32)), set(range(1, 13)), set(range(7))]),
        ("0 9 * * 1-5", [{0}, {9}, set(range(24)), set(range(1, 32)), set(range(1, 6)), set(range(7))]),
        ("0 0 9 ? * 2-6", [{0}, {0}, {9}, set(range(1, 32)), set(range(1, 13)), set(range(2, 7))]),
        ("0 0 9 * jan MON-fri", [{0}, {0}, {9}, set(range(1, 32)), {1}, set(range(1, 6))]),
        ("5/20 0 0 1 1 0-0", [{5, 25, 45}, {0}, {0}, {1}, {1}, {0}]),
    ],
)
def test_cron_is_read_from_the_seconds_on(expression: str, reading: list[set[int]]) -> None:
    assert cron.fields(expression) == reading


@pytest.mark.parametrize("change", [{"zzz": 1}, {"display_name": 3}, {"runtime_config": {"zzz": 1}}, {"trigger": []}])
def test_what_the_api_does_not_know_is_refused(server: Server, change: dict[str, Any]) -> None:
    body = weekly(uploaded(server, "cpu"))
    assert refused(ask(server, "POST", "/recurringruns", body | change)) == (400, 3)


def test_a_run_is_what_is_reported_of_it(server: Server) -> None:
    run_id = ask(server, "POST", "/runs", uploaded(server, "cpu")).json()["run_id"]
    server.set_run(run_id, "RUNNING", {"train": "RUNNING"})
    server.set_run(run_id, "FAILED", {"train": ("FAILED", "OOMKilled"), "publish": "SKIPPED"})
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert [status["state"] for status in run["state_history"]] == ["PENDING", "RUNNING", "FAILED"]
    tasks = {task["display_name"]: task for task in run["run_details"]["task_details"]}
    assert (tasks["train"]["state"], tasks["train"]["error"]["message"]) == ("FAILED", "OOMKilled")
    assert {"root", "root-driver", "train-driver", "publish-driver", "executor"} <= set(tasks)
    assert ask(server, "POST", f"/runs/{run_id}:retry").status_code == 200
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert (run["state"], run.get("state_history"), run["finished_at"][:4]) == ("RUNNING", None, "1970")
    server.set_run(run_id, "SUCCEEDED")
    assert refused(ask(server, "POST", f"/runs/{run_id}:retry")) == (409, 10)
    assert refused(ask(server, "POST", f"/runs/{run_id}:terminate")) == (400, 3)


def test_a_terminated_run_fails(server: Server) -> None:
    run_id = ask(server, "POST", "/runs", uploaded(server, "cpu")).json()["run_id"]
    server.set_run(run_id, "RUNNING")
    assert ask(server, "POST", f"/runs/{run_id}:terminate").status_code == 200
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert (run["state"], [each["state"] for each in run["state_history"]]) == ("CANCELING", ["PENDING", "RUNNING"])
    server.set_run(run_id, "RUNNING")
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "FAILED"


def test_schedules_start_runs_and_their_end_kills_them(server: Server) -> None:
    body = uploaded(server, "cpu")
    recurring, paused = (
        ask(server, "POST", "/recurringruns", weekly(body, mode)).json()["recurring_run_id"]
        for mode in ("ENABLE", "DISABLE")
    )
    (run_id,) = server.tick()
    run = ask(server, "GET", f"/runs/{run_id}").json()
    assert "state" not in run
    assert run["recurring_run_id"] == recurring
    assert re.fullmatch(r"everymonday\w{5}-1-\d+", run["display_name"])
    assert server.tick() == []  # one at a time
    server.set_run(run_id, "SUCCEEDED")
    (second,) = server.tick()
    for recurring_run_id, killed in ((paused, []), (recurring, [second])):
        assert ask(server, "DELETE", f"/recurringruns/{recurring_run_id}").status_code == 200
        assert server.killed_runs == killed
    assert ask(server, "GET", f"/runs/{second}").json()["state"] == "FAILED"
    assert ask(server, "GET", f"/runs/{run_id}").json()["state"] == "SUCCEEDED"


def test_users_and_namespaces_are_kept_apart() -> None:
    with serving(multi_user=True) as server:
        assert ask(server, "GET", "/healthz", Cookie="a=b").json()["multi_user"] is True
        assert refused(ask(server, "GET", "/experiments")) == (401, 16)
        assert refused(ask(server, "GET", "/experiments", Cookie="a=b")) == (400, 3)
        assert refused(ask(server, "GET", "/experiments?namespace=team-c", Cookie="a=b")) == (403, 7)
        assert ask(server, "GET", "/experiments?namespace=team-a", Cookie="a=b").json() == {}


@pytest.mark.parametrize("hook", ["before", "after"])
def test_a_hook_may_hang_up(server: Server, hook: str) -> None:
    def hang_up(request: Request) -> None:
        raise HangUp

    setattr(server, hook, hang_up)
    with pytest.raises(requests.ConnectionError):
        ask(server, "POST", "/experiments", {"display_name": "mine"})
    assert len(server.store.experiments) == (hook == "after")


def test_a_mistake_in_a_hook_is_not_swallowed() -> None:
    def mistaken(request: Request) -> None:
        raise KeyError(request.path)

    def serve_with_it() -> None:
        with serving() as server:
            server.before = mistaken
            ask(server, "GET", "/healthz")

    with pytest.raises(KeyError, match="healthz"):
        serve_with_it()
