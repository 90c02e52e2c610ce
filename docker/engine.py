"""Docker, as a builder of images that shows what it does."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from components.errors import ConfigError, StageError
from pipeline.docker_client import NO_SPACE, Docker, explained

ROOT = Path(__file__).parents[1]


class Engine:
    """A Docker engine that answers, by way of a client that builds with BuildKit.

    Args:
        environment: Where `DOCKER` (the client; `docker` unless given) and `BUILD_OPTIONS` (more words for
            `docker build`) are looked up; all of it is passed on.

    Raises:
        ConfigError: There is no client, it may not talk to the engine, or it cannot build.
        TransientError: The engine does not answer.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = {**environment, "DOCKER_BUILDKIT": "1"}
        self._docker = Docker(self._environment)
        self.client = self._docker.program
        try:
            self._build_options = shlex.split(environment.get("BUILD_OPTIONS", ""))
        except ValueError as error:
            raise ConfigError(f"BUILD_OPTIONS: {error} in {environment['BUILD_OPTIONS']!r}") from None
        # `version` asks the engine too, whatever it is told to print.
        version = self._docker.ask("version", "--format", "{{.Client.Version}}").strip()
        # Since 23.0 the client has BuildKit in a plugin of its own.
        if int(version.split(".")[0]) >= 23 and not self._has_buildx():
            raise ConfigError(
                f"{self.client} {version} cannot build without its plugin buildx; install docker-buildx-plugin, or "
                "name another client with DOCKER=/path/to/docker"
            )

    def _has_buildx(self) -> bool:
        try:
            self._docker.ask("buildx", "version")
        except ConfigError:
            return False
        return True

    def build(self, target: str, tag: str, arguments: dict[str, str]) -> None:
        """Builds one target of docker/Dockerfile, what it does shown as it goes.

        Raises:
            TransientError: The disk is full.
            StageError: The build failed; its own words are above.
        """
        command = ["build", "--progress=plain", "--file", "docker/Dockerfile", "--target", target, "--tag", tag]
        command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self.shown(*command, *self._build_options, ".")

    def shown(self, *words: str) -> None:
        """Runs a command of the client's whose output the user is to see.

        Raises:
            TransientError: The disk is full.
            StageError: It failed; its own words are above.
        """
        full = ""
        with subprocess.Popen(
            [self.client, *words],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            for line in process.stdout or ():
                sys.stderr.write(line)
                full = line if NO_SPACE in line else full
        if process.returncode and full:
            raise explained(full)
        if process.returncode:
            raise StageError(
                f"docker {words[0]} ended with exit code {process.returncode}; why is in its last lines above"
            )

    def read(self, *words: str, given: str = "") -> str:
        """What a command of the client's prints, however long that takes.

        Args:
            *words: The command.
            given: Its standard input.

        Raises:
            ConfigError, TransientError: It failed; in its own words.
        """
        return self._docker.ask(*words, seconds=None, given=given).strip()
