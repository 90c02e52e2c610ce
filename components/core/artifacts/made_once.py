"""Make an artifact unless it exists."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from components.core.artifacts.manifest import Manifest
from components.core.storage import atomic_files
from components.core.storage.location import Location

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Manifest)


def made_once(
    location: Location, kind: type[Kind], identity: dict[str, Any], make: Callable[[], object], whole: bool = True
) -> tuple[Kind, bool]:
    """Return the artifact at a location, and whether it existed; make it if it did not.

    `identity` is the expected `Manifest.identity` of the artifact. Unless `whole`, only the description of an existing
    one is fetched.
    """
    fetch = location.fetch if whole else location.fetch_description
    found = kind.of(location) if fetch(kind.FILE) else None
    if found is not None:
        atomic_files.require_own_folder(location, kind.WHAT, found.identity, identity)
        log.info("%s: already complete at %s", kind.WHAT, location)
        return found, True
    if not location.in_bucket:  # a mirror may outlive its artifact
        atomic_files.require_own_folder(location, kind.WHAT, None, identity)
    location.require_writable()
    make()
    return kind.of(location.require(kind.FILE, kind.WHAT, whole)), False
