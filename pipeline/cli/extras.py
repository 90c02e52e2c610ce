"""Extras of the wheel: check that the one a verb needs is installed, before anything is imported from it."""

import importlib.util
from collections.abc import Collection

from components.core.errors import ConfigError

# Packages that come with each extra.
_CPU = ("keras", "matplotlib", "numpy", "scipy", "tensorflow")
_PACKAGES = {"pipeline": ("croniter", "kfp", "pydantic"), "cpu": _CPU, "local": (*_CPU, "apache_beam", "sklearn")}
_HELP = {"-h", "--help", "--help-all", "--help_all"}


def require(extra: str, verb: str, words: Collection[str]) -> None:
    """Check that the extra that a verb needs is installed, without importing its packages; its help needs none."""
    if not _HELP & {*words} and any(importlib.util.find_spec(package) is None for package in _PACKAGES[extra]):
        command = f"pip install 'wgan-gp-pipeline[{extra}]'"
        raise ConfigError(f'wgan {verb} needs the extra "{extra}", which is not installed: {command}')
