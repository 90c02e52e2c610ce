"""The story of a file of schedules on a Kubeflow server: `wgan schedule` against the contract server, over HTTP."""

import dataclasses
import functools
import json
import re
import subprocess
import sys
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kfp_server_api
import pytest
import yaml

from pipeline.__main__ import main
from pipeline.cluster import schedule_file, submission
from pipeline.cluster.kubeflow import schedules as kubeflow_schedules
from pipeline.cluster.schedule_file import ScheduleSettings
from tests.fakes.kubeflow.server import Answer, Request, Server, serving
from tests.unit.pipeline.cluster import schedule_files

ROOT = Path(__file__).parents[4]
# What a request that changes nothing is.
_READS = {"GET"}
Wgan = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def server(bare_desk: None) -> Iterator[Server]:
    with serving() as found:
        yield found
    assert found.killed_runs == []
    assert found.hangs == []


@pytest.fixture(scope="module", autouse=True)
def packages_read_once() -> Iterator[None]:
    """The packages stay as they are, and are long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submission, "read_package", functools.cache(submission.read_package))
        yield


class Desk:
    """A file of schedules, and the command."""

    def __init__(self, path: Path, package: Path) -> None:
        self.path, self.package = path, package

    def write(self, **schedules: dict[str, Any]) -> None:
        """Writes schedules by name, each with what it says besides, or otherwise."""
        schedule_files.write(self.path, self.package, "kfp", **schedules)


@pytest.fixture
def desk(tmp_path: Path, kfp_package: Path) -> Desk:
    return Desk(tmp_path / "schedules.yaml", kfp_package)


@pytest.fixture
def wgan(desk: Desk, server: Server, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Wgan:
    """`wgan schedule ...` there; its exit code, what it printed and what it logged."""

    def run(*words: str) -> tuple[int, list[str], list[str]]:
        capsys.readouterr()
        caplog.clear()
        code = main(["schedule", *words, "--file", str(desk.path), "--host", server.url])
        printed = [
            re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", line)
            for line in capsys.readouterr().out.splitlines()
        ]
        assert "Traceback" not in caplog.text
        return code, printed, [record.getMessage() for record in caplog.records]

    return run


def recurring(server: Server, name: str = "") -> list[dict[str, Any]]:
    return [each for each in server.store.recurring_runs.values() if not name or each["display_name"] == name]


def writes(server: Server, first: int = 0) -> list[str]:
    return [f"{each.method} {each.path}" for each in server.requests[first:] if each.method not in _READS]


def test_a_schedule_is_what_the_file_says(desk: Desk, server: Server, wgan: Wgan) -> None:
    desk.write(weekly={}, nightly={"cron": "30 2 * * 1-7", "enabled": False})
    wgan("apply")
    weekly, nightly = recurring(server)
    assert (weekly["mode"], nightly["mode"]) == ("ENABLE", "DISABLE")
    assert weekly["trigger"]["cron_schedule"]["cron"] == "0 0 9 * * 1"
    assert nightly["trigger"]["cron_schedule"]["cron"] == "0 30 2 * * *"
    assert (weekly["max_concurrency"], weekly["no_catchup"]) == ("1", True)
    assert weekly["pipeline_version_reference"].keys() == {"pipeline_id", "pipeline_version_id"}
    assert weekly["runtime_config"] == {
        "parameters": {"source": "gs://images", "root": "/data/runs", "critic_learning_rate": 0.001},
        "pipeline_root": "gs://bucket/root",
    }
    # A package is there once, however many schedules name it.
    assert len([each for each in server.store.versions.values() if each["name"].startswith("0.1.0-")]) == 1


def test_without_a_file_what_is_there_can_be_steered(
    desk: Desk, server: Server, wgan: Wgan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write(weekly={})
    wgan("apply")
    monkeypatch.chdir(desk.path.parent / "..")
    for words, mode in ((["pause", "weekly"], "DISABLE"), (["resume", "weekly"], "ENABLE")):
        assert main(["schedule", *words, "--target", "kfp", "--host", server.url]) == 0
        assert recurring(server)[0]["mode"] == mode
    assert main(["schedule", "list", "--target", "kfp", "--host", server.url]) == 0
    assert "weekly    kfp     enabled" in capsys.readouterr().out


def copy_of(server: Server, **other: Any) -> None:
    """A recurring run that somebody made from ours, by another name or description."""
    kept = ("experiment_id", "pipeline_version_reference", "runtime_config", "trigger", "max_concurrency", "mode")
    ours = recurring(server)[0]
    body = {name: ours[name] for name in (*kept, "display_name", "description")} | other
    api = kfp_server_api.RecurringRunServiceApi(kfp_server_api.ApiClient(kfp_server_api.Configuration(host=server.url)))
    api.recurring_run_service_create_recurring_run(recurring_run=body)


def test_what_others_made_is_never_touched(desk: Desk, server: Server, wgan: Wgan) -> None:
    desk.write(weekly={})
    wgan("apply")
    copy_of(server, description="by hand")
    copy_of(server, description="")
    copy_of(server, display_name="Clone of weekly")
    before = {key: value for key, value in server.store.recurring_runs.items() if value != recurring(server)[0]}
    assert len(before) == 3
    desk.write(weekly={"cron": "0 7 * * 1"})
    assert wgan("apply")[1] == ["weekly: replaced", "weekly: ID deleted"]
    assert len(wgan("list")[1]) == 2
    desk.write()
    assert wgan("apply", "--prune", "--target", "kfp")[1] == ["weekly: ID deleted"]
    assert wgan("pause", "Clone of weekly", "--target", "kfp")[0] == 64
    assert server.store.recurring_runs == before


def test_all_pages_are_read(desk: Desk, server: Server, wgan: Wgan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeflow_schedules, "_PAGE", 2)
    names = [f"schedule-{index}" for index in range(5)]
    desk.write(**{name: {} for name in names})
    wgan("apply")
    for _ in range(3):
        ended = server.tick()
        for run in ended[:-1] if _ == 2 else ended:
            server.set_run(run, "SUCCEEDED")
    assert wgan("apply")[1] == ["kfp: nothing to change"]
    desk.write(**{name: {} for name in names[:-1]})
    # The run at work is on the last page of many.
    assert wgan("apply", "--prune")[1][0] == "schedule-4: ID stays, paused, for its active runs: ID"


def test_on_a_server_of_many_users(desk: Desk, bare_desk: None, capsys: pytest.CaptureFixture[str]) -> None:
    desk.write(weekly={})
    with serving(multi_user=True, token="secret") as server:  # noqa: S106
        token = desk.path.with_name("token")
        token.write_text("secret")
        flags = ("--file", str(desk.path), "--host", server.url, "--token_file", str(token), "--namespace", "team-a")
        for _ in range(2):
            assert main(["schedule", "apply", *flags]) == 0
        assert capsys.readouterr().out.splitlines() == ["weekly: created", "kfp: nothing to change"]
        assert [each["namespace"] for each in recurring(server)] == ["team-a"]


def test_a_version_that_is_gone_is_pinned_anew(desk: Desk, server: Server, wgan: Wgan) -> None:
    desk.write(weekly={})
    wgan("apply")
    pinned = recurring(server)[0]["pipeline_version_reference"]["pipeline_version_id"]
    del server.store.versions[pinned]
    assert wgan("diff")[1][0] == "replace weekly (kfp)"
    assert wgan("apply")[1] == ["weekly: replaced", "weekly: ID deleted"]
    again = recurring(server)[0]["pipeline_version_reference"]["pipeline_version_id"]
    assert again in server.store.versions
    assert wgan("apply")[1] == ["kfp: nothing to change"]


def test_an_experiment_that_is_gone_is_made_anew_and_its_run_goes_on(desk: Desk, server: Server, wgan: Wgan) -> None:
    desk.write(weekly={})
    wgan("apply")
    (run,) = server.tick()
    server.store.experiments.pop(recurring(server)[0]["experiment_id"])
    assert wgan("apply")[1] == [
        "weekly: replaced",
        "weekly: ID stays, paused, for its active runs: ID",
        "kfp: apply again later to delete what stays",
    ]
    server.set_run(run, "SUCCEEDED")
    assert wgan("apply")[1] == ["weekly: ID deleted"]
    assert wgan("apply")[1] == ["kfp: nothing to change"]


def test_descriptions_fit_the_database_of_servers(desk: Desk) -> None:
    desk.write(**{"n" * 63: {}})
    (schedule,) = schedule_file.read(desk.path)
    for zone in zoneinfo.available_timezones():
        assert len(kubeflow_schedules._mark(dataclasses.replace(schedule, time_zone=zone))) <= 255


def test_help_asks_for_no_server_and_loads_no_client() -> None:
    heavy = ("kfp", "kfp_server_api", "kubernetes", "urllib3", "grpc", "google.api_core", "google.cloud.aiplatform_v1")
    code = (
        "import contextlib, sys; from pipeline.__main__ import main\n"
        "with contextlib.suppress(SystemExit): main(['schedule', 'apply', '--help'])\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert found.stdout.startswith("usage: wgan schedule apply")
    assert found.stdout.splitlines()[-1] == "[]"


def test_what_the_server_refuses_is_one_line(desk: Desk, server: Server, wgan: Wgan) -> None:
    desk.write(weekly={})
    wgan("apply")
    desk.write(weekly={"cron": "0 7 * * 1"})

    def refuse(request: Request) -> None:
        if request.method == "POST" and request.path.endswith("/recurringruns"):
            cause = "user is not allowed to create workflows"
            raise Answer(403, json.dumps({"code": 7, "message": cause, "details": [{"code": 7, "message": cause}]}))

    server.before = refuse
    code, printed, logged = wgan("apply")
    assert (code, printed, len(logged)) == (64, [], 1)
    assert logged[0].startswith(
        "cannot create schedule weekly: the server says: user is not allowed to create workflows"
    )
    assert [each["mode"] for each in recurring(server)] == ["ENABLE"]


@pytest.mark.parametrize(
    ("words", "content", "told"),
    [
        (["apply"], {}, "the file has no schedule: say which place is meant (--target kfp or vertex, or --file)"),
        (["pause", "monthly"], {"weekly": {}}, "no schedule monthly that `wgan schedule apply` made; there is none"),
        (["apply"], {"weekly": {"cron": "0 0 9 * * 1"}}, "schedules.weekly.cron must be five fields"),
        (
            ["apply"],
            {"weekly": {"time_zone": "Europe/Berlin"}},
            "schedules.weekly.time_zone must be UTC, the one clock of",
        ),
        (["frobnicate"], {"weekly": {}}, "invalid choice: 'frobnicate'"),
        (["pause"], {"weekly": {}}, "the following arguments are required: NAME"),
        (["apply", "--targt", "kfp"], {"weekly": {}}, "unrecognized arguments: --targt kfp"),
    ],
)
def test_mistakes(desk: Desk, server: Server, wgan: Wgan, words: list[str], content: dict[str, Any], told: str) -> None:
    desk.write(**content)
    code, printed, logged = wgan(*words)
    assert (code, printed, len(logged)) == (64, [], 1)
    assert told in logged[0]
    assert writes(server) == []


def test_no_file(server: Server, wgan: Wgan) -> None:
    code, _, logged = wgan("list")
    assert code == 64
    assert "schedules cannot be read: No such file or directory" in logged[0]
    assert server.requests == []


def test_nothing_is_sent_where_one_of_the_places_cannot(
    desk: Desk, server: Server, wgan: Wgan, vertex_package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
    desk.write(weekly={}, nightly={"target": "vertex", "package": str(vertex_package)})
    code, _, logged = wgan("apply", "--location", "us-central1")
    assert code == 64
    assert logged == ["project is required for Vertex: give --project, or set GOOGLE_CLOUD_PROJECT"]
    assert server.requests == []


def test_the_example_in_the_docs_is_a_file_of_schedules(
    tmp_path: Path, kfp_package: Path, vertex_package: Path
) -> None:
    text = (ROOT / "docs" / "schedules.md").read_text()
    example = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0]
    path = tmp_path / "schedules.yaml"
    path.write_text(example)
    for name, settings in yaml.safe_load(example)["schedules"].items():
        package = kfp_package if settings["target"] == "kfp" else vertex_package
        (tmp_path / settings["package"]).write_bytes(package.read_bytes())
        assert name in text.replace(example, "")
    found = schedule_file.read(path)
    assert {schedule.target for schedule in found} == {"kfp", "vertex"}
    settings = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert settings == {*ScheduleSettings.model_fields}
