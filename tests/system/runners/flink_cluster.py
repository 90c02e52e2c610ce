"""A real Flink cluster on loopback: a job manager and task managers, a JVM each, and a worker pool of Beam beside them.

Flink's package for Python (apache-flink-libraries) has its jars and none of its scripts, so its classes are started as
those scripts do.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests import servers

ROOT = Path(__file__).parents[3]
SLOTS = 2  # of each task manager
_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_MEMORY = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_MARK_OF_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
# What Flink's own scripts open of Java 17 for it, and Beam's job server needs too.
OPENED = (
    " ".join(
        f"--add-opens=java.base/java.{package}=ALL-UNNAMED"
        for package in (
            "lang",
            "util",
            "util.concurrent",
            "nio",
            "io",
            "net",
            "time",
            "lang.reflect",
            "lang.invoke",
            "text",
        )
    )
    + " --add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
)
# A lost task manager is noticed after 8 s, and not after Flink's 50 s; nothing else differs from what a cluster has.
_CONFIGURATION = """\
jobmanager.rpc.address: 127.0.0.1
jobmanager.bind-host: 127.0.0.1
jobmanager.rpc.port: {rpc}
jobmanager.memory.process.size: 1024m
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: {rest}
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.memory.process.size: 1700m
taskmanager.numberOfTaskSlots: {slots}
cluster.evenly-spread-out-slots: true
heartbeat.interval: 1000
heartbeat.timeout: 8000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 5
restart-strategy.fixed-delay.delay: 2 s
classloader.resolve-order: parent-first
io.tmp.dirs: {folder}/tmp
"""


def until(true: Callable[[], Any], seconds: float = 120) -> Any:
    """Asks until the answer is true, and returns it."""
    for _ in range(int(seconds * 10)):
        found = true()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"still false after {seconds:g} s")


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
        self._memory_jar = distribution / "pyflink" / "bin" / "bash-java-utils.jar"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.task_managers: dict[str, subprocess.Popen[bytes]] = {}
        self.rest = f"127.0.0.1:{servers.free_port()}"
        self.pool = f"localhost:{servers.free_port()}"

    def __enter__(self) -> Self:
        (self._folder / "tmp").mkdir(parents=True)
        rest = self.rest.partition(":")[2]
        configuration = _CONFIGURATION.format(rpc=servers.free_port(), rest=rest, slots=SLOTS, folder=self._folder)
        (self._folder / "config.yaml").write_text(configuration)
        try:
            self._start("job-manager", [*self._java(), _JOB_MANAGER, "--configDir", str(self._folder)])
            port = self.pool.partition(":")[2]
            self._start("worker-pool", [sys.executable, "-m", "tests.system.runners.worker_pool", port])
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
        for process in reversed(self._processes):
            # Each is the first of a session of its own, and ends with all that it has started.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            finally:
                process.wait()

    def add_task_manager(self) -> None:
        """Starts one more."""
        name = f"task-manager-{len(self.task_managers)}"
        command = ["java", "-cp", f"{self._memory_jar}:{self._jars}", _MEMORY, "GET_TM_RESOURCE_PARAMS"]
        done = subprocess.run(
            [*command, "--configDir", str(self._folder)], capture_output=True, text=True, check=True, cwd=self._folder
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK_OF_RESULT)]
        flags, settings = (line.removeprefix(_MARK_OF_RESULT).split() for line in lines)
        command = [*self._java(*flags), _TASK_MANAGER, "--configDir", str(self._folder), *settings]
        self.task_managers[name] = self._start(name, [*command, "-D", f"taskmanager.resource-id={name}"])

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

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        # The pool starts its workers as `python`, which has to be this one.
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
        self._processes.append(process)
        return process
