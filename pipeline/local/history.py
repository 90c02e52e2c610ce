"""One numbered folder for each run: `history/0001` holds parameters, `state.json`, and a log per stage.

That number is the run's: `wgan runs`, `wgan open` and `wgan report compare` take it.
"""

import contextlib
import datetime
import re
import uuid
from pathlib import Path
from typing import Any

from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location, LocationLike

FOLDER, PARAMETERS, STATE = "history", "parameters.json", "state.json"
MINUTE = "%Y-%m-%d %H:%M"  # format of times


def folders(root: LocationLike) -> dict[int, Path]:
    """Return the folders of the runs under a root by their numbers, oldest first."""
    paths = (Location.of(root).own / FOLDER).glob("*")
    return dict(sorted((int(path.name), path) for path in paths if re.fullmatch("[0-9]+", path.name)))


class History:
    """The folder of one run, on this machine.

    Its number is claimed by making the folder, and if several machines use one bucket, an object there, so that two
    runs never share one.
    """

    def __init__(self, root: LocationLike, parameters: dict[str, Any]) -> None:
        location = Location.of(root)
        runs = location.own / FOLDER
        runs.mkdir(parents=True, exist_ok=True)
        self.number = max(folders(root), default=0) + 1
        while True:
            self.folder = runs / f"{self.number:04d}"
            with contextlib.suppress(FileExistsError, buckets.Conflict):
                self.folder.mkdir()
                if location.in_bucket:
                    buckets.create(f"{location}/history/{self.number:04d}", uuid.uuid4().bytes)
                break
            self.number += 1
        self._began = f"{datetime.datetime.now(datetime.UTC):{MINUTE}}"
        atomic_files.write_json(self.folder / PARAMETERS, parameters)

    def write_state(self, state: dict[str, Any]) -> None:
        """Replace `state.json`."""
        atomic_files.write_json(self.folder / STATE, {"began": self._began, **state})
