"""Builds the images and pushes them.

    python -m docker.build images [TARGET ...]     what `make images` runs; all targets: preprocess train-cpu ...
    python -m docker.build push REGISTRY           builds on the pinned base, pushes, writes build/images.json

From the environment: DOCKER (the client), BASE and BEAM_SDK (images to start from), BEAM_WORKER (`boot`, or `none`
where there is no SDK image), BUILD_OPTIONS (more words for `docker build`, as networks need them).
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core import container_images, stages
from components.core.errors import ConfigError, StageError
from components.core.stage import cache_key
from components.core.storage import atomic_files
from docker import sbom
from pipeline.local.docker_client import CODE_LABEL, NO_SPACE, Docker, explained
from pipeline.package import image_digests

ROOT = Path(__file__).parents[1]
# The target of docker/Dockerfile, and the name of its image.
NAMES = {container_images.PREPROCESS: container_images.PREPROCESS} | {
    f"train-{kind}": name for kind, name in container_images.TRAIN_IMAGES.items()
}
DEFAULT = ("preprocess", "train-cpu")
PINNED_BASE = ROOT / "docker" / "base.env"
LOCAL_BASE = "python:3.11-slim-bookworm"
SBOMS = ROOT / "build" / "images"
PUSHED = ROOT / "build" / "images.json"


class Engine(Docker):
    """A Docker engine that answers, by way of a client that builds with BuildKit."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        super().__init__({**environment, "DOCKER_BUILDKIT": "1"})
        try:
            self.build_options = shlex.split(environment.get("BUILD_OPTIONS", ""))
        except ValueError as error:
            raise ConfigError(f"BUILD_OPTIONS: {error} in {environment['BUILD_OPTIONS']!r}") from None
        version = self.ask("version", "--format", "{{.Client.Version}}").strip()  # which asks the engine too
        if int(version.split(".")[0]) >= 23:  # since then the client has BuildKit in a plugin of its own
            try:
                self.ask("buildx", "version")
            except ConfigError:
                raise ConfigError(
                    f"{self.program} {version} cannot build without its plugin buildx; install docker-buildx-plugin, "
                    "or name another client with DOCKER=/path/to/docker"
                ) from None

    def shown(self, *words: str) -> None:
        """Run a command of the client and show its output; raise if it fails."""
        full = ""
        with subprocess.Popen(
            [self.program, *words],
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
            raise StageError(f"docker {words[0]} ended with exit code {process.returncode}; its last lines say why")

    def read(self, *words: str, text: str = "") -> str:
        """Return the output of a command, without a time limit; `text` is its standard input."""
        return self.ask(*words, seconds=None, text=text).strip()


def tag_of(target: str) -> str:
    """Return the local name of a target's image, such as `wgan/train:0.2.0`."""
    return container_images.image(NAMES[target])


def revision() -> str:
    """Return the commit that is checked out, with `-dirty` behind it if anything differs; `unknown` without git."""
    try:
        commit, changes = (
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain"))
        )
        return commit + ("-dirty" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def build(engine: Engine, targets: tuple[str, ...], base: str, environment: Mapping[str, str] = os.environ) -> None:
    """Build images under their local names, and write the bill of materials of each to build/images/."""
    arguments = {"BASE": base, "VERSION": container_images.VERSION, "REVISION": revision()}
    arguments |= {name: environment[name] for name in ("BEAM_SDK", "BEAM_WORKER") if environment.get(name)}
    # By the code of each stage `wgan run` computes keys of stages there.
    code = json.dumps({stage: cache_key.source_digest(stage) for stage in stages.MAKERS})
    options = ["--label", f"{CODE_LABEL}={code}"]
    options += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    for target in targets:
        started = time.monotonic()
        command = ["build", "--progress=plain", "--file", "docker/Dockerfile", "--target", target]
        engine.shown(*command, "--tag", tag_of(target), *options, *engine.build_options, ".")
        print(f"{tag_of(target)}: built in {time.monotonic() - started:.0f} s", file=sys.stderr)
        name = f"wgan/{NAMES[target]}"
        text = sbom.bill_of_materials(name, container_images.VERSION, contents(engine, tag_of(target)))
        atomic_files.write_file(SBOMS / f"{NAMES[target]}.cdx.json", text.encode())


def contents(engine: Engine, image: str) -> dict[str, Any]:
    """Return what docker/contents.py finds in an image."""
    program = (ROOT / "docker" / "contents.py").read_text(encoding="utf-8")
    run = ("run", "--rm", "--interactive", "--network", "none", "--user", "0:0", "--entrypoint", "python")
    return dict(json.loads(engine.read(*run, image, "-", text=program)))


def pinned_base(file: Path = PINNED_BASE) -> str:
    """Return the base of published images; refuse one that is not named by its digest."""
    match = re.search(r"^BASE=(\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None or not image_digests.is_digest(match[1]):
        raise ConfigError(
            f"{file.name} names no base by its digest; give one, BASE=NAME@sha256:..., or name another base, "
            f"BASE={LOCAL_BASE}, to publish images on that"
        )
    return match[1]


def push(engine: Engine, targets: tuple[str, ...], registry: str) -> dict[str, Any]:
    """Push the local images to a host and path, write their digests to build/images.json, and return what it holds."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:/_-]*[A-Za-z0-9]", registry) or "://" in registry:
        raise ConfigError(f"REGISTRY={registry!r} is no host and path, such as europe-docker.pkg.dev/PROJECT/wgan")
    pushed = {}
    for target in targets:
        location = f"{registry}/{NAMES[target]}"
        engine.read("tag", tag_of(target), f"{location}:{container_images.VERSION}")
        engine.shown("push", f"{location}:{container_images.VERSION}")
        references = json.loads(engine.read("image", "inspect", "--format", "{{json .RepoDigests}}", tag_of(target)))
        (pushed[NAMES[target]],) = [name for name in references if name.startswith(f"{location}@")]
    version = image_digests.SCHEMA_VERSION
    record = {"schema_version": version, "version": container_images.VERSION, "revision": revision(), "images": pushed}
    atomic_files.write_json(PUSHED, record)
    return record


def main(arguments: list[str], environment: Mapping[str, str] = os.environ) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m docker.build", description="Builds the images and pushes them.")
    commands = parser.add_subparsers(dest="command", required=True)
    images, pushing = commands.add_parser("images"), commands.add_parser("push")
    pushing.add_argument("registry")
    for command in (images, pushing):
        command.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}")
    parsed = parser.parse_args(arguments)
    try:
        targets = tuple(parsed.targets) or DEFAULT
        if unknown := [target for target in targets if target not in NAMES]:
            raise ConfigError(f"IMAGES: there is no {unknown[0]}; there are {', '.join(NAMES)}")
        base = environment.get("BASE") or (pinned_base() if parsed.command == "push" else LOCAL_BASE)
        engine = Engine(environment)
        build(engine, targets, base, environment)
        if parsed.command == "push":
            for name, reference in push(engine, targets, parsed.registry)["images"].items():
                print(f"{name}: {reference}")
            return 0
        for target in targets:
            print(f"{tag_of(target)}  {SBOMS.relative_to(ROOT)}/{NAMES[target]}.cdx.json")
    except StageError as error:
        print(f"images: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
