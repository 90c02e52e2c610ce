"""Packages of the profiles that ship, with images by digest, each compiled once per test process.

Compiling takes a second under pytest: kfp looks at the whole stack, and all modules, for each setting of a stage.
"""

import functools

from components import images
from pipeline import profiles
from pipeline.compile import compiled_package

PROFILES = profiles.read()
DIGESTS = {name: f"host/{name}@sha256:{'0' * 64}" for name in images.NAMES}


@functools.cache
def package_of(name: str, target: str) -> bytes:
    """The package of a profile, by the profile's name."""
    return compiled_package(DIGESTS, PROFILES[name, target])
