"""Builds the images, tells what they weigh, pushes them.

    python -m docker.build images [TARGET ...]     what `make images` runs; all targets: preprocess train-cpu ...
    python -m docker.build push REGISTRY           builds on the pinned base, pushes, writes build/images.json
    python -m docker.build sizes [TARGET ...]      what weighs how much in images that are here

From the environment: DOCKER (the client), BASE and BEAM_SDK (images to start from), BEAM_WORKER (`boot`, or `none`
where there is no SDK image), BUILD_OPTIONS (more words for `docker build`, as networks need them).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components import images, storage
from components.errors import ConfigError, StageError
from docker import sbom
from docker.engine import ROOT, Engine
from pipeline import image_digests

# The target of docker/Dockerfile, and the name of its image.
NAMES = {images.PREPROCESS: images.PREPROCESS} | {f"train-{kind}": name for kind, name in images.TRAIN_IMAGES.items()}
DEFAULT = ("preprocess", "train-cpu")
PINNED_BASE = ROOT / "docker" / "base.env"
LOCAL_BASE = "python:3.11-slim-bookworm"
SBOMS = ROOT / "build" / "images"
PUSHED = ROOT / "build" / "images.json"
_PASSED_ON = ("BEAM_SDK", "BEAM_WORKER")
_SHOWN = 12


def tag_of(target: str) -> str:
    """The local name of a target's image, such as `wgan/train:0.1.0`."""
    return images.image(NAMES[target])


def revision() -> str:
    """The commit that is checked out, with `-dirty` behind it if anything differs; `unknown` without git."""
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + ("-dirty" if _git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def build_arguments(base: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The arguments of docker/Dockerfile, by name; see `build`."""
    arguments = {"BASE": base, "VERSION": images.VERSION, "REVISION": revision()}
    return arguments | {name: environment[name] for name in _PASSED_ON if environment.get(name)}


def build(engine: Engine, targets: tuple[str, ...], base: str, environment: Mapping[str, str] = os.environ) -> None:
    """Builds images under their local names, and writes the bill of materials of each to build/images/.

    Args:
        engine: Where to build.
        targets: Keys of `NAMES`.
        base: The image to start from.
        environment: Where `BEAM_SDK` and `BEAM_WORKER` are looked up; without them they are as in the Dockerfile.

    Raises:
        StageError: As `Engine.build`.
    """
    arguments = build_arguments(base, environment)
    for target in targets:
        started = time.monotonic()
        engine.build(target, tag_of(target), arguments)
        print(f"{tag_of(target)}: built in {time.monotonic() - started:.0f} s", file=sys.stderr)
        name = f"wgan/{NAMES[target]}"
        text = sbom.bill_of_materials(name, images.VERSION, contents(engine, tag_of(target)))
        storage.write_file(SBOMS / f"{NAMES[target]}.cdx.json", text.encode())


def contents(engine: Engine, image: str) -> dict[str, Any]:
    """What docker/contents.py finds in an image.

    Raises:
        ConfigError: There is no such image.
    """
    program = (ROOT / "docker" / "contents.py").read_text(encoding="utf-8")
    run = ("run", "--rm", "--interactive", "--network", "none", "--user", "0:0", "--entrypoint", "python")
    found: dict[str, Any] = json.loads(engine.read(*run, image, "-", given=program))
    return found


def sizes(engine: Engine, targets: tuple[str, ...]) -> str:
    """What each image weighs unpacked, its parts, its heaviest packages: a table in MB of 1,000,000 bytes.

    Raises:
        ConfigError: An image is not here.
    """
    lines = []
    for target in targets:
        found = contents(engine, tag_of(target))
        whole = int(engine.read("image", "inspect", "--format", "{{.Size}}", tag_of(target)))
        parts = found["bytes"]
        environment, beam, code = parts["/opt/venv"], parts["/opt/apache"], parts["/app"]
        rows = [
            (f"{tag_of(target)}", whole),
            ("  base", whole - environment - beam - code),
            (f"  Python packages, {len(found['python_packages'])}", environment),
        ]
        heaviest = sorted(found["python_packages"], key=lambda package: -package["bytes"])[:_SHOWN]
        rows += [(f"    {package['name']} {package['version']}", package["bytes"]) for package in heaviest]
        rows += [("  Beam's boot", beam)] if beam else []
        rows += [("  code", code)]
        lines += [f"{name:<42}{_megabytes(size):>9} MB" for name, size in rows]
    return "\n".join(lines)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f}" if size < 10_000_000 else f"{size / 1e6:,.0f}"


def pinned_base(file: Path = PINNED_BASE) -> str:
    """The base of published images.

    Raises:
        ConfigError: The file names none by its digest.
    """
    found = re.search(r"^BASE=(\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None or not image_digests.is_digest(found[1]):
        raise ConfigError(
            f"{file.name} names no base by its digest; give one, BASE=NAME@sha256:..., or name another base, "
            f"BASE={LOCAL_BASE}, to publish images on it all the same"
        )
    return found[1]


def push(engine: Engine, targets: tuple[str, ...], registry: str) -> dict[str, Any]:
    """Pushes the local images, and writes their digests to build/images.json.

    Args:
        engine: Where the images are.
        targets: Keys of `NAMES`.
        registry: Host and path that come before an image's name.

    Returns:
        What the file holds.

    Raises:
        ConfigError: `registry` is not the beginning of an image's name.
        StageError: A push failed.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.:/_-]*[A-Za-z0-9]", registry) or "://" in registry:
        raise ConfigError(f"REGISTRY={registry!r} is no host and path, such as europe-docker.pkg.dev/PROJECT/wgan")
    pushed = {}
    for target in targets:
        place = f"{registry}/{NAMES[target]}"
        engine.read("tag", tag_of(target), f"{place}:{images.VERSION}")
        engine.shown("push", f"{place}:{images.VERSION}")
        known = json.loads(engine.read("image", "inspect", "--format", "{{json .RepoDigests}}", tag_of(target)))
        (pushed[NAMES[target]],) = [name for name in known if name.startswith(f"{place}@")]
    version = image_digests.SCHEMA_VERSION
    found = {"schema_version": version, "version": images.VERSION, "revision": revision(), "images": pushed}
    storage.write_json(PUSHED, found)
    return found


def main(arguments: list[str], environment: Mapping[str, str] = os.environ) -> int:
    """Runs the command line; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m docker.build", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("images", "sizes", "push"):
        command = commands.add_parser(name)
        if name == "push":
            command.add_argument("registry")
        command.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}")
    given = parser.parse_args(arguments)
    try:
        targets = tuple(given.targets) or DEFAULT
        if unknown := [target for target in targets if target not in NAMES]:
            raise ConfigError(f"IMAGES: there is no {unknown[0]}; there are {', '.join(NAMES)}")
        base = environment.get("BASE") or (pinned_base() if given.command == "push" else LOCAL_BASE)
        engine = Engine(environment)
        if given.command == "sizes":
            print(sizes(engine, targets))
            return 0
        build(engine, targets, base, environment)
        if given.command == "push":
            for name, reference in push(engine, targets, given.registry)["images"].items():
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
