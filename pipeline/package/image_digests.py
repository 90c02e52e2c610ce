"""The file in which `make push` writes the digest of each image, so that packages name exactly the pushed images."""

import re
from collections.abc import Mapping
from pathlib import Path

from components.core import container_images, errors
from components.core.errors import ConfigError, StageError
from components.core.storage import atomic_files

SCHEMA_VERSION = 1
_BY_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def is_digest(reference: str) -> bool:
    """Return whether an image is named by the digest of its content, which no push can change."""
    return bool(_BY_DIGEST.fullmatch(reference))


def read(path: Path) -> Mapping[str, str]:
    """Read the reference of each image that was pushed, by name; refuse other versions and names without a digest."""
    remedy = "`make push REGISTRY=...` writes such a file"
    try:
        value = atomic_files.read_json(path, "images")
        version, references, schema = value["version"], dict(value["images"]), value["schema_version"]
    except (OSError, StageError) as error:
        raise ConfigError(f"images cannot be read: {errors.line_of(error)}; {remedy}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"images {path} names no images: {error!r}; {remedy}") from None
    if schema != SCHEMA_VERSION:
        raise ConfigError(f"images {path} is of another schema version, expected {SCHEMA_VERSION}; {remedy}")
    problems = []
    if version != container_images.VERSION:
        problems.append(f"images {path} is of version {version}, this program is {container_images.VERSION}; {remedy}")
    for name, reference in references.items():
        if not isinstance(reference, str) or not is_digest(reference):
            problems.append(f"images {path} must name {name} by its digest, got {reference!r}; {remedy}")
    if problems:
        raise ConfigError(*problems)
    return references
