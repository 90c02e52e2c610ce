"""A Flink cluster of containers that share nothing but a network and a bucket server.

Each machine is a task manager, with a disk of its own, and beside it, on the same loopback, a worker pool in the
preprocess image, as in a pod of Kubernetes. Programs are mounted from `build/`, read-only; of data nothing is.
"""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.programs import until
from tests.system.runners import flink_cluster
from tests.system.runners.conftest import ROOT
from tests.system.runners.flink_cluster import OPENED

_JAVA = Path("/usr/lib/jvm/java-17-openjdk-amd64")
# Java loads libraries from /tmp.
_USER = ("--user", "10001:0", "--cap-drop", "ALL", "--read-only", "--tmpfs", "/tmp:exec,mode=1777")  # noqa: S108
BUCKETS = "http://buckets:8080"  # the bucket server, for containers of the network
_SECONDS_TO_START = 60
_EVERYWHERE, _SCRATCH = "0.0.0.0", "/tmp"  # noqa: S104, S108 - within a network and containers of their own
# What starts the bucket server in a container of the preprocess image, which has no tests.
SERVER = ("--volume", f"{ROOT / 'tests'}:/tests/tests:ro", "--env", "PYTHONPATH=/tests", "--entrypoint", "python")
SERVER_MODULE = ("-m", "tests.system.docker.bucket_server")


class Containers:
    """Containers on a network of their own, by name, until the block ends."""

    def __init__(self, client: str, image: str, name: str) -> None:
        self._client, self._image, self._network = client, image, name
        self._started: list[str] = []
        self.start_job_server: Callable[[str], None] = lambda host: None

    def __enter__(self) -> "Containers":
        self.docker("network", "create", self._network)
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(self._started):
            self.docker("rm", "--force", self.full_name(name), check=False)
        self.docker("network", "rm", self._network, check=False)

    def docker(self, *words: str, check: bool = True) -> str:
        done = subprocess.run([self._client, *words], capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout + done.stderr

    def start(self, name: str, *words: str, options: tuple[str, ...] = (), beside: str = "") -> None:
        """Start a container of the preprocess image, on the network or beside another container."""
        network = f"container:{self.full_name(beside)}" if beside else self._network
        named = () if beside else ("--hostname", name, "--network-alias", name)
        settings = (*_USER, "--network", network, *named, "--env", f"STORAGE_EMULATOR_HOST={BUCKETS}")
        self.docker("run", "--detach", "--name", self.full_name(name), *settings, *options, self._image, *words)
        self._started.append(name)

    def start_java(self, name: str, *words: str, mounts: dict[Path, str]) -> None:
        programs = {_JAVA: str(_JAVA), Path("/etc/java-17-openjdk"): "/etc/java-17-openjdk", **mounts}
        options = [f"--volume={folder}:{target}:ro" for folder, target in programs.items()]
        self.start(name, *OPENED.split(), *words, options=(*options, "--entrypoint", f"{_JAVA}/bin/java"))

    def serve(self, source: Path) -> None:
        """Start the bucket server, which holds a source."""
        options = ("--volume", f"{source}:/data:ro", *SERVER)
        self.start("buckets", *SERVER_MODULE, options=options)
        until(lambda: "serving" in self.log_of("buckets"), _SECONDS_TO_START)

    def stop_serving(self) -> dict[str, str]:
        """Stop the bucket server; return the sha256 of each object of the dataset, by its name."""
        self.docker("stop", self.full_name("buckets"))
        (objects,) = (json.loads(line) for line in self.log_of("buckets").splitlines() if line.startswith("{"))
        self.remove("buckets")
        return {name: sha256 for name, sha256 in objects.items() if name.startswith("dataset/")}

    def remove(self, name: str) -> None:
        """Remove a container that may run, if it is there, so that another one can have its name."""
        if name in self._started:
            self.docker("rm", "--force", self.full_name(name))
            self._started.remove(name)

    def start_stage(self, name: str, *words: str) -> None:
        """Start a job server, and the stage that makes gs://b/dataset of gs://b/source by it."""
        host = f"jobs-of-{name}"
        self.start_job_server(host)
        ask = f"import socket; print(socket.socket().connect_ex(({host!r}, 8099)))"
        until(lambda: self.execute("pool-of-machine-0", ask).strip() == "0", _SECONDS_TO_START)
        runner = f"--runner=PortableRunner --job_endpoint={host}:8099 --artifact_endpoint={host}:8098"
        workers = "--environment_type=EXTERNAL --environment_config=localhost:50000 --parallelism=2"
        locations = ("--source", "gs://b/source", "--dataset", "gs://b/dataset")
        self.start(name, *locations, *words, "--beam_options", f"{runner} {workers}")

    def wait(self, name: str) -> int:
        return int(self.docker("wait", self.full_name(name)))

    def kill(self, name: str) -> None:
        self.docker("kill", self.full_name(name))

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


@contextlib.contextmanager
def flink(client: str, image: str, build: Path, folder: Path) -> Iterator[Containers]:
    """Start a job manager, and two task managers with pools."""
    folder.mkdir(parents=True)
    configuration = flink_cluster.CONFIGURATION.format(
        host="job-manager", bind=_EVERYWHERE, rpc=6123, rest=8081, slots=2, folder=_SCRATCH
    )
    (folder / "config.yaml").write_text(configuration)
    jars = "/flink/pyflink/lib/*:/job-server/job-server.jar"
    mounts = {build / "distribution": "/flink", build / "job-server": "/job-server", folder: "/configuration"}
    configured = ("--configDir", "/configuration")
    with Containers(client, image, "wgan-test-flink") as cluster:
        cluster.start_java("job-manager", "-cp", jars, flink_cluster.JOB_MANAGER, *configured, mounts=mounts)
        flags, settings = flink_cluster.task_manager_memory(build / "distribution", folder)
        for name in ("machine-0", "machine-1"):
            words = (*flags, "-cp", jars, flink_cluster.TASK_MANAGER, *configured, *settings)
            host = ("-D", f"taskmanager.host={name}", "-D", f"taskmanager.resource-id={name}")
            cluster.start_java(name, *words, *host, mounts=mounts)
            cluster.start(f"pool-of-{name}", "--worker_pool", beside=name)
        jar = ("-jar", "/job-server/job-server.jar", "--flink-master=job-manager:8081")
        cluster.start_job_server = lambda host: cluster.start_java(host, *jar, *_ports(host), mounts=mounts)
        yield cluster


def _ports(host: str) -> list[str]:
    ports = ["--job-port=8099", "--artifact-port=8098", "--expansion-port=8097"]
    return [f"--job-host={host}", *ports, f"--artifacts-dir={_SCRATCH}/artifacts"]
