"""Make an artifact unless it exists and is whole."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError, Incompatible
from components.core.stage import cache_key
from components.core.storage import atomic_files
from components.core.storage.location import MANIFEST_ALONE, Location

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Manifest)


def made_once(
    where: str, parts: dict[str, Any], artifact: type[Kind], make: Callable[[Location], object], whole: bool = True
) -> tuple[Location, Kind, bool]:
    """Return where an artifact is, its manifest, and whether it existed; make it if it did not, or was damaged.

    `parts` are those of its key. If `where` has `{key}`, all that is there is ours; elsewhere an artifact of other
    settings or inputs, or without a readable manifest, is refused. Unless `whole`, only the manifest is fetched
    from a bucket, whose listing then shows damage.
    """
    location, is_keyed = Location.of(cache_key.fill_key(where, parts)), cache_key.is_keyed(where)
    identity, is_used = parts["settings"] | parts["inputs"], atomic_files.is_used(location)  # before another makes it
    with location.removed_if_damaged():
        manifest = None
        try:
            is_there = location.fetch(artifact.FILE, None if whole else MANIFEST_ALONE)
            if is_there or (is_keyed and not location.in_bucket and location.path.exists()):
                manifest = artifact.read(location)
        except DataError as error:
            if is_keyed or isinstance(error, Incompatible):
                raise
            # It is not surely ours.
            raise Incompatible(f"{error}; delete {location}, if it holds nothing else, and run this again") from None
        if manifest is not None:
            recorded = {name: value for name, value in manifest.decided_by.items() if name in identity}
            atomic_files.require_own_folder(location, artifact.KIND, recorded, identity)
            manifest = artifact.of(location, whole=whole or not location.in_bucket)
            log.info("%s: already complete at %s", artifact.KIND, location)
            return location, manifest, True
    if is_used and not (location.in_bucket or is_keyed):  # a mirror may outlive its artifact
        atomic_files.require_own_folder(location, artifact.KIND, None, identity)
    location.require_writable()
    make(location)
    return location, artifact.fetch(location, whole=whole), False
