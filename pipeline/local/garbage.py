"""The results of a root that no version, none of the newest runs and no running stage needs: `wgan runs gc`."""

import contextlib
from typing import NamedTuple

from components.core.artifacts import checkpoint_manifest, datasets, embeddings, evaluations
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, TransientError
from components.core.registry import registry
from components.core.stage import run_notes
from components.core.storage import atomic_files
from components.core.storage.location import Location
from pipeline.local import history, session

_CHECKPOINTS = "checkpoints"
# A version may need one of these; of `_COPIED` it has a copy.
_KINDS: dict[str, type[Manifest]] = {
    "datasets": datasets.Manifest,
    "embeddings": embeddings.Manifest,
    _CHECKPOINTS: checkpoint_manifest.Manifest,
}
_COPIED = ("evaluations", "models")


class _Run(NamedTuple):
    """A run that made or used something, as its stages noted it."""

    name: str
    number: int  # that `wgan run` gave it; 0 on a cluster
    results: set[str]  # such as `datasets/KEY`, wherever the root was
    untrained: str  # digest of its dataset, if its training has not ended


class Unneeded(NamedTuple):
    """A folder of results, such as `datasets/KEY`, and the last run that made or used it."""

    folder: Location
    name: str
    bytes: int
    run: str


def unneeded(root: Location, keep: int) -> list[Unneeded]:
    """Return the folders that are not needed, when no run is at work in the root, whose lock the caller holds.

    Needed is what the newest `keep` runs made or used, here by their numbers and on clusters by their times, a training
    that one of them began, and what a version was made from. `TransientError` if a run elsewhere has not ended.
    """
    runs = _runs(root)
    location, published = root / "registry", set[str]()  # digests of what the versions were made from
    for number in registry.versions(location, registry.read_pointer(location).champion):
        folder = registry.version_location(location, number) / registry.EVALUATION
        evaluation = evaluations.Manifest.fetch(folder, whole=False)
        published |= {evaluation.dataset_digest, evaluation.checkpoint_digest, evaluation.embedding_digest}
    on_clusters = [run for run in runs if not run.number]
    numbered = sorted((run for run in runs if run.number), key=lambda run: run.number)
    newest = numbered[-keep:] + on_clusters[-keep:]
    last = {result: run.name for run in runs for result in run.results}
    folders = [folder for kind in (*_KINDS, *_COPIED) for folder in (root / kind).children()]
    return [
        Unneeded(folder, name, sum(file.bytes for file in folder.files().values()), last.get(name, "none"))
        for folder, name in zip(folders, map(_name_of, folders), strict=True)
        if not _is_needed(folder, newest, published)
    ]


def remove(root: Location, folders: list[Unneeded]) -> None:
    """Remove folders of results, and what killed stages left anywhere in the root."""
    session.sweep(root.own)
    for folder, *_ in folders:
        if root.in_bucket:
            folder.remove()
        atomic_files.remove_folder(folder.path)


def _runs(root: Location) -> list[_Run]:
    """Return the runs that made or used something, oldest first; `TransientError` if one elsewhere has not ended."""
    runs, here = list[_Run](), history.folders(root)
    for folder, notes in run_notes.read_all(root / "records"):
        number = run_notes.local_number(folder.name)
        if root.in_bucket and number not in here and not (folder.path / run_notes.RECORD).exists():
            raise TransientError(f"run {folder.name} has not ended; wait, or if it was killed, remove {folder}")
        outputs = {name: value for note in notes for name, value in note.outputs.items()}
        results = {_name_of(Location.of(uri)) for name, uri in outputs.items() if name.endswith("_uri") and uri}
        if results := {name for name in results if name.partition("/")[0] in (*_KINDS, *_COPIED)}:
            untrained = "" if "checkpoint_uri" in outputs else str(outputs.get("dataset_digest"))
            runs.append(_Run(folder.name, number, results, untrained))
    return runs


def _name_of(location: Location) -> str:
    """Return the name within its root of a folder of results, or of the folder that a checkpoint is in."""
    folder = location.parent if location.parent.parent.name == _CHECKPOINTS else location
    return f"{folder.parent.name}/{folder.name}"


def _is_needed(folder: Location, newest: list[_Run], published: set[str]) -> bool:
    if any(_name_of(folder) in run.results for run in newest):
        return True
    kind, untrained = _KINDS.get(folder.parent.name), {run.untrained for run in newest}
    if kind is None:
        return False
    for artifact in folder.children() if kind is checkpoint_manifest.Manifest else [folder]:
        with contextlib.suppress(DataError):  # it is unfinished or damaged
            manifest = kind.fetch(artifact, whole=False)
            if manifest.digest in published:
                return True
            if isinstance(manifest, checkpoint_manifest.Manifest) and manifest.dataset_digest in untrained:
                return True
    return False
