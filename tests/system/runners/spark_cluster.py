"""A real Spark cluster on loopback: a master and two workers, a JVM each, and a worker pool of Beam beside them.

Spark's package for Python (pyspark) has its jars, whose classes are started as its scripts do.
"""

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from tests import servers
from tests.system.runners.processes import OPENED, Processes, until

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_LOOPBACK = "127.0.0.1"


class SparkCluster(Processes):
    """The cluster while the block runs.

    Attributes:
        url: `spark://HOST:PORT` of the master.
        workers: Their processes, by name.
    """

    def __init__(self, distribution: Path, folder: Path) -> None:
        super().__init__(folder)
        self._home = distribution / "pyspark"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._page = f"{_LOOPBACK}:{servers.free_port()}"
        self.url = f"spark://{_LOOPBACK}:{servers.free_port()}"

    def begin(self) -> None:
        """Start the master and two workers, and wait for them."""
        port, page = self.url.rpartition(":")[2], self._page.partition(":")[2]
        self._start("master", _MASTER, "--host", _LOOPBACK, "--port", port, "--webui-port", page)
        for _ in range(2):
            self.add_worker()
        self.wait()

    def add_worker(self) -> None:
        """Start one more."""
        name = f"worker-{len(self.workers)}"
        words = ["--host", _LOOPBACK, "--cores", "1", "--memory", "1500m", "--work-dir", str(self.folder / name)]
        words += ["--webui-port", str(servers.free_port())]
        self.workers[name] = self._start(name, _WORKER, *words, self.url)

    def wait(self) -> None:
        """Wait until the master has all workers that live."""
        alive = sum(process.poll() is None for process in self.workers.values())
        until(lambda: (self.state() or {}).get("aliveworkers") == alive)

    def state(self) -> dict[str, Any] | None:
        """Return what the master's page says as JSON; None if it is not ready."""
        try:
            with urllib.request.urlopen(f"http://{self._page}/json/", timeout=10) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):  # before it is ready it answers with a page
            return None

    def _start(self, name: str, program: str, *words: str) -> subprocess.Popen[bytes]:
        environment = {"SPARK_HOME": str(self._home), "SPARK_SCALA_VERSION": "2.12", "SPARK_LOCAL_IP": _LOOPBACK}
        command = ["java", *OPENED.split(), "-cp", f"{self._home}/jars/*", program, *words]
        return self.start(name, command, environment)
