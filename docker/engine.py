"""Docker, as a builder of images that shows what it does."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from components.core.errors import ConfigError, StageError
from pipeline.local.docker_client import NO_SPACE, Docker, explained

ROOT = Path(__file__).parents[1]


class Engine(Docker):
    """A Docker engine that answers, by way of a client that builds with BuildKit.

    Args:
        environment: Where `DOCKER` (the client; `docker` unless given) and `BUILD_OPTIONS` (more words for
            `docker build`) are looked up; all of it is passed on.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__({**environment, "DOCKER_BUILDKIT": "1"})
        try:
            self._build_options = shlex.split(environment.get("BUILD_OPTIONS", ""))
        except ValueError as error:
            raise ConfigError(f"BUILD_OPTIONS: {error} in {environment['BUILD_OPTIONS']!r}") from None
        # `version` asks the engine too, whatever it prints.
        version = self.ask("version", "--format", "{{.Client.Version}}").strip()
        # Since 23.0 the client has BuildKit in a plugin of its own.
        if int(version.split(".")[0]) >= 23 and not self._has_buildx():
            raise ConfigError(
                f"{self.program} {version} cannot build without its plugin buildx; install docker-buildx-plugin, or "
                "name another client with DOCKER=/path/to/docker"
            )

    def _has_buildx(self) -> bool:
        try:
            self.ask("buildx", "version")
        except ConfigError:
            return False
        return True

    def build(self, target: str, tag: str, arguments: dict[str, str], labels: dict[str, str]) -> None:
        """Build one target of docker/Dockerfile; raise as `shown` does."""
        command = ["build", "--progress=plain", "--file", "docker/Dockerfile", "--target", target, "--tag", tag]
        command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        command += [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
        self.shown(*command, *self._build_options, ".")

    def shown(self, *words: str) -> None:
        """Run a command of the client's, and show what it prints.

        Raises:
            TransientError: The disk is full.
            StageError: It failed; its own words are above.
        """
        full = ""
        command = [self.program, *words]
        with subprocess.Popen(
            command,
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
        """Return what a command of the client's prints, however long that takes; `given` is its standard input."""
        return self.ask(*words, seconds=None, given=given).strip()
