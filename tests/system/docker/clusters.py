"""Containers that share nothing but a network and a bucket server, and a Flink cluster of such.

Each machine of the cluster is a task manager, with a disk of its own, and beside it, on the same loopback, a worker
pool in the preprocess image, as in a pod of Kubernetes. Programs are mounted from `build/`, read-only; of data nothing
is.
"""

import json
import subprocess
from pathlib import Path
from typing import Self

from tests.programs import until
from tests.system.runners import flink_cluster
from tests.system.runners.conftest import ROOT

_JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")
_USER = ("--user", "10001:0", "--cap-drop", "ALL", "--read-only")
BUCKETS = "http://buckets:8080"  # the bucket server, for containers of the network
_EVERYWHERE, _SCRATCH = "0.0.0.0", "/tmp"  # noqa: S104, S108 - within a network and containers of their own
# What starts the bucket server in a container of the preprocess image, which has no tests.
_SERVER = ("--volume", f"{ROOT / 'tests'}:/tests/tests:ro", "--env", "PYTHONPATH=/tests", "--entrypoint", "python")


class Containers:
    """Containers on a network of their own, by name, until the block ends."""

    def __init__(self, client: str, image: str, name: str) -> None:
        self._client, self._image, self._network = client, image, name
        self.started: list[str] = []

    def __enter__(self) -> Self:
        self.docker("network", "create", self._network)
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(self.started):
            self.docker("rm", "--force", self.full_name(name), check=False)
        self.docker("network", "rm", self._network, check=False)

    def docker(self, *words: str, check: bool = True) -> str:
        done = subprocess.run([self._client, *words], capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout + done.stderr

    def start(
        self, name: str, *words: str, options: tuple[str, ...] = (), beside: str = "", scratch: str = "exec,mode=1777"
    ) -> None:
        """Start a container of the preprocess image, on the network or beside another container.

        `scratch` describes its /tmp, from which Java loads libraries.
        """
        network = f"container:{self.full_name(beside)}" if beside else self._network
        named = () if beside else ("--hostname", name, "--network-alias", name)
        settings = (*_USER, "--tmpfs", f"{_SCRATCH}:{scratch}", "--network", network, *named)
        settings += ("--env", f"STORAGE_EMULATOR_HOST={BUCKETS}", *options)
        self.docker("run", "--detach", "--name", self.full_name(name), *settings, self._image, *words)
        self.started.append(name)

    def serve(self, source: Path) -> None:
        """Start the bucket server, which holds a source."""
        options = ("--volume", f"{source}:/data:ro", *_SERVER)
        self.start("buckets", "-m", "tests.system.docker.bucket_server", options=options)
        until(lambda: "serving" in self.log_of("buckets"))

    def stop_serving(self) -> dict[str, str]:
        """Stop the bucket server; return the sha256 of each object of the dataset, by its name."""
        self.docker("stop", self.full_name("buckets"))
        (objects,) = (json.loads(line) for line in self.log_of("buckets").splitlines() if line.startswith("{"))
        return {name: sha256 for name, sha256 in objects.items() if name.startswith("dataset/")}

    def remove(self, names: list[str]) -> None:
        """Remove containers that may run, so that others can have their names."""
        for name in names:
            self.docker("rm", "--force", self.full_name(name))
            self.started.remove(name)

    def wait(self, name: str) -> int:
        return int(self.docker("wait", self.full_name(name)))

    def kill(self, *names: str) -> None:
        self.docker("kill", *map(self.full_name, names))

    def execute(self, name: str, program: str) -> str:
        return self.docker("exec", self.full_name(name), "python", "-c", program)

    def log_of(self, name: str) -> str:
        return self.docker("logs", self.full_name(name))

    def address_of(self, name: str) -> str:
        """Return the address of a container on the network, which this machine reaches too."""
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self.docker("inspect", "--format", template, self.full_name(name)).strip()

    def full_name(self, name: str) -> str:
        return f"{self._network}-{name}"


class Flink(Containers):
    """A job manager, two task managers with pools, and Beam's job server; the settings are in a folder."""

    def __init__(self, client: str, image: str, folder: Path) -> None:
        super().__init__(client, image, "wgan-test-flink")
        self._folder = folder

    def begin(self) -> None:
        flink_cluster.configure(
            self._folder, host="job-manager", bind=_EVERYWHERE, rpc=6123, rest=8081, scratch=_SCRATCH
        )
        self._start_java("job-manager", *flink_cluster.job_manager(self._folder))
        for name in ("machine-0", "machine-1"):
            self._start_java(name, *flink_cluster.task_manager(self._folder, name))
            self.start(f"pool-of-{name}", "--worker_pool", beside=name)
        ports = ("--job-port=8099", "--artifact-port=8098", "--expansion-port=8097")
        hosts = ("--job-host=jobs", f"--artifacts-dir={_SCRATCH}/artifacts", "--flink-master=job-manager:8081")
        self._start_java("jobs", "-jar", str(flink_cluster.JOB_SERVER), *hosts, *ports)
        ask = "import socket; print(socket.socket().connect_ex(('jobs', 8099)))"
        until(lambda: self.execute("pool-of-machine-0", ask).strip() == "0")
        until(lambda: flink_cluster.free_slots(self._rest()) == 4)

    def _start_java(self, name: str, *words: str) -> None:
        folders = (_JAVA, Path("/etc/java-17-openjdk"), flink_cluster.PROGRAMS, self._folder)
        options = [f"--volume={folder}:{folder}:ro" for folder in folders]
        options += ["--env", f"JDK_JAVA_OPTIONS={flink_cluster.OPENED}", "--entrypoint", f"{_JAVA}/bin/java"]
        self.start(name, *words, options=tuple(options))

    def start_stage(self, *words: str) -> str:
        """Start the stage that makes gs://b/dataset of gs://b/source; return its name."""
        name = f"stage-{len(self.started)}"
        runner = "--runner=PortableRunner --job_endpoint=jobs:8099 --artifact_endpoint=jobs:8098"
        workers = "--environment_type=EXTERNAL --environment_config=localhost:50000 --parallelism=2"
        flags = ("--source", "gs://b/source", "--dataset", "gs://b/dataset")
        self.start(name, *flags, *words, "--beam_options", f"{runner} {workers}")
        return name

    def restart_machine(self, name: str) -> None:
        for container in (name, f"pool-of-{name}"):
            self.docker("start", self.full_name(container))

    def jobs(self) -> dict[str, str]:
        return flink_cluster.jobs(self._rest())

    def _rest(self) -> str:
        return f"{self.address_of('job-manager')}:8081"
