"""How a stage makes an artifact: code, container image and libraries. Standard library only."""

import contextlib
import importlib.metadata
import os
import platform
from typing import Any

from components.core import container_images
from components.core.stage import cache_key

_TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")  # names of its packages
_LIBRARIES = ("apache-beam", "keras", "numpy", "pillow", "scikit-learn", "scipy", *_TENSORFLOW)


def made_with(stage: str, **more: Any) -> dict[str, Any]:
    """Return how a stage makes an artifact: its code's digest, the container image, libraries, and more."""
    return {
        "code": cache_key.source_digest(stage),
        "image": os.environ.get("WGAN_IMAGE") or container_images.NO_IMAGE,  # set by the starter of this process
        "libraries": library_versions(),
        **more,
    }


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that decide results."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
