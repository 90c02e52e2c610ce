"""Session of a run: its temporary folder, and its processes and containers, if the runner is killed.

The folder is locked while it lives, as its stages' are; the next run removes unlocked ones. `reaper` ends the others.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from components.core.storage import atomic_files
from pipeline import step_table
from pipeline.local import reaper
from pipeline.local.history import FOLDER

# Folders of a root with temporary files of killed stages and runs; of a registry `wgan registry gc` lists them.
_SWEPT = (step_table.FOLDERS | {FOLDER}) - {"registry"}


@dataclasses.dataclass(frozen=True)
class Session:
    """A run while its runner is alive."""

    folder: Path  # for temporary files
    reaper: "subprocess.Popen[bytes]"  # outlives the runner

    @contextlib.contextmanager
    def watched(self, name: str) -> Iterator[None]:
        """Within the block, a container, or a process group with its leader's zombie, dies with this process."""
        self._tell("+", name)
        try:
            yield
        finally:
            self._tell("-", name)

    def _tell(self, sign: str, name: str) -> None:
        assert self.reaper.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):  # stages work without a reaper, too
            self.reaper.stdin.write(f"{sign} {name}\n".encode())


def sweep(root: Path) -> None:
    """Remove what dead runs and their stages left in a root."""
    for name in _SWEPT:
        for place, folders, _ in os.walk(root / name):
            atomic_files.sweep(Path(place))
            folders[:] = [folder for folder in folders if not folder.startswith(".")]  # what is left there is alive


@contextlib.contextmanager
def session(parent: Path, docker: str) -> Iterator[Session]:
    """Open a session with a temporary folder in `parent`, from which `wgan runs gc` removes nothing meanwhile."""
    sweep(parent)
    with (
        atomic_files.only_one(parent, shared=True),
        atomic_files.temporary_folder(parent) as folder,
        subprocess.Popen(
            [sys.executable, "-I", "-S", reaper.__file__, docker],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the runner
        ) as process,
    ):
        yield Session(folder, process)
