"""One numbered folder for each run: `history/0001` holds package, parameters, `state.json`, and a log per stage."""

import contextlib
import uuid
from pathlib import Path
from typing import Any

from components import buckets, places, storage


class History:
    """The folder of one run.

    Args:
        root: The folder that keeps results, or the mirror of one in a bucket.
        package: What is run.
        parameters: With which values.

    Attributes:
        number: 1, 2, ...; claimed by making the folder, and where several machines use one bucket, an object there: so
            two runs never share one.
        folder: Where it lies, on this machine.
    """

    def __init__(self, root: Path, package: bytes, parameters: dict[str, Any]) -> None:
        runs = places.beside(root) / "history"
        runs.mkdir(parents=True, exist_ok=True)
        self.number = max((int(path.name) for path in runs.iterdir() if path.name.isdigit()), default=0) + 1
        while True:
            self.folder = runs / f"{self.number:04d}"
            with contextlib.suppress(FileExistsError, buckets.Conflict):
                self.folder.mkdir()
                if places.in_bucket(root):
                    buckets.create(f"{places.given(root)}/history/{self.number:04d}", uuid.uuid4().bytes)
                break
            self.number += 1
        storage.write_file(self.folder / "package.yaml", package)
        storage.write_json(self.folder / "parameters.json", parameters)

    def log_file(self, task: str) -> Path:
        """Where the output of a stage goes."""
        return self.folder / f"{task}.log"

    def task_folder(self, task: str) -> Path:
        """Where a stage writes its outputs."""
        return self.folder / task

    def write_state(self, state: dict[str, Any]) -> None:
        """Replaces `state.json`."""
        storage.write_json(self.folder / "state.json", state)
