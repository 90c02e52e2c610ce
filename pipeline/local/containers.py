"""Stages in containers of this machine's Docker engine: hardened, logged, and ended with all their processes.

A container is created, started with us attached, inspected and removed by one command each: no line and no exit status
is lost. (One that removes itself may be gone before, and pass for a success: kubeflow/pipelines issue 13332.)
"""

import csv
import io
import json
import logging
import os
import secrets
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import components
from components.core import container_images
from components.core.errors import ConfigError, StageError, Terminated, TransientError
from components.core.stage import cache_key, cli, logs
from components.core.storage import buckets
from pipeline import step_table
from pipeline.local.docker_client import Docker, Image, end
from pipeline.local.processes import Copy, Processes
from pipeline.local.session import Session
from pipeline.step_table import Step

log = logging.getLogger(__name__)

# The folder of our code in images, as in docker/Dockerfile.
_CODE = "/app/components"
_START_SECONDS = 120.0
_STATE = "{{.State.Status}} {{.State.ExitCode}}"
_NETWORK = ("--network", "--net")  # flags of `docker create`
_ROOT_LABEL, _RUN_LABEL = "wgan-gp-pipeline.root", "wgan-gp-pipeline.run"
# The names in components/core/sources/source_listing.py, whose import would make `wgan run` slow.
_FETCHED_BY_NAME = ("fashion-mnist",)


class Containers:
    """The running stages, one container each; safe to use from several threads."""

    session: Session

    def __init__(
        self,
        steps: Iterable[Step],
        options: Sequence[str],  # more words for `docker create`
        root: Path,  # keeps everything made; containers see it at the same path, and write there
        parameters: Mapping[str, Any],  # of the pipeline, by name
        dev: bool = False,  # whether this working tree's code replaces the image's
    ) -> None:
        """Require an engine with every step's image; raise `ConfigError` naming each that is missing or unfit."""
        self._options, self._root, self._dev = options, root, dev
        self._lock = threading.Lock()
        self._running: dict[str, list[subprocess.Popen[bytes]]] = {}  # Docker's clients at work, by container
        self.stopping = threading.Event()
        locations = [parameters[name] for name, field in step_table.PARAMETERS.items() if field.setting.location]
        for location in locations:
            if (location in _FETCHED_BY_NAME or buckets.is_uri(location)) and not _has_flag(options, *_NETWORK):
                log.warning('%s is fetched over a network, which needs --docker-options="--network bridge"', location)
        self._inputs = [location for location in locations if location and Path(location).exists()]
        self._docker = Docker()
        platform = self._docker.platform()
        self._images: dict[str, Image] = {}
        problems: list[str] = []
        for name in dict.fromkeys(step.image for step in steps):
            reference = container_images.image(name)
            if (image := self._docker.image(reference)) is None:
                problems.append(f"image {reference} is not here: `make images` builds it")
                continue
            self._images[name] = image
            if image.platform != platform:
                problems.append(f"image {reference} is for {image.platform}, not {platform}: build it by `make images`")
            if image.version != container_images.VERSION:
                problems.append(
                    f"image {reference} is of version {image.version or '(none given)'}, "
                    f"expected {container_images.VERSION}: build it again with `make images`"
                )
        if problems:
            raise ConfigError(*problems)

    def begin(self, session: Session) -> None:
        """Set the run's session, before any stage; remove containers of runs that are dead."""
        self.session = session
        labels = f"{{{{.ID}}}}\t{{{{.Label {json.dumps(_RUN_LABEL)}}}}}"
        root_filter = f"label={_ROOT_LABEL}={self._root}"
        for line in self._docker.ask("ps", "--all", "--filter", root_filter, "--format", labels).splitlines():
            container, _, run = line.partition("\t")
            if not Path(run).exists():
                log.warning("removing container %s of a run that was killed", container)
                self._remove(container)

    def code(self, step: Step) -> str:
        """Return the digest of the code of a step's stage: this working tree's, or the image's."""
        if self._dev:
            return cache_key.source_digest(step.stage)
        image = self._images[step.image]
        return image.code.get(step.stage, image.id)

    def maker(self, step: Step) -> dict[str, str]:
        return {"image": self._images[step.image].name}

    def run(self, step: Step, command: list[str], copy: Copy) -> int:
        """Run a step's command to its end and return its exit status, 128 + N if signal N ended it.

        Raises `ConfigError` or `TransientError` if Docker cannot start it or the engine was lost while it ran.
        """
        name = f"wgan-{step.stage}-{secrets.token_hex(4)}"
        with self.session.watched(name):
            with self._lock:
                self._running[name] = []
            try:
                create = self._words(step, command, name)
                self._docker.answer(self._begin(name, *create, stderr=subprocess.PIPE), _START_SECONDS)
                attached = self._begin(name, "start", "--attach", name)
                copy(attached.stdout)
                attached.wait()
                if self.stopping.is_set() and attached.returncode < 0:
                    return 128 + signal.SIGKILL
                state, code = self._docker.ask("inspect", "--format", _STATE, name).split()
                if state == "created":
                    self._docker.ask("start", name, seconds=_START_SECONDS)  # it fails again, and says why
                if state != "exited":
                    raise TransientError(f"Docker was lost while it ran: its container is {state}")
                return int(code)
            except (StageError, Terminated):
                if not self.stopping.is_set():
                    raise
                return 128 + signal.SIGTERM
            finally:
                with self._lock:
                    clients = self._running.pop(name)
                for client in clients:
                    with client:
                        end(client)
                self._remove(name)

    def _begin(self, name: str, *words: str, stderr: int = subprocess.STDOUT) -> "subprocess.Popen[bytes]":
        """Start a client that works for a container; raise `Terminated` if stages are to stop."""
        with self._lock:
            if self.stopping.is_set():
                raise Terminated
            client = self._docker.begin(*words, stderr=stderr)
            self._running[name].append(client)
            return client

    def stop(self, signum: int) -> None:
        """Send a signal to every container, without waiting; none is started from now on.

        One that Docker is starting gets it as soon as it runs. SIGKILL ends the clients: when they have ended, `run`
        removes the container.
        """
        with self._lock:
            self.stopping.set()
            for name, clients in self._running.items():
                if signum == signal.SIGKILL:
                    for client in clients:
                        end(client)
                else:
                    clients.append(self._docker.begin("kill", "--signal", str(int(signum)), name, repeat=True))

    def _remove(self, container: str) -> None:
        try:
            self._docker.ask("rm", "--force", container)
        except StageError as error:
            if "no such container" not in str(error).lower():
                log.error("container %s is left behind: %s", container, error)

    def _words(self, step: Step, command: list[str], name: str) -> list[str]:
        image = self._images[step.image]
        words = ["create", "--label", f"{_ROOT_LABEL}={self._root}", "--label", f"{_RUN_LABEL}={self.session.folder}"]
        words += ["--pull=never"]  # not even for a stray word among the options, which Docker takes for the image
        # An init process, which forwards signals from the first moment and reaps orphans.
        words += ["--init"]
        words += ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]  # noqa: S108
        # Relative paths mean the same inside; images never import from the working folder.
        words += ["--user", f"{os.getuid()}:{os.getgid()}", "--workdir", str(Path.cwd())]
        if not _has_flag(self._options, *_NETWORK):  # Docker accepts several networks only if they are named
            words += ["--network", "none"]
        # By target. Inputs are at the same path, read-only; a container has none of the links to them, which
        # `resolve` would follow in the target as well.
        mounts = {os.path.abspath(path): (os.path.realpath(path), False) for path in self._inputs}  # noqa: PTH100
        # A plan has no root yet, and its outputs are in the session's folder.
        for folder in (self._root, self.session.folder):
            if folder.exists() and not (folder != self._root and folder.is_relative_to(self._root)):
                mounts[str(folder)] = (str(folder), True)
        if self._dev:
            mounts[_CODE] = (str(Path(components.__file__).parent), False)
        for target, (source, writable) in mounts.items():
            words += ["--mount", mount_words(source, target, writable)]
        umask = 0o777 & ~self.session.folder.stat().st_mode  # this process's; containers have their own
        words += ["--env", f"{cli.UMASK}={umask:03o}", "--env", f"{logs.RECORDS}=1"]
        words += ["--env", f"WGAN_IMAGE={image.name}"]
        if not _has_flag(self._options, "--user", "-u"):  # another user may not write there; /tmp is in memory
            words += ["--env", f"TMPDIR={self.session.folder}"]
        # The rest is ours to decide: labels to find it again, and no removal before its exit status is read.
        words += [*self._options, "--name", name, "--rm=false", "--entrypoint", command[0]]
        return [*words, image.id, *command[1:]]


Executor = Processes | Containers  # runs stages


def _has_flag(options: Sequence[str], *flags: str) -> bool:
    return any(word.partition("=")[0] in flags for word in options)


def mount_words(source: str, target: str, writable: bool = False) -> str:
    """Return a mount for `docker create --mount`: fields of CSV, because a path may hold commas and quotes."""
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"target={target}"]
    csv.writer(line, lineterminator="").writerow(fields if writable else [*fields, "readonly"])
    return line.getvalue()
