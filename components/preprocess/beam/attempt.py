"""One attempt to make a dataset: its beginning and end.

In a folder the attempt is a temporary one, which is renamed to the dataset at the end. In a bucket it is a folder
within the dataset's, which `committed.json` names at the end.
"""

import contextlib
import hashlib
import logging
import shutil
from collections.abc import Iterator

from components.core.artifacts import datasets
from components.core.errors import StageError
from components.core.storage import atomic_files
from components.core.storage.location import Location, Written, private
from components.preprocess import attempt_files
from components.preprocess.attempt_files import AttemptFiles

log = logging.getLogger(__name__)

_ROWS = "rows"  # the folder of rows within the attempt's, as every worker sees it


@contextlib.contextmanager
def begun(location: Location, in_process: bool) -> Iterator[tuple[AttemptFiles, AttemptFiles]]:
    """Yield the files of a new attempt, and of its rows: on this machine if one process does all the work.

    Uncommitted files are removed after the block. A failure is ignored if another process has made the dataset
    meanwhile.
    """
    if not location.in_bucket:
        with atomic_files.new_folder(location.path, datasets.MANIFEST) as folder:
            (folder / _ROWS).mkdir()
            yield attempt_files.begin(str(folder)), AttemptFiles(str(folder / _ROWS))
        return
    with atomic_files.temporary_folder(private("aside")) as scratch:
        files = attempt_files.new_in_bucket(location)
        try:
            yield files, AttemptFiles(str(scratch)) if in_process else files
        except (StageError, OSError) as error:
            with contextlib.suppress(StageError):
                if location.committed() is not None:
                    log.info("another process made %s first; its result is used; here: %s", location, error)
                    return
            raise
        finally:
            attempt_files.sweep(location, files)


def finish(location: Location, files: AttemptFiles, manifest: datasets.Manifest, written: dict[str, Written]) -> None:
    """Write the description of the dataset, last; make these files of the attempt the dataset, and no others.

    Raises:
        TransientError: A file in the bucket is not what a worker has written.
    """
    if not location.in_bucket:
        for path in files.path.iterdir():  # files for workers and driver alone, or of a dead worker
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in written:
                path.unlink()
        manifest.write(files.path)
        return
    content = atomic_files.sealed_json(manifest.to_json())
    written = {**written, datasets.MANIFEST: written_as(content, files.write(datasets.MANIFEST, [content]))}
    if not location.publish(files.path.name, written, datasets.MANIFEST):
        log.info("another process made %s first; its result is used", location)


def written_as(content: bytes, checksum: str) -> Written:
    """Describe a file from its content and its checksum."""
    return Written(len(content), hashlib.sha256(content).hexdigest(), checksum)
