"""Docker's command line with time limits; its errors as one line with a remedy.

Not a library, because the command knows the user's setup: contexts, DOCKER_HOST, credentials of registries.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
from collections.abc import Mapping
from typing import cast

from components.core.errors import ConfigError, StageError, TransientError

# Longer than a healthy engine takes, even one that is busy writing; shorter than a user waits.
_ANSWER_SECONDS = 15.0
NO_SPACE = "no space left on device"
_UNTIL_IT_WORKS = ("/bin/sh", "-c", 'until "$@"; do sleep 0.2; done', "sh")
CODE_LABEL = "wgan.code"
_COMPLAINTS: tuple[tuple[str, type[StageError], str], ...] = (
    (
        "permission denied while trying to connect",
        ConfigError,
        "Docker refuses this user: join its group (`sudo usermod -aG docker $USER`, then log in again), or use a "
        "rootless Docker",
    ),
    (
        "cannot connect to the docker daemon|connection refused|error during connect|no such host|no such file.*sock",
        TransientError,
        "no Docker engine answers: start it (`sudo systemctl start docker`, or Docker Desktop), or set DOCKER_HOST",
    ),
    (
        NO_SPACE,
        TransientError,
        "no space is left where Docker keeps images and containers: `docker system df` shows its use, `docker "
        "system prune` frees unused data",
    ),
    (
        "could not select device driver",
        ConfigError,
        "this Docker engine has no driver for GPUs: install the NVIDIA Container Toolkit, or leave out --gpus",
    ),
)


@dataclasses.dataclass(frozen=True)
class Image:
    """Description of an image by the engine that has it."""

    name: str  # with the digest of the registry's manifest, else the engine's own: `wgan/train:0.2.0@sha256:...`
    id: str  # stays valid when names move
    platform: str  # such as linux/amd64
    version: str  # its label org.opencontainers.image.version; empty without one
    code: Mapping[str, str] = dataclasses.field(default_factory=dict)  # digests of the stages' code, by stage


class Docker:
    """The command line of Docker, which the variable DOCKER names; each method raises as `ask` does."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.program = environment.get("DOCKER") or "docker"
        self._environment = environment

    def ask(self, *words: str, seconds: float | None = _ANSWER_SECONDS, text: str = "") -> str:
        """Return the output of a command; `seconds` is its time limit, `text` its standard input.

        Raises `ConfigError` if there is no Docker, it refuses this user or the command cannot work; `TransientError` if
        no engine answers in time, or there is no space left.
        """
        return self.answer(self.begin(*words, stdin=subprocess.PIPE, stderr=subprocess.PIPE), seconds, text)

    @staticmethod
    def answer(client: "subprocess.Popen[bytes]", seconds: float | None, text: str = "") -> str:
        """Wait for a command that `begin` started; return and raise as `ask` does."""
        program, command, *_ = cast("list[str]", client.args)
        with client:
            try:
                output, complaint = client.communicate(text.encode() or None, seconds)
            except subprocess.TimeoutExpired:
                raise TransientError(
                    f"Docker did not answer `{program} {command}` within {seconds:g} s: see whether `{program} info` "
                    "answers, and restart the engine if it does not, or set DOCKER_HOST"
                ) from None
            finally:
                end(client)
        if client.returncode:
            raise explained(complaint.decode(errors="replace"))
        return output.decode(errors="replace")

    def platform(self) -> str:
        """Return operating system and architecture of the engine; called first, as it shows whether there is one."""
        return self.ask("version", "--format", "{{.Server.Os}}/{{.Server.Arch}}").strip()

    def image(self, reference: str) -> Image | None:
        """Return an image of the engine; None if it has none of that name."""
        try:
            description = json.loads(self.ask("image", "inspect", reference))[0]
        except StageError as error:
            if "no such image" in str(error).lower():
                return None
            raise
        labels = (description.get("Config") or {}).get("Labels") or {}
        pushed = [name.partition("@")[2] for name in description.get("RepoDigests") or []]
        return Image(
            name=reference if "@" in reference else f"{reference}@{(pushed or [description['Id']])[0]}",
            id=description["Id"],
            platform=f"{description['Os']}/{description['Architecture']}",
            version=labels.get("org.opencontainers.image.version", ""),
            code=json.loads(labels.get(CODE_LABEL, "{}")),
        )

    def begin(
        self, *words: str, stdin: int = subprocess.DEVNULL, stderr: int = subprocess.STDOUT, repeat: bool = False
    ) -> "subprocess.Popen[bytes]":
        """Start a command, which may repeat until it works; raise `ConfigError` without Docker."""
        try:
            return subprocess.Popen(
                [*(_UNTIL_IT_WORKS if repeat else ()), self.program, *words],
                env=self._environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C is for the caller
            )
        except (FileNotFoundError, PermissionError):
            raise ConfigError(
                f"there is no program {self.program} here: install Docker, or name its command line in the variable "
                "DOCKER"
            ) from None


def end(client: "subprocess.Popen[bytes]") -> None:
    """Kill a command that `begin` started and what it started, unless it has ended."""
    with contextlib.suppress(ProcessLookupError):
        if client.poll() is None:
            os.killpg(client.pid, signal.SIGKILL)


def explained(complaint: str) -> StageError:
    """Return Docker's message on stderr as one line, with the remedy if known."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    said = " ".join(line for line in lines if not line.startswith(("See 'docker", "Run 'docker"))) or "it said nothing"
    for pattern, kind, message in _COMPLAINTS:
        if re.search(pattern, said, re.IGNORECASE):
            return kind(f"{message} (it said: {said})")
    return ConfigError(f"Docker: {said}")
