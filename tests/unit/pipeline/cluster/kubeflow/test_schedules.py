"""`wgan schedule` on Kubeflow, without a file, and mistakes; see `test_story.py` for what is alike on Vertex."""

import zoneinfo
from pathlib import Path
from typing import Any

import kfp_server_api
import pytest

from components.core.container_images import VERSION
from pipeline.cluster.kubeflow import schedules as kubeflow_schedules
from tests.fakes.kubeflow.server import Server, serving
from tests.unit.pipeline.cluster.conftest import Schedule, Write, recurring
from tests.unit.pipeline.conftest import ended as wgan


def test_a_schedule_is_what_the_file_says(write: Write, server: Server, schedule: Schedule) -> None:
    write(weekly={}, nightly={"cron": "30 2 * * 1-7", "enabled": False, "catch_up": True})
    schedule("apply")
    weekly, nightly = recurring(server)
    assert (weekly["mode"], nightly["mode"]) == ("ENABLE", "DISABLE")
    assert weekly["trigger"]["cron_schedule"]["cron"] == "0 0 9 * * 1"
    assert nightly["trigger"]["cron_schedule"]["cron"] == "0 30 2 * * *"
    assert (weekly["max_concurrency"], weekly["no_catchup"], nightly.get("no_catchup")) == ("1", True, None)
    assert weekly["pipeline_version_reference"].keys() == {"pipeline_id", "pipeline_version_id"}
    assert weekly["runtime_config"] == {
        "parameters": {"source": "gs://images", "root": "/data/runs", "critic_learning_rate": 0.001},
        "pipeline_root": "gs://bucket/root",
    }
    # A package is there once, however many schedules name it.
    assert [version["name"].startswith(f"{VERSION}-") for version in server.store.versions.values()].count(True) == 1


def test_what_others_made_is_never_touched(write: Write, server: Server, schedule: Schedule) -> None:
    write(weekly={})
    schedule("apply")
    (ours,) = recurring(server)
    kept = ("experiment_id", "pipeline_version_reference", "runtime_config", "trigger", "max_concurrency", "mode")
    api = kfp_server_api.RecurringRunServiceApi(kfp_server_api.ApiClient(kfp_server_api.Configuration(host=server.url)))
    for other in ({"description": "by hand"}, {"description": ""}, {"display_name": "Clone of weekly"}):
        body = {name: ours[name] for name in (*kept, "display_name", "description")} | other
        api.recurring_run_service_create_recurring_run(recurring_run=body)
    before = {key: value for key, value in server.store.recurring_runs.items() if value != ours}
    assert len(before) == 3
    write(weekly={"cron": "0 7 * * 1"})
    assert schedule("apply")[1] == ["weekly: replaced", "weekly: ID deleted"]
    assert len(schedule("list")[1]) == 2
    write()
    assert schedule("apply", "--prune", "--target", "kfp")[1] == ["weekly: ID deleted"]
    assert schedule("pause", "Clone of weekly", "--target", "kfp")[0] == 64
    assert server.store.recurring_runs == before


def test_all_pages_are_read(write: Write, server: Server, schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeflow_schedules, "_PAGE", 2)
    names = [f"schedule-{index}" for index in range(5)]
    write(**{name: {} for name in names})
    schedule("apply")
    for last in (False, True):
        started = server.tick()
        for run in started[:-1] if last else started:
            server.set_run(run, "SUCCEEDED")
    assert schedule("apply")[1] == ["kfp: nothing to change"]
    write(**{name: {} for name in names[:-1]})
    # The run at work is on the last page of many.
    assert schedule("apply", "--prune")[1][0].startswith("schedule-4: ID stays, paused")


def test_on_a_server_of_many_users(write: Write, path: Path, bare_desk: None, monkeypatch: pytest.MonkeyPatch) -> None:
    write(weekly={})
    monkeypatch.setenv("KFP_TOKEN", "secret")
    with serving(multi_user=True, token="secret") as server:  # noqa: S106
        words = ("schedule", "apply", "--file", str(path), "--host", server.url, "--namespace", "team-a")
        assert [wgan(*words).out for _ in range(2)] == ["weekly: created\n", "kfp: nothing to change\n"]
        assert [live["namespace"] for live in recurring(server)] == ["team-a"]


@pytest.mark.parametrize("gone", ["version", "experiment"])
def test_what_is_gone_is_made_anew(write: Write, server: Server, schedule: Schedule, gone: str) -> None:
    write(weekly={})
    schedule("apply")
    (run,) = server.tick()
    before = recurring(server)[0]
    if gone == "version":
        del server.store.versions[before["pipeline_version_reference"]["pipeline_version_id"]]
    else:
        del server.store.experiments[before["experiment_id"]]
    assert schedule("diff")[1][0] == "replace weekly (kfp)"
    replaced, stays, *_ = schedule("apply")[1]
    assert (replaced, stays.startswith("weekly: ID stays, paused")) == ("weekly: replaced", True)
    after = recurring(server)[1]
    assert after["pipeline_version_reference"]["pipeline_version_id"] in server.store.versions
    assert after["experiment_id"] in server.store.experiments
    server.set_run(run, "SUCCEEDED")
    assert schedule("apply")[1] == ["weekly: ID deleted"]
    assert schedule("apply")[1] == ["kfp: nothing to change"]


def test_descriptions_fit_the_database_of_servers() -> None:
    for zone in zoneinfo.available_timezones():
        assert len(kubeflow_schedules.mark_for("n" * 63, zone, "0" * 64)) <= 255


def test_no_file_is_needed(write: Write, server: Server, schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    write(weekly={})
    schedule("apply")
    monkeypatch.chdir("/")
    for words, mode in ((["pause", "weekly"], "DISABLE"), (["resume", "weekly"], "ENABLE")):
        assert wgan("schedule", *words, "--target", "kfp", "--host", server.url).code == 0
        assert recurring(server)[0]["mode"] == mode
    assert "weekly    kfp     enabled" in wgan("schedule", "list", "--target", "kfp", "--host", server.url).out
    # Of two, one of which waits for its run, the file says which may start runs.
    server.tick()
    write(weekly={"cron": "0 7 * * 1"})
    schedule("apply")
    schedule("pause", "weekly")
    assert wgan("schedule", "resume", "weekly", "--target", "kfp", "--host", server.url).code == 64
    assert [live["mode"] for live in recurring(server)] == ["DISABLE", "DISABLE"]
    assert schedule("resume", "weekly")[:2] == (0, ["weekly: resumed"])
    assert [live["mode"] for live in recurring(server)] == ["DISABLE", "ENABLE"]


@pytest.mark.parametrize(
    ("words", "content", "named"),
    [
        (["apply"], {}, "--target kfp or vertex"),
        (["pause", "monthly"], {"weekly": {}}, "monthly"),
        (["apply"], {"weekly": {"cron": "0 0 9 * * 1"}}, "schedules.weekly.cron"),
        (["pause"], {"weekly": {}}, "NAME"),
    ],
)
def test_mistakes(
    write: Write, server: Server, schedule: Schedule, words: list[str], content: dict[str, Any], named: str
) -> None:
    write(**content)
    code, printed, logged = schedule(*words)
    assert (code, printed, len(logged)) == (64, [], 1)
    assert named in logged[0]
    assert all(request.method == "GET" for request in server.requests)


def test_nothing_is_sent_where_one_server_cannot_be_named(
    write: Write, server: Server, schedule: Schedule, packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    write(weekly={}, nightly={"target": "vertex", "package": str(packages / "vertex.yaml")})
    code, _, logged = schedule("apply", "--location", "us-central1")
    assert (code, len(logged)) == (64, 1)
    assert "--project" in logged[0]
    assert server.requests == []
