"""A real Flink cluster on loopback: a job manager and task managers, a JVM each, and a worker pool of Beam beside them.

Flink's package for Python (apache-flink-libraries) has its jars and none of its scripts, so its classes are started as
those scripts do.
"""

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests import servers
from tests.system.runners.processes import OPENED, Processes, until

SLOTS = 2  # of each task manager
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_MEMORY = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_LOOPBACK = "127.0.0.1"
_MARK_OF_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
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


def memory_of_task_managers(distribution: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Return Java's flags and Flink's settings for the configuration in a folder."""
    jars = f"{distribution}/pyflink/bin/bash-java-utils.jar:{distribution}/pyflink/lib/*"
    command = ["java", "-cp", jars, _MEMORY, "GET_TM_RESOURCE_PARAMS", "--configDir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK_OF_RESULT)]
    flags, settings = (line.removeprefix(_MARK_OF_RESULT).split() for line in lines)
    return flags, settings


class FlinkCluster(Processes):
    """The cluster while the block runs.

    Attributes:
        rest: `host:port` of Flink's REST endpoint.
        task_managers: Their processes, by name.
    """

    def __init__(self, distribution: Path, job_server: Path, folder: Path) -> None:
        super().__init__(folder)
        # Beam is among Flink's own jars; only there it keeps its workers between steps.
        self._jars = f"{distribution}/pyflink/lib/*:{job_server}"
        self._distribution = distribution
        self.task_managers: dict[str, subprocess.Popen[bytes]] = {}
        self.rest = f"{_LOOPBACK}:{servers.free_port()}"

    def begin(self) -> None:
        """Start the job manager and two task managers, and wait for them."""
        (self.folder / "tmp").mkdir()
        ports = {"rpc": servers.free_port(), "rest": self.rest.partition(":")[2]}
        configuration = CONFIGURATION.format(
            host=_LOOPBACK, bind=_LOOPBACK, **ports, slots=SLOTS, folder=self.folder / "tmp"
        )
        (self.folder / "config.yaml").write_text(configuration)
        self.start("job-manager", [*self._java(), JOB_MANAGER, "--configDir", str(self.folder)])
        for _ in range(2):
            self.add_task_manager()
        self.wait()

    def add_task_manager(self) -> None:
        """Start one more."""
        name = f"task-manager-{len(self.task_managers)}"
        flags, settings = memory_of_task_managers(self._distribution, self.folder)
        command = [*self._java(*flags), TASK_MANAGER, "--configDir", str(self.folder), *settings]
        own = ["-D", f"taskmanager.host={_LOOPBACK}", "-D", f"taskmanager.resource-id={name}"]
        self.task_managers[name] = self.start(name, [*command, *own])

    def wait(self) -> None:
        """Wait until the job manager has the slots of all task managers that live."""
        slots = SLOTS * sum(process.poll() is None for process in self.task_managers.values())
        until(lambda: (self.ask("overview") or {}).get("slots-available") == slots)

    def ask(self, path: str) -> dict[str, Any] | None:
        """Return the answer of Flink's REST API; None if it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.rest}/{path}", timeout=10) as answer:
                return dict(json.load(answer))
        except OSError:
            return None

    def jobs(self) -> dict[str, str]:
        """The states of all jobs, by id."""
        return {job["jid"]: job["state"] for job in (self.ask("jobs/overview") or {"jobs": []})["jobs"]}

    def running_task_managers(self, job: str) -> set[str]:
        """Names of the task managers where tasks of a job run."""
        return {task["taskmanager-id"] for task in self._tasks(job) if task["status"] == "RUNNING"}

    def attempts(self, job: str) -> int:
        """Return the largest number of restarts of a task of a job."""
        return max((task["attempt"] for task in self._tasks(job)), default=0)

    def _tasks(self, job: str) -> list[dict[str, Any]]:
        vertices = (self.ask(f"jobs/{job}") or {"vertices": []})["vertices"]
        asked = [self.ask(f"jobs/{job}/vertices/{vertex['id']}") for vertex in vertices]
        return [task for answer in asked if answer for task in answer["subtasks"]]

    def _java(self, *flags: str) -> list[str]:
        return ["java", *OPENED.split(), *flags, "-cp", self._jars]
