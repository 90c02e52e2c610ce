"""A real Flink cluster on loopback: a job manager and task managers, a JVM each, and a worker pool of Beam beside them.

Flink's package for Python (apache-flink-libraries) has its jars and none of its scripts, so its classes are started as
those scripts do.
"""

import json
import signal
import subprocess
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests import servers
from tests.system.runners.processes import OPENED, Processes, until

SLOTS = 2  # of each task manager
JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_MEMORY = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_LOOPBACK = "127.0.0.1"
_MARK_OF_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
# A lost task manager is noticed after 8 s, and not after Flink's 50 s; nothing else differs from what a cluster has.
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
    """Return the flags of Java and the settings of Flink that the configuration in a folder means."""
    jars = f"{distribution}/pyflink/bin/bash-java-utils.jar:{distribution}/pyflink/lib/*"
    command = ["java", "-cp", jars, _MEMORY, "GET_TM_RESOURCE_PARAMS", "--configDir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK_OF_RESULT)]
    flags, settings = (line.removeprefix(_MARK_OF_RESULT).split() for line in lines)
    return flags, settings


class FlinkCluster:
    """The cluster while the block runs. Each process writes a log to the folder.

    Attributes:
        rest: `host:port` of Flink's REST endpoint.
        pool: `host:port` of the worker pool.
        task_managers: Their processes, by name.
    """

    def __init__(self, distribution: Path, job_server: Path, folder: Path) -> None:
        # Beam lies among Flink's own jars, where alone it keeps its workers from one step to the next.
        self._jars = f"{distribution}/pyflink/lib/*:{job_server}"
        self._distribution = distribution
        self._folder = folder
        self._processes = Processes(folder)
        self.task_managers: dict[str, subprocess.Popen[bytes]] = {}
        self.rest = f"127.0.0.1:{servers.free_port()}"
        self.pool = f"localhost:{servers.free_port()}"

    def __enter__(self) -> Self:
        (self._folder / "tmp").mkdir(parents=True)
        rest = self.rest.partition(":")[2]
        ports = {"rpc": servers.free_port(), "rest": rest}
        configuration = CONFIGURATION.format(
            host=_LOOPBACK, bind=_LOOPBACK, **ports, slots=SLOTS, folder=self._folder / "tmp"
        )
        (self._folder / "config.yaml").write_text(configuration)
        try:
            self._processes.start("job-manager", [*self._java(), JOB_MANAGER, "--configDir", str(self._folder)])
            self._processes.start_pool("worker-pool", int(self.pool.partition(":")[2]))
            for _ in range(2):
                self.add_task_manager()
            self.wait()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, stack: TracebackType | None
    ) -> None:
        self._processes.__exit__(kind, error, stack)

    def add_task_manager(self) -> None:
        """Starts one more."""
        name = f"task-manager-{len(self.task_managers)}"
        flags, settings = memory_of_task_managers(self._distribution, self._folder)
        command = [*self._java(*flags), TASK_MANAGER, "--configDir", str(self._folder), *settings]
        own = ["-D", f"taskmanager.host={_LOOPBACK}", "-D", f"taskmanager.resource-id={name}"]
        self.task_managers[name] = self._processes.start(name, [*command, *own])

    def wait(self) -> None:
        """Waits until the job manager has the slots of all task managers that live."""
        slots = SLOTS * sum(process.poll() is None for process in self.task_managers.values())
        until(lambda: (self.ask("overview") or {}).get("slots-available") == slots)

    def kill_task_manager(self, name: str) -> None:
        """Ends it as a machine ends that loses its power."""
        self.task_managers[name].send_signal(signal.SIGKILL)
        self.task_managers[name].wait()

    def ask(self, path: str) -> dict[str, Any] | None:
        """What Flink's REST API says; None if it does not answer."""
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
        """How often, at most, a task of a job was started again."""
        return max((task["attempt"] for task in self._tasks(job)), default=0)

    def _tasks(self, job: str) -> list[dict[str, Any]]:
        vertices = (self.ask(f"jobs/{job}") or {"vertices": []})["vertices"]
        asked = [self.ask(f"jobs/{job}/vertices/{vertex['id']}") for vertex in vertices]
        return [task for answer in asked if answer for task in answer["subtasks"]]

    def _java(self, *flags: str) -> list[str]:
        return ["java", *OPENED.split(), *flags, "-cp", self._jars]
