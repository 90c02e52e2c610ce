"""A real Flink cluster on loopback: a job manager and task managers, a JVM each, and a worker pool of Beam beside them.

Flink's package for Python (apache-flink-libraries) has its jars and none of its scripts, so its classes are started as
those scripts do.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.programs import until
from tests.system.runners.conftest import ROOT

SLOTS = 2  # of each task manager
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_MEMORY = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_LOOPBACK = "127.0.0.1"
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
CONFIGURATION = """\
jobmanager.rpc.address: {host}
jobmanager.bind-host: {bind}
jobmanager.rpc.port: {rpc}
jobmanager.memory.process.size: 1024m
rest.address: {host}
rest.bind-address: {bind}
rest.port: {rest}
taskmanager.bind-host: {bind}
taskmanager.memory.process.size: 1700m
taskmanager.numberOfTaskSlots: {slots}
cluster.evenly-spread-out-slots: true
heartbeat.interval: 1000
heartbeat.timeout: 8000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 2 s
classloader.resolve-order: parent-first
io.tmp.dirs: {folder}
"""


def programs() -> tuple[Path, Path]:
    """Return the folder of Flink's jars and Beam's job server; skip the test without them."""
    distribution, job_server = (ROOT / "build/flink" / path for path in ("distribution", "job-server/job-server.jar"))
    if not (distribution.is_dir() and job_server.is_file() and shutil.which("java")):
        pytest.skip("no Flink, or no Java: apt-get install openjdk-17-jre-headless maven, then make test-flink")
    return distribution, job_server


def kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def task_manager_memory(distribution: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Return Java's flags and Flink's settings for the configuration in a folder."""
    jars = f"{distribution}/pyflink/bin/bash-java-utils.jar:{distribution}/pyflink/lib/*"
    command = ["java", "-cp", jars, _MEMORY, "GET_TM_RESOURCE_PARAMS", "--configDir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_RESULT_MARK)]
    flags, settings = (line.removeprefix(_RESULT_MARK).split() for line in lines)
    return flags, settings


class FlinkCluster:
    """The cluster, from `begin` to `end`. Each of its programs writes a log to the folder."""

    def __init__(self, distribution: Path, job_server: Path, folder: Path) -> None:
        self._distribution, self._folder = distribution, folder
        # Beam is among Flink's own jars; only there it keeps its workers between steps.
        self._jars = f"{distribution}/pyflink/lib/*:{job_server}"
        self._started: list[subprocess.Popen[bytes]] = []
        self.task_managers: dict[str, subprocess.Popen[bytes]] = {}
        self.pool = f"localhost:{servers.free_port()}"  # of Beam's workers
        self.rest = f"{_LOOPBACK}:{servers.free_port()}"  # Flink's REST endpoint

    def begin(self) -> None:
        """Start the pool, the job manager and two task managers, and wait for them."""
        (self._folder / "tmp").mkdir(parents=True)
        port = self.pool.partition(":")[2]
        self._start("worker-pool", [sys.executable, "-m", "tests.system.runners.worker_pool", port])
        ports = {"rpc": servers.free_port(), "rest": self.rest.partition(":")[2]}
        configuration = CONFIGURATION.format(
            host=_LOOPBACK, bind=_LOOPBACK, **ports, slots=SLOTS, folder=self._folder / "tmp"
        )
        (self._folder / "config.yaml").write_text(configuration)
        self._start("job-manager", [*self._java(), JOB_MANAGER, "--configDir", str(self._folder)])
        for _ in range(2):
            self.add_task_manager()
        self.wait()

    def end(self) -> None:
        for process in reversed(self._started):
            kill(process)

    def add_task_manager(self) -> None:
        name = f"task-manager-{len(self.task_managers)}"
        flags, settings = task_manager_memory(self._distribution, self._folder)
        command = [*self._java(*flags), TASK_MANAGER, "--configDir", str(self._folder), *settings]
        own = ["-D", f"taskmanager.host={_LOOPBACK}", "-D", f"taskmanager.resource-id={name}"]
        self.task_managers[name] = self._start(name, [*command, *own])

    def wait(self) -> None:
        """Wait until the job manager has the slots of all task managers that live."""
        slots = SLOTS * sum(process.poll() is None for process in self.task_managers.values())
        until(lambda: (self.ask("overview") or {}).get("slots-available") == slots)

    def ask(self, path: str) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(f"http://{self.rest}/{path}", timeout=10) as answer:
                return dict(json.load(answer))
        except OSError:
            return None

    def jobs(self) -> dict[str, str]:
        return {job["jid"]: job["state"] for job in (self.ask("jobs/overview") or {"jobs": []})["jobs"]}

    def running_task_managers(self, job: str) -> set[str]:
        return {task["taskmanager-id"] for task in self._tasks(job) if task["status"] == "RUNNING"}

    def attempts(self, job: str) -> int:
        return max((task["attempt"] for task in self._tasks(job)), default=0)

    def _tasks(self, job: str) -> list[dict[str, Any]]:
        vertices = (self.ask(f"jobs/{job}") or {"vertices": []})["vertices"]
        asked = [self.ask(f"jobs/{job}/vertices/{vertex['id']}") for vertex in vertices]
        return [task for answer in asked if answer for task in answer["subtasks"]]

    def _java(self, *flags: str) -> list[str]:
        return ["java", *OPENED.split(), *flags, "-cp", self._jars]

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        # A worker pool starts its workers as `python`, which must be this one.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append(process)
        return process
