"""The outputs of stages, kept under the stages' own keys, so that unchanged stages are not started.

`cache/STAGE/KEY/outputs.json` under the root is one result. The parts of the key are kept beside the outputs, so that
`wgan plan` can name the changed ones.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.artifacts import checkpoint_description, datasets, embeddings, models
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, Incompatible
from components.core.stage import cache_key, cli
from components.core.storage import buckets, location
from pipeline.graph import Step
from pipeline.local.values import Unknown

log = logging.getLogger(__name__)

_PLACEHOLDER = "made-later"
# The artifact in a stage's output `NAME_uri`, by name.
_KINDS: dict[str, type[Manifest]] = {
    "dataset": datasets.Manifest,
    "checkpoint": checkpoint_description.Description,
    "embedding": embeddings.Description,
    "model": models.Description,
}


def key_parts(step: Step, inputs: dict[str, Any], code: Callable[[Step], str]) -> dict[str, Any] | None:
    """Return the parts of a step's key from its stage; None if its results are never kept.

    `code` gives the digest of the stage's code where it runs. An input that is `Unknown` stays unknown in the parts.
    """
    if not step.cached:
        return None
    names = {field.name for field in step.fields()} & inputs.keys()
    settings = {name: _PLACEHOLDER if isinstance(inputs[name], Unknown) else inputs[name] for name in names}
    return cache_key.key_parts(step.stage, cli.build(step.config, settings), code(step))


@dataclasses.dataclass(frozen=True)
class CacheResult:
    """Answer of the cache about a task."""

    outputs: dict[str, Any] | None  # if it need not run
    # Why it must run; empty if that depends on inputs that are not known yet. If it need not run, the libraries or
    # image that changed since.
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kept(Manifest):
    """A cached result."""

    FILE = "outputs.json"
    WHAT = "cached result"
    VERSION = 3

    run: int  # the number of the run that kept it
    parts: dict[str, Any]  # of its key
    maker: dict[str, str]  # the libraries or the image that made it: informative only
    outputs: dict[str, Any]
    uris: list[str]  # locations of its artifacts, without which the result is useless


class Cache:
    """The cached results under one root."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "cache"

    def look_up(
        self, task: str, parts: dict[str, Any], maker: dict[str, str], unknown: Collection[str] = ()
    ) -> CacheResult:
        """Find the cached result of a task, if all its artifacts still exist and are whole.

        `maker` names the libraries or the image of a new run, `unknown` the inputs in `parts` that are not known yet.
        """
        if unknown:
            fits = any(not _differences(entry.parts, parts, unknown) for entry in self._entries(task))
            return CacheResult(None, "" if fits else self._reason(task, parts, unknown))
        folder = self._entry_folder(task, parts)
        entry = self._read(folder)
        if entry is None:
            return CacheResult(None, self._reason(task, parts))
        if gone := [uri for uri in entry.uris if not _exists(uri)]:
            return CacheResult(None, f"its artifact is gone: {gone[0]}")
        try:
            _require_whole(entry)
        except (DataError, OSError) as error:
            return CacheResult(None, errors.line_of(error))
        before = {name: value for name, value in entry.maker.items() if name in maker}
        return CacheResult(entry.outputs, "; ".join(cache_key.changes(before, {name: maker[name] for name in before})))

    def newest(self, task: str) -> Kept | None:
        """Return the result of a task that the latest run kept."""
        return max(self._entries(task), key=lambda entry: entry.run, default=None)

    def keep(self, task: str, parts: dict[str, Any], maker: dict[str, str], outputs: dict[str, Any], run: int) -> None:
        """Keep a result, whole or not at all; `wgan plan` compares with the entry of the latest run."""
        uris = [value for name, value in outputs.items() if name.endswith("_uri") and isinstance(value, str)]
        uris = [uri for uri in uris if buckets.is_uri(uri) or Path(uri).exists()]
        entry = Kept(run=run, parts=parts, maker=maker, outputs=outputs, uris=uris)
        entry.write(self._entry_folder(task, parts))

    def _entry_folder(self, task: str, parts: dict[str, Any]) -> Path:
        return self._folder / task / cache_key.key_of(parts)

    def _reason(self, task: str, parts: dict[str, Any], unknown: Collection[str] = ()) -> str:
        newest = self.newest(task)
        changed = _differences(newest.parts, parts, unknown) if newest else []
        return "; ".join(changed) or "it has not been run yet"

    def _entries(self, task: str) -> list[Kept]:
        folders = sorted((self._folder / task).glob("*"))
        return [entry for entry in map(self._read, folders) if entry is not None]

    @staticmethod
    def _read(folder: Path) -> Kept | None:
        """Return the entry in a folder; None, with a warning unless another version wrote it, if it is damaged."""
        try:
            entry = Kept.read(folder)
            return entry if cache_key.key_of(entry.parts) == folder.name else None
        except Incompatible:
            return None
        except (DataError, OSError) as error:
            if (folder / Kept.FILE).exists():
                log.warning("%s; the stage runs again", errors.line_of(error))
            return None


def _differences(old: dict[str, Any], new: dict[str, Any], unknown: Collection[str]) -> list[str]:
    def comparable(parts: dict[str, Any]) -> dict[str, Any]:
        return {**parts, "inputs": {name: value for name, value in parts["inputs"].items() if name not in unknown}}

    return cache_key.differences(comparable(old), comparable(new))


def _require_whole(entry: Kept) -> None:
    """Raise a `DataError` that names a missing or damaged file of an artifact."""
    for name, kind in _KINDS.items():
        uri, digest = (entry.outputs.get(f"{name}_{suffix}") for suffix in ("uri", "digest"))
        if uri in entry.uris:
            kind.fetch(uri, str(digest), whole=not buckets.is_uri(uri))


def _exists(uri: str) -> bool:
    if not buckets.is_uri(uri):
        return Path(uri).exists()
    return buckets.stat(f"{uri}/{location.COMMITTED}") is not None
