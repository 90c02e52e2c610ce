"""Flink's programs, started as its scripts do, which its package for Python (apache-flink-libraries) does not have."""

import json
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.system.runners.conftest import ROOT

PROGRAMS = ROOT / "build/flink"
JOB_SERVER = PROGRAMS / "job-server/job-server.jar"
_FLINK = PROGRAMS / "distribution/pyflink"
# Beam is among Flink's own jars; only there it keeps its workers between steps.
_JARS = f"{_FLINK}/lib/*:{JOB_SERVER}"
_RESULT_MARK = "BASH_JAVA_UTILS_EXEC_RESULT:"
# Flags by which Flink's scripts open Java 17, needed by Beam's job server, too.
OPENED = " ".join(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        *("java.io", "java.lang", "java.lang.invoke", "java.lang.reflect", "java.net", "java.nio", "java.text"),
        *("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch"),
    )
)
# A lost task manager is noticed after 8 s instead of Flink's 50 s; everything else is as on a cluster.
_CONFIGURATION = """\
jobmanager.rpc.address: {host}
jobmanager.bind-host: {bind}
jobmanager.rpc.port: {rpc}
jobmanager.memory.process.size: 1024m
rest.address: {host}
rest.bind-address: {bind}
rest.port: {rest}
taskmanager.bind-host: {bind}
taskmanager.memory.process.size: 1700m
taskmanager.numberOfTaskSlots: 2
cluster.evenly-spread-out-slots: true
heartbeat.interval: 1000
heartbeat.timeout: 8000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 2 s
classloader.resolve-order: parent-first
io.tmp.dirs: {scratch}
"""


def require_programs() -> None:
    """Skip the test without Flink's jars, Beam's job server and Java."""
    if not (_FLINK.is_dir() and JOB_SERVER.is_file() and shutil.which("java")):
        pytest.skip("no Flink, or no Java: apt-get install openjdk-17-jre-headless maven, then make test-flink")


def configure(folder: Path, host: str, bind: str, rpc: int, rest: int, scratch: object) -> None:
    """Write settings to a folder: the job manager's host and ports, the address where all listen, a folder for data."""
    text = _CONFIGURATION.format(host=host, bind=bind, rpc=rpc, rest=rest, scratch=scratch)
    (folder / "config.yaml").write_text(text)


def job_manager(folder: Path) -> list[str]:
    """Return Java's words for a job manager with the settings in a folder."""
    entry = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
    return ["-cp", _JARS, entry, "--configDir", str(folder)]


def task_manager(folder: Path, host: str) -> list[str]:
    """Return Java's words for a task manager on a host, whose name is its id too."""
    jars, memory = (
        f"{_FLINK}/bin/bash-java-utils.jar:{_FLINK}/lib/*",
        "org.apache.flink.runtime.util.bash.BashJavaUtils",
    )
    command = ["java", "-cp", jars, memory, "GET_TM_RESOURCE_PARAMS", "--configDir", str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
    lines = [line for line in printed.splitlines() if line.startswith(_RESULT_MARK)]
    flags, settings = (line.removeprefix(_RESULT_MARK).split() for line in lines)
    entry = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
    own = ["-D", f"taskmanager.host={host}", "-D", f"taskmanager.resource-id={host}"]
    return [*flags, "-cp", _JARS, entry, "--configDir", str(folder), *settings, *own]


def free_slots(rest: str) -> int:
    """Return how many slots of the cluster with a REST endpoint are free; none while it starts."""
    try:
        return int(_ask(rest, "overview")["slots-available"])
    except OSError:
        return 0


def jobs(rest: str) -> dict[str, str]:
    """Return the state of each job of the cluster with a REST endpoint, by the job's id."""
    return {job["jid"]: job["state"] for job in _ask(rest, "jobs/overview")["jobs"]}


def _ask(rest: str, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://{rest}/{path}", timeout=10) as answer:
        return dict(json.load(answer))
