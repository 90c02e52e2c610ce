"""Tells what is in an image: packages of Python and of Debian, and what weighs how much. Runs inside the image.

    docker run --rm --interactive --entrypoint python IMAGE - < docker/contents.py

Standard library only. Prints JSON.
"""

import importlib.metadata
import json
import os
import platform
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

DPKG = Path("/var/lib/dpkg/status")


def python_packages() -> list[dict[str, Any]]:
    """Name, version, licence and bytes of each installed distribution, with what was compiled from it."""
    found = []
    for distribution in importlib.metadata.distributions(path=[sysconfig.get_path("purelib")]):
        about = distribution.metadata
        files = [Path(str(distribution.locate_file(file))) for file in distribution.files or []]
        size = sum(path.stat().st_size for file in files for path in (file, *_compiled(file)) if path.is_file())
        classified = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if "License ::" in line]
        expression, stated = about.get_all("License-Expression"), (about.get_all("License") or [""])[0]
        # Some packages give the whole text of their licence for its name.
        licence = (
            expression[0]
            if expression
            else (stated if 0 < len(stated) < 60 and "\n" not in stated else " AND ".join(classified))
        )
        found.append({"name": about["Name"], "version": distribution.version, "licence": licence, "bytes": size})
    return sorted(found, key=lambda package: package["name"].lower())


def _compiled(file: Path) -> list[Path]:
    return list((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc")) if file.suffix == ".py" else []


def debian_packages() -> list[dict[str, Any]]:
    """Name, version, architecture, source and licences of each package that dpkg says is installed."""
    found = []
    for paragraph in DPKG.read_text(encoding="utf-8").split("\n\n") if DPKG.exists() else []:
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found.append(
                {
                    "name": fields["Package"],
                    "version": fields["Version"],
                    "architecture": fields["Architecture"],
                    "licence": _debian_licence(fields["Package"]),
                }
            )
    return sorted(found, key=lambda package: package["name"])


def _debian_licence(package: str) -> str:
    """The short names in a copyright file that machines can read; nothing of one that only people can."""
    try:
        text = Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    if not text.startswith("Format:"):
        return ""
    return " AND ".join(sorted({name.strip() for name in re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)}))


def bytes_below(folder: Path) -> int:
    """Bytes of all files below a folder of this file system, hard links once."""
    found = {}
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not Path(parent, name).is_mount()]
        for name in files:
            status = Path(parent, name).lstat()
            found[status.st_ino] = status.st_size
    return sum(found.values())


def debian_release() -> str:
    """Debian's version number, such as `12`."""
    return platform.freedesktop_os_release().get("VERSION_ID", "")


if __name__ == "__main__":
    json.dump(
        {
            "python": platform.python_version(),
            "python_packages": python_packages(),
            "debian": debian_release(),
            "debian_packages": debian_packages(),
            "bytes": {place: bytes_below(Path(place)) for place in ("/", "/opt/venv", "/opt/apache", "/app")},
        },
        sys.stdout,
    )
