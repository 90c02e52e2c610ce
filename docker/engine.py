"""Docker, as the client that DOCKER names, and what can go wrong with it told in one line."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from components.errors import ConfigError, StageError, TransientError

ROOT = Path(__file__).parents[1]
_SECONDS_TO_ANSWER = 20
_REMEDIES = (
    ("permission denied", "may not be used by this user; add it to the group docker, or run this as root"),
    ("cannot connect", "has no engine to talk to; start it (`systemctl start docker`), or set DOCKER_HOST"),
    ("error during connect", "has no engine to talk to; start it (`systemctl start docker`), or set DOCKER_HOST"),
)
_NO_SPACE = "no space left on device"


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
        self.client = environment.get("DOCKER") or "docker"
        self._environment = {**environment, "DOCKER_BUILDKIT": "1"}
        try:
            self._build_options = shlex.split(environment.get("BUILD_OPTIONS", ""))
        except ValueError as error:
            raise ConfigError(f"BUILD_OPTIONS: {error} in {environment['BUILD_OPTIONS']!r}") from None
        version = self._answer("version", "--format", "{{.Client.Version}}")
        # Since 23.0 the client has BuildKit in a plugin of its own.
        if int(version.split(".")[0]) >= 23 and self._run("buildx", "version").returncode:
            raise ConfigError(
                f"{self.client} {version} cannot build without its plugin buildx; install docker-buildx-plugin, or "
                "name another client with DOCKER=/path/to/docker"
            )

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
        full = False
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
                full = full or _NO_SPACE in line
        if full:
            raise TransientError(f"docker {words[0]}: no space left; `docker system prune` frees what is not used")
        if process.returncode:
            raise StageError(
                f"docker {words[0]} ended with exit code {process.returncode}; why is in its last lines above"
            )

    def read(self, *words: str, given: str | None = None) -> str:
        """What a command of the client's prints.

        Args:
            words: The command.
            given: Its standard input.

        Raises:
            ConfigError: It failed; in its own words.
        """
        done = self._run(*words, given=given, seconds=None)
        if done.returncode:
            raise ConfigError(f"docker {words[0]}: {_last_line(done.stderr)}")
        return done.stdout.strip()

    def _answer(self, *words: str) -> str:
        try:
            # `version` asks the engine too, whatever it is told to print.
            done = self._run(*words, seconds=_SECONDS_TO_ANSWER)
        except FileNotFoundError:
            raise ConfigError(
                f"no Docker client {self.client!r}; install Docker, or name its client with DOCKER=/path/to/docker"
            ) from None
        except PermissionError:
            raise ConfigError(f"DOCKER={self.client} is no program that may be run; name the Docker client") from None
        except subprocess.TimeoutExpired:
            raise TransientError(
                f"the Docker engine does not answer within {_SECONDS_TO_ANSWER} seconds; restart it, and try again"
            ) from None
        if done.returncode:
            complaint = _last_line(done.stderr)
            for sign, remedy in _REMEDIES:
                if sign in done.stderr.lower():
                    raise ConfigError(f"{self.client} {remedy} (it said: {complaint})")
            raise ConfigError(f"{self.client} version: {complaint}")
        return done.stdout.strip()

    def _run(
        self, *words: str, given: str | None = None, seconds: float | None = _SECONDS_TO_ANSWER
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.client, *words],
            cwd=ROOT,
            env=self._environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
