"""Real stages where nothing can be written: a full disk, a read-only one, a limit on a file's size, another's folder.

Disks are tmpfs in this process's own mount namespace, so that nothing is left of them:

    unshare --mount python -m tests.faults.stages.real_limits stages
    unshare --mount python -m tests.faults.stages.real_limits trainings
"""

import ctypes
import importlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.core.artifacts import checkpoints
from components.core.artifacts.datasets import ImageShape
from components.core.registry import registry
from components.core.storage import buckets
from tests.conftest import write_dataset
from tests.fakes.gcs.server import serving
from tests.faults import candidates, forks
from tests.faults.stages import kills
from tests.faults.stages.kills import TRAINING, Stage, content, differences

_NOBODY = 65534
_PR_SET_KEEPCAPS, _CAPABILITY_VERSION_3, _CAP_DAC_READ_SEARCH = 8, 0x20080522, 1 << 2  # capabilities(7), capset(2)
_INFORMATION = re.compile(r"\d\d:\d\d:\d\d (?![WE] )")
_SIZE = 300_000  # bytes of a model that does not fit
_ROOM_OF_A_TRAINING = "76k"  # for two of its checkpoints, not three


def main(what: str) -> None:
    """Print for each case the exit code, the messages, and the state afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "disk").mkdir()
        print(json.dumps({"stages": stages, "trainings": trainings}[what](folder)))


def stages(folder: Path) -> dict[str, Any]:
    """Run publications and datasets, and decisions."""
    first = candidates.candidate(folder / "1", 1)
    first.publish(folder / "registry")
    candidates.candidate(folder / "2", 2, (first.digest, 1), _SIZE)
    disk = folder / "disk"
    _mount(disk, "size=256k")
    shutil.copytree(folder / "registry", disk / "registry")
    found = {
        "full disk": _publish(folder, disk / "registry"),
        "full disk, again": _publish(folder, disk / "registry"),
        "full disk, a dataset": _preprocess(disk / "dataset"),
        "full disk, a dataset in a bucket": _fetch(folder, disk / "mirrors"),
        "limited size of files": _publish(folder, folder / "registry", _limit_size),
        "another's folder": _publish(folder, folder / "registry", _become_nobody),
        "another's root": _decide(folder / "runs", _become_nobody),
        "another's root on Kubernetes": _decide(folder / "runs", _become_nobody_in_a_pod),
    }
    _mount(disk, "remount,ro")
    found["read-only disk"] = _publish(folder, disk / "registry")
    _mount(disk, "remount,rw,size=10m")
    found["room again"] = _publish(folder, disk / "registry")
    found["room again, a dataset"] = _preprocess(disk / "dataset")
    found["allowed again"] = _publish(folder, folder / "registry")
    subprocess.run(["umount", disk], check=True)
    return found


def _mount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)


def _limit_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_SIZE // 2, _SIZE // 2))


def _become_nobody() -> None:
    """Become a user who may write nowhere, and read everything: the code may lie below a folder closed to others."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.setgroups([])
    os.setgid(_NOBODY)
    keeps_capabilities = libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setuid(_NOBODY)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(_CAP_DAC_READ_SEARCH, _CAP_DAC_READ_SEARCH)  # effective, permitted
    if keeps_capabilities or libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capabilities")


def _become_nobody_in_a_pod() -> None:
    os.environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    _become_nobody()


def _decide(root: Path, before: Callable[[], None]) -> dict[str, Any]:
    found = _ended(Stage("decide", {"source": "digits", "registry": root / "registry"}), before)
    return {**found, "place": str(root), "made": root.exists(), "left": []}


def _publish(folder: Path, location: Path, before: Callable[[], None] = lambda: None) -> dict[str, Any]:
    found = _ended(kills.publishing(folder, 2).into(location), before)
    champion = registry.read_champion(location)
    return {**found, "place": str(location), "champion": champion.version if champion else 0, **_left(location)}


def _preprocess(location: Path) -> dict[str, Any]:
    settings = {"source": "digits", "height": 32, "width": 32, "dataset": location}
    found = _ended(Stage("preprocess", settings))
    return {**found, "place": str(location), "made": location.exists(), **_left(location.parent)}


def _fetch(folder: Path, mirrors: Path) -> dict[str, Any]:
    """Embed a dataset in a bucket whose shards do not fit into the folder for mirrors."""
    with serving() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", server.url)
        patch.setenv("WGAN_MIRRORS", str(mirrors))
        server.create_bucket("b")
        counts = {"train": 250, "validation": 40, "test": 100}
        dataset = write_dataset(folder / "to-fetch", ImageShape(32, 32, 1), counts, 2)
        for path in dataset.iterdir():
            buckets.put(f"gs://b/{path.name}", path.read_bytes())
        found = _ended(Stage("embed", {"dataset": "gs://b", "embedding": folder / "embedding"}))
        downloaded = [request.path for request in server.requests if request.query.get("alt") == "media"]
        return {**found, "place": "gs://b", "downloaded": downloaded, **_left(mirrors)}


def trainings(folder: Path) -> dict[str, Any]:
    """Run a training whose disk is full after one or two checkpoints, again, and then with space."""
    importlib.import_module("components.train.loop")  # once, for all the processes
    disk, counts = folder / "disk", {"train": 60, "validation": 10, "test": 40}
    dataset = write_dataset(folder / "dataset", ImageShape(8, 8, 1), counts, 2)
    reference = _train(dataset, folder / "training")
    wanted = content(folder / "training")
    _mount(disk, f"size={_ROOM_OF_A_TRAINING}")
    found = {
        "room for all, a training": reference,
        "full disk, a training": _train(dataset, disk / "training"),
        "full disk, a training again": _train(dataset, disk / "training"),
    }
    _mount(disk, "remount,size=10m")
    found["room again, a training"] = _train(dataset, disk / "training")
    found["room again, a training"]["differences"] = differences(content(disk / "training"), wanted)
    subprocess.run(["umount", disk], check=True)
    return found


def _train(dataset: Path, location: Path) -> dict[str, Any]:
    settings = {"dataset": dataset, "checkpoints": location, **TRAINING, "critic_steps": 2}
    found = _ended(Stage("train", settings))
    newest = [checkpoints.newest(location, step) for step in checkpoints.steps(location)]
    return {
        **found,
        "place": str(location),
        "steps": checkpoints.steps(location),
        "whole": sorted({found[1].step for found in newest if found}),
        **_left(location),
    }


def _left(location: Path) -> dict[str, Any]:
    return {"left": [path.name for path in location.rglob(".tmp-*")]}


def _ended(stage: Stage, before: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run a stage; return how it ended, and its messages without log lines of progress."""
    with tempfile.NamedTemporaryFile("r") as said:
        code = forks.wait(stage.start(Path(said.name), before))
        return {"code": code, "said": [line for line in said.read().splitlines() if not _INFORMATION.match(line)]}


if __name__ == "__main__":
    main(sys.argv[1])
