"""One numbered folder for each run: `history/0001` holds package, parameters, `state.json`, and a log per stage."""

import contextlib
import uuid
from pathlib import Path
from typing import Any

from components.core.errors import DataError
from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location, LocationLike


def seconds_of_stages(root: Path) -> dict[str, float]:
    """Return the duration of each stage when it last succeeded in one attempt, by the name of its task."""
    found: dict[str, float] = {}
    for path in sorted((root / "history").glob("*/state.json")):
        with contextlib.suppress(DataError, OSError):
            for name, task in atomic_files.read_json(path, "state of a run")["tasks"].items():
                if task["state"] == "done" and task["attempts"] == 1:
                    found[name] = task["seconds"]
    return found


class History:
    """The folder of one run, on this machine.

    Its number is claimed by making the folder, and if several machines use one bucket, an object there, so that two
    runs never share one.
    """

    def __init__(self, root: LocationLike, package: bytes, parameters: dict[str, Any]) -> None:
        location = Location.of(root)
        runs = location.own / "history"
        runs.mkdir(parents=True, exist_ok=True)
        self.number = max((int(path.name) for path in runs.iterdir() if path.name.isdigit()), default=0) + 1
        while True:
            self.folder = runs / f"{self.number:04d}"
            with contextlib.suppress(FileExistsError, buckets.Conflict):
                self.folder.mkdir()
                if location.in_bucket:
                    buckets.create(f"{location}/history/{self.number:04d}", uuid.uuid4().bytes)
                break
            self.number += 1
        atomic_files.write_file(self.folder / "package.yaml", package)
        atomic_files.write_json(self.folder / "parameters.json", parameters)

    def write_state(self, state: dict[str, Any]) -> None:
        """Replace `state.json`."""
        atomic_files.write_json(self.folder / "state.json", state)
