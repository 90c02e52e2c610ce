"""`wgan submit`, `status`, `logs`, `cancel` and `retry`: arguments, mistakes and signals; see `test_story.py`."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from components.core import errors
from tests.fakes.kubeflow.server import Request, Server
from tests.programs import ignoring
from tests.unit.pipeline.cluster import conftest
from tests.unit.pipeline.cluster.worlds import Kubeflow
from tests.unit.pipeline.conftest import ended as wgan

pytestmark = pytest.mark.usefixtures("bare_desk")


def test_a_timeout_that_ends_no_waiting_is_refused(server: Server, packages: Path, started: str) -> None:
    server.requests.clear()
    run = ["--package", str(packages / "kfp.yaml"), "--source", "digits", "--root", "/data/runs"]
    limits = ("nan", "inf", "-inf", "-1", "0", "soon")
    for verb, named in (("submit", run), ("status", [started]), ("retry", [started])):
        for words in (["--timeout", "5"], *(["--wait", f"--timeout={limit}"] for limit in limits)):
            ended = wgan(verb, *named, *words, "--host", server.url)
            assert (ended.code, server.requests) == (errors.BAD_CONFIGURATION, [])
            assert [line for line in ended.complaints if "timeout" in line] == ended.complaints != []


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, errors.OK), (signal.SIGTERM, -signal.SIGTERM)])
def test_with_sigint_ignored_sigterm_ends(server: Server, packages: Path, signum: signal.Signals, code: int) -> None:
    """As in cron and behind a script's `&`: the signal arrives while the process waits for the server's answer."""
    command = [sys.executable, "-m", "pipeline", "submit", "--host", server.url, "--wait"]
    command += ["--package", str(packages / "kfp.yaml"), "--source", "digits", "--root", "/data/runs"]
    with ignoring(signal.SIGINT):
        process = subprocess.Popen(command)
    signaled: list[Request] = []

    def interrupt(request: Request) -> None:
        if request.method == "GET" and "/runs/" in request.path and not signaled:
            process.send_signal(signum)
            signaled.append(request)
            server.set_run(list(server.store.runs)[-1], "SUCCEEDED")

    server.before = interrupt
    assert process.wait() == code
    assert signaled


def test_a_run_goes_by_its_id_a_part_of_it_or_its_link(server: Server, started: str) -> None:
    link = f"{server.url}/#/runs/details/{started}"
    for text in (started, started[:4], link):
        shown = json.loads(wgan("status", text, "--json", "--host", server.url).out)
        assert (shown["run_id"], shown["link"]) == (started, link)
    code, _, _, (line,) = wgan("status", "zzz", "--host", server.url)
    assert (code, "zzz" in line) == (errors.BAD_CONFIGURATION, True)
    twin = f"{started[:4]}0000-0000-4000-8000-000000000000"
    server.store.runs[twin] = server.store.runs[started] | {"run_id": twin}
    code, _, _, (line,) = wgan("cancel", started[:4], "--host", server.url)
    assert (code, started in line, twin in line) == (errors.BAD_CONFIGURATION, True, True)


def test_the_newest_runs_are_listed(server: Server, started: str) -> None:
    # A fresh run of a schedule has no state, and none has an end before it ends.
    server.store.runs[started]["state"] = ""
    _, row, *_ = wgan("status", "--host", server.url).out.splitlines()
    assert row.split()[:2] == [started, "pending"]
    (run,) = json.loads(wgan("status", "--json", "--host", server.url).out)
    assert (run["state"], run["finished"]) == ("PENDING", None)


def test_logs_that_are_not_there_are_reported(server: Server, started: str) -> None:
    for word in ("trian", "--follow"):
        code, _, _, (line,) = wgan("logs", started, word, "--host", server.url)
        assert (code, word.strip("-") in line) == (errors.BAD_CONFIGURATION, True)


def refused(server: Server, package: Path, *words: str) -> list[str]:
    """Submit a package, which is refused; return why."""
    ended = conftest.submit(Kubeflow(server), package, *words)
    assert (ended.code, server.requests) == (errors.BAD_CONFIGURATION, [])
    return ended.complaints


def test_a_file_of_settings_is_submitted_and_flags_override_it(server: Server, packages: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("root: /data/mine\npreprocess: {source: fashion-mnist}\ntrain: {steps: 1e3, batch_size: 8}\n")
    flags = ("submit", "--host", server.url, "--package", str(packages / "kfp.yaml"), "--config", str(path))
    assert wgan(*flags, "--batch_size", "16").code == errors.OK
    (run,) = server.store.runs.values()
    expected = {"root": "/data/mine", "source": "fashion-mnist", "steps": 1000, "batch_size": 16}
    assert run["runtime_config"]["parameters"] == expected


def test_flags_of_the_other_target_are_refused(server: Server, packages: Path) -> None:
    lines = refused(server, packages / "vertex.yaml", "--seed", "1", "--sed=2")
    assert any("host" in line and "kfp" in line and "vertex" in line for line in lines)
    assert any(line.endswith(" seed?") for line in lines)


def test_results_go_into_a_bucket_or_a_volume_of_every_stage(server: Server, packages: Path) -> None:
    for root in ("/dat", "/database", "/data/../runs"):
        (line,) = refused(server, packages / "kfp.yaml", "--root", root)
        assert all(named in line for named in (root, "volume_claims", "gs://", "decide"))
    for root in ("/data", "/data/runs", "/data/../data/runs", "gs://bucket/runs"):
        assert conftest.submit(Kubeflow(server), packages / "kfp.yaml", "--root", root).code == errors.OK


def test_a_stage_without_the_volume_is_named(server: Server, packages: Path, tmp_path: Path) -> None:
    package, platforms = yaml.safe_load_all((packages / "kfp.yaml").read_text())
    del platforms["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-embed"]
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump_all([package, platforms]))
    (line,) = refused(server, path)
    assert ("embed" in line, "decide" in line) == (True, False)
