"""Making an artefact unless it exists."""

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
    """Return the artefact at a location, and whether it existed; make it if it did not.

    Args:
        identity: What it is made of: settings and digests of inputs, as `Manifest.identity` of the finished artefact.
        make: Makes it at the location.
        whole: Whether to fetch all of an existing one, or its description alone.

    Raises:
        ConfigError: The folder holds something else, or cannot be written.
        DataError: The existing one is damaged.
    """
    found = kind.of(location) if location.fetch(kind.FILE, ("",) if whole else ()) else None
    atomic_files.require_own_place(location, kind.WHAT, None if found is None else found.identity, identity)
    if found is not None:
        log.info("%s: already complete at %s", kind.WHAT, location)
        return found, True
    location.require_writable()
    make()
    return kind.of(location.require(kind.FILE, kind.WHAT, whole)), False
