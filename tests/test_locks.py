"""Each lock in requirements/ holds every direct dependency of the extras and groups that `make lock` puts into it."""

import argparse
import itertools
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def commands() -> Iterator[argparse.Namespace]:
    """Yield the arguments of `make lock` to uv for each lock."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-o", type=Path, dest="lock")
    parser.add_argument("--python-platform")
    parser.add_argument("--excludes", type=Path)
    for name in ("extra", "group", "no-emit-package"):
        parser.add_argument(f"--{name}", action="append", default=[])
    printed = subprocess.run(["make", "--dry-run", "lock"], cwd=ROOT, capture_output=True, text=True, check=True)
    for line in printed.stdout.replace("\\\n", "").splitlines():
        if " pip compile " in line:
            parsed, others = parser.parse_known_args(shlex.split(line.partition(" pip compile ")[2], comments=True))
            yield argparse.Namespace(**vars(parsed), with_project="pyproject.toml" in others)


def required(command: argparse.Namespace) -> Iterator[Requirement]:
    def group_members(name: str) -> Iterator[str]:
        for entry in PROJECT["dependency-groups"][name]:
            yield from [entry] if isinstance(entry, str) else group_members(entry["include-group"])

    def expanded(text: str) -> Iterator[Requirement]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["project"]["name"]:
            for extra in requirement.extras:
                for inner in PROJECT["project"]["optional-dependencies"][extra]:
                    yield from expanded(inner)
        else:
            yield requirement

    texts = [text for name in command.group for text in group_members(name.removeprefix("pyproject.toml:"))]
    if command.with_project:
        texts += PROJECT["project"]["dependencies"]
        texts += [text for extra in command.extra for text in PROJECT["project"]["optional-dependencies"][extra]]
    lines = (ROOT / command.excludes).read_text().splitlines() if command.excludes else []
    excluded = [line for line in lines if line and not line.startswith("#")]
    without = {canonicalize_name(name) for name in (*command.no_emit_package, *excluded)}
    platform: Any = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"}
    for requirement in itertools.chain.from_iterable(map(expanded, texts)):
        everywhere = command.python_platform is None or requirement.marker is None
        if canonicalize_name(requirement.name) not in without and (
            everywhere or requirement.marker.evaluate(platform)  # type: ignore[union-attr]
        ):
            yield requirement


def locked(text: str) -> dict[str, set[str]]:
    """Return the versions of each package in a lock: several for some, one per platform."""
    versions: dict[str, set[str]] = {}
    for line in text.splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            requirement = Requirement(line.removesuffix("\\"))
            (version,) = requirement.specifier
            versions.setdefault(canonicalize_name(requirement.name), set()).add(version.version)
    return versions


def missing(command: argparse.Namespace, text: str) -> list[str]:
    versions = locked(text)
    return [
        str(requirement)
        for requirement in required(command)
        if not any(map(requirement.specifier.contains, versions.get(canonicalize_name(requirement.name), ())))
    ]


LOCKS = {command.lock.name: command for command in commands()}


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_holds_every_direct_dependency(name: str) -> None:
    assert missing(LOCKS[name], (ROOT / "requirements" / name).read_text()) == [], "run `make lock`"


def test_every_lock_is_compiled() -> None:
    files = {path.name for path in (ROOT / "requirements").glob("*.txt")}
    assert {name for name in files if not name.endswith("-excludes.txt")} == LOCKS.keys()
