"""`wgan schedule apply` as a process that is killed at every request that it makes, and applied again.

One process imports what takes long, and forks for each command: that is a process of its own, which can be killed.
"""

import contextlib
import copy
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import compiler, dsl

from pipeline.package_origin import Origin
from tests.contract_server.server import HangUp, Request, Server, serving

ROOT = Path(__file__).parents[3]
_FORKER = """
import functools, json, os, pathlib, sys
from pipeline.__main__ import main
from pipeline.cluster import kubeflow_client, kubeflow_schedules, schedule_file, submission, vertex_connection
# The files stay as they are: each is read once, here.
submission.read_package = functools.cache(submission.read_package)
read = functools.cache(lambda path, content, read=schedule_file.read: read(path))
schedule_file.read = lambda path: read(path, path.read_bytes())
for line in sys.stdin:
    log, file, *words = json.loads(line)
    schedule_file.read(pathlib.Path(file))
    pid = os.fork()
    if pid == 0:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = main(words)
        sys.stdout.flush()
        os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
_USUAL = {
    "cron": "0 9 * * 1",
    "target": "kfp",
    "experiment": "retraining",
    "parameters": {"source": "digits"},
}
_EARLIER = {"cron": "0 7 * * 1"}
# What is there, and what the file says then.
_STORIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the first time": ({}, {"weekly": {}}),
    "edited": (
        {"keep": {}, "busy": {}, "change": {}, "stop": {}, "go": {}},
        {"keep": {}, "busy": _EARLIER, "change": _EARLIER, "stop": {"enabled": False}},
    ),
}


@dsl.container_component
def train(source: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="trainer:1", command=["python", "-m", "components.train", source])


def retraining(source: str) -> None:
    train(source=source).set_caching_options(False)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of a single stage: a server takes seconds to read ours often."""
    path = tmp_path_factory.mktemp("package") / "pipeline.yaml"
    described = dsl.pipeline(name="retraining", description=str(Origin("kfp", "cpu")))
    compiler.Compiler().compile(described(retraining), str(path))
    return path


class Forker:
    """Runs `wgan` as processes of which each takes a few milliseconds to start."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # Its processes end with it, and it when its input does.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid: queue.Queue[int] = queue.Queue()

    def run(self, file: Path, *words: str) -> int:
        """Runs a command to its end; meanwhile `pid` has its process. Returns its exit code, as subprocess tells it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([str(self._log), str(file), *words, "--file", str(file)]) + "\n")
        self._process.stdin.flush()
        self.pid.put(int(self._process.stdout.readline()))
        code = int(self._process.stdout.readline())
        with contextlib.suppress(queue.Empty):
            self.pid.get_nowait()
        return code

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    found = Forker(tmp_path_factory.mktemp("forker") / "log")
    yield found
    found.close()


@pytest.fixture
def server(bare_desk: None) -> Iterator[Server]:
    with serving() as found:
        yield found


def write(path: Path, package: Path, schedules: dict[str, Any]) -> None:
    content = {name: {**_USUAL, "package": str(package), **settings} for name, settings in schedules.items()}
    path.write_text(yaml.safe_dump({"schedules": content}))


def unharmed(server: Server) -> None:
    """No two of one name start runs, and no run was ended."""
    enabled = [each["display_name"] for each in server.store.recurring_runs.values() if each["mode"] == "ENABLE"]
    assert len(enabled) == len(set(enabled))
    assert server.killed_runs == []


def look(server: Server, busy: str) -> None:
    """Looks whether all is well, ends runs but that one's, and lets the controller start others."""
    unharmed(server)
    for run in server.store.runs.values():
        if run["state"] != "SUCCEEDED" and run["run_id"] != busy:
            server.set_run(run["run_id"], "SUCCEEDED")
    server.tick()
    unharmed(server)


def end(server: Server) -> list[Any]:
    """What there is when all runs have ended, without ids and times."""
    pipelines, versions = server.store.pipelines, server.store.versions
    found = []
    for each in server.store.recurring_runs.values():
        reference = each["pipeline_version_reference"]
        pinned = pipelines[reference["pipeline_id"]]["name"], versions[reference["pipeline_version_id"]]["name"]
        told = ("display_name", "mode", "description", "trigger", "max_concurrency", "no_catchup", "runtime_config")
        found.append([*pinned, *(each.get(name) for name in told)])
    names = sorted([*(each["name"] for each in pipelines.values()), *(each["name"] for each in versions.values())])
    return [*sorted(found, key=str), names, sorted(each["display_name"] for each in server.store.experiments.values())]


@pytest.mark.parametrize("story", ["the first time", pytest.param("edited", marks=pytest.mark.slow)])
def test_killed_at_every_request(forker: Forker, server: Server, tmp_path: Path, package: Path, story: str) -> None:
    before, wanted = _STORIES[story]
    path = tmp_path / "schedules.yaml"
    command = ("schedule", "apply", "--prune", "--host", server.url, "--target", "kfp")
    write(path, package, before)
    busy = ""
    if before:
        assert forker.run(path, *command) == 0
        at_work = {server.store.runs[run]["recurring_run_id"]: run for run in server.tick()}
        ids = {each["display_name"]: key for key, each in server.store.recurring_runs.items()}
        busy = at_work[ids["busy"]]
    prepared = copy.deepcopy(vars(server.store))
    write(path, package, wanted)
    killed_at = 0

    def restore() -> None:
        vars(server.store).update(copy.deepcopy(prepared))

    def before_it_acts(request: Request) -> None:
        look(server, busy)
        if not after and request.number == killed_at:
            kill()

    def after_it_acted(request: Request) -> None:
        unharmed(server)
        if after and request.number == killed_at:
            kill()

    def kill() -> None:
        os.kill(forker.pid.get(timeout=30), signal.SIGKILL)
        raise HangUp

    def apply_to_the_end() -> list[Any]:
        """Applies; then once more, when the run at work has ended and no other begins."""
        server.before, server.after = before_it_acts, after_it_acted
        assert forker.run(path, *command) == 0
        assert not busy or server.store.runs[busy]["state"] != "SUCCEEDED"
        server.before = server.after = None
        for run in server.store.runs:
            server.set_run(run, "SUCCEEDED")
        assert forker.run(path, *command) == 0
        unharmed(server)
        return end(server)

    after = False
    first = len(server.requests)
    whole = apply_to_the_end()
    assert {each["display_name"] for each in server.store.recurring_runs.values()} == set(wanted)
    made = list(itertools.takewhile(lambda each: not each.path.endswith("/healthz"), server.requests[first + 1 :]))
    methods = [server.requests[first].method, *(each.method for each in made)]
    assert len(methods) >= 10

    for after in (False, True):
        for number, method in enumerate(methods, 1):
            if after and method == "GET":
                # What there is then is what there is before the next request.
                continue
            restore()
            server.before, server.after = before_it_acts, after_it_acted
            killed_at = len(server.requests) + number
            assert forker.run(path, *command) == -signal.SIGKILL
            assert len(server.requests) == killed_at
            unharmed(server)
            assert apply_to_the_end() == whole, f"killed {'after' if after else 'before'} request {number}"
