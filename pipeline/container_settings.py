"""What containers are given beyond what the package says: GPUs, mounts, environment, user, network, credentials.

Each flag may be given several times, as VALUE for all stages or STAGE=VALUE for one; the latter wins.
"""

import argparse
import dataclasses
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

NO_NETWORK = "none"
_GPUS = re.compile(r"all|[1-9]\d*|device=[\w-]+(,[\w-]+)*")
_SIZE = re.compile(r"[1-9]\d*[bkmg]?", re.IGNORECASE)
_USER = re.compile(r"\d+(:\d+)?")
_NETWORK = re.compile(r"[\w][\w.:-]*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*(=.*)?", re.DOTALL)

_HELP = {
    "gpus": "GPUs that it may use: all, how many, or device=ID,ID",
    "shm_size": "size of its /dev/shm, such as 2g",
    "mount": "SOURCE[:TARGET][:ro|:rw], a folder or file of this machine that it sees at TARGET (the same path, ro)",
    "env": "NAME=VALUE, or NAME, whose value is taken from here and stays out of logs and command lines",
    "user": "UID[:GID] that it runs as (default: yours, so that what it makes is yours)",
    "network": "network that it is in: bridge, host, or one of Docker's (default: none, but its own loopback)",
    "credentials": "JSON file of Google Cloud credentials, seen by it read-only",
}


@dataclasses.dataclass(frozen=True)
class Mount:
    """A folder or file of this machine, and where a container sees it."""

    source: str
    target: str
    writable: bool = False


@dataclasses.dataclass(frozen=True)
class ContainerSettings:
    """What the container of one stage is given.

    Attributes:
        gpus, shm_size: In Docker's words; empty for none, and for Docker's own default.
        mounts: In the order given; a later one of the same target takes the place of an earlier.
        environment: `NAME=VALUE`, or `NAME` for the value that this process has.
        user: UID and GID.
        network: The name of a network of Docker's.
        credentials: A file of this machine; empty for none.
    """

    gpus: str = ""
    shm_size: str = ""
    mounts: tuple[Mount, ...] = ()
    environment: tuple[str, ...] = ()
    user: str = ""
    network: str = NO_NETWORK
    credentials: str = ""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags, each of which may be repeated."""
    group = parser.add_argument_group("with --runner docker, for all stages as VALUE, for one as STAGE=VALUE")
    for name, help_text in _HELP.items():
        spellings = dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"])
        group.add_argument(*spellings, dest=name, action="append", default=[], metavar="[STAGE=]VALUE", help=help_text)


def given_in(parsed: argparse.Namespace) -> dict[str, list[str]]:
    """The flags that a command line gave, by name."""
    return {name: getattr(parsed, name) for name in _HELP if getattr(parsed, name)}


def read(given: dict[str, list[str]], stages: list[str], problems: list[str]) -> dict[str, ContainerSettings]:
    """The settings of each stage.

    Args:
        given: What `given_in` returned.
        stages: The names of the stages.
        problems: Grows by a sentence for each mistake.
    """
    problems += [
        f"{name} must be {_EXPECTED[name]}, or STAGE={name.upper()} for one of {', '.join(stages)}, got {value!r}"
        for name, values in given.items()
        for _, value in _by_stage(values, stages)
        if not _CHECKS[name](value)
    ]
    if problems:
        return {}
    return {stage: _of_stage(given, stage, stages) for stage in stages}


def _by_stage(values: Iterable[str], stages: list[str]) -> list[tuple[str, str]]:
    """Each value with the stage that it is for, empty for all; those for all first."""
    found = []
    for value in values:
        stage, equals, rest = value.partition("=")
        found.append((stage, rest) if equals and stage in stages else ("", value))
    return sorted(found, key=lambda each: bool(each[0]))


def _of_stage(given: dict[str, list[str]], stage: str, stages: list[str]) -> ContainerSettings:
    ours = {
        name: [value for whose, value in _by_stage(values, stages) if whose in ("", stage)]
        for name, values in given.items()
    }
    mounts = {mount.target: mount for mount in map(_mount, ours.get("mount", []))}
    return ContainerSettings(
        mounts=tuple(mounts.values()),
        environment=tuple(ours.get("env", [])),
        **{name: values[-1] for name, values in ours.items() if name not in ("mount", "env") and values},
    )


def where_it_is(place: str) -> Mount:
    """A folder or file of this machine, seen read-only by the same name: a container has none of the links to it."""
    return Mount(os.path.realpath(place), os.path.abspath(place))  # noqa: PTH100 (resolve() would follow links)


def _mount(value: str) -> Mount:
    source, *more = value.split(":")
    mode = more.pop() if more and more[-1] in ("ro", "rw") else "ro"
    same = where_it_is(source)
    return Mount(same.source, more[0] if more else same.target, mode == "rw")


def _is_mount(value: str) -> bool:
    source, *more = value.split(":")
    targets = more[:-1] if more and more[-1] in ("ro", "rw") else more
    return len(targets) <= 1 and all(target.startswith("/") for target in targets) and bool(source) and _exists(source)


def _exists(place: str) -> bool:
    try:
        return Path(place).exists()
    except (OSError, ValueError):
        return False


def _is_variable(value: str) -> bool:
    return bool(_VARIABLE.fullmatch(value)) and ("=" in value or value in os.environ)


_CHECKS: dict[str, Callable[[str], bool]] = {
    "gpus": lambda value: bool(_GPUS.fullmatch(value)),
    "shm_size": lambda value: bool(_SIZE.fullmatch(value)),
    "mount": _is_mount,
    "env": _is_variable,
    "user": lambda value: bool(_USER.fullmatch(value)),
    "network": lambda value: bool(_NETWORK.fullmatch(value)),
    "credentials": lambda value: _exists(value) and Path(value).is_file(),
}
_EXPECTED = {
    "gpus": "all, a number or device=ID",
    "shm_size": "a size such as 512m or 2g",
    "mount": "SOURCE[:TARGET][:ro|:rw] with a SOURCE that exists and a TARGET that begins with /",
    "env": "NAME=VALUE, or the NAME of a variable that is set here",
    "user": "UID or UID:GID in numbers",
    "network": "the name of a network of Docker's",
    "credentials": "a file of this machine",
}
