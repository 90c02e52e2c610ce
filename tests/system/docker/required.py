"""The Docker engine and the images that tests need, or a skip with the remedy."""

import os
import subprocess

import pytest

from docker import build

# Options for a container that can write to its mounts and to /tmp alone, and has no privileges.
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")  # noqa: S108


def client() -> str:
    """Return the Docker client; skip without a reachable engine."""
    name = os.environ.get("DOCKER") or "docker"
    try:
        answer = subprocess.run([name, "info"], capture_output=True, text=True, timeout=30, check=False)
        running = answer.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        running = False
    if not running:
        pytest.skip("no Docker engine: install and start Docker, then `make images`")
    return name


def image(client: str, target: str) -> str:
    """Return the tag of a target's image; skip if it is missing."""
    tag = build.tag_of(target)
    if subprocess.run([client, "image", "inspect", tag], capture_output=True, check=False).returncode:
        pytest.skip(f"no image {tag}: make images IMAGES={target}")
    return tag
