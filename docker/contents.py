"""Lists the packages of Python and of Debian in an image. Runs inside the image.

    docker run --rm --interactive --entrypoint python IMAGE - < docker/contents.py

Standard library only. Prints JSON.
"""

import importlib.metadata
import json
import platform
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

DPKG = Path("/var/lib/dpkg/status")


def python_packages() -> list[dict[str, Any]]:
    """Return name, version and license of each installed distribution."""
    packages = []
    for distribution in importlib.metadata.distributions(path=[sysconfig.get_path("purelib")]):
        about = distribution.metadata
        classified = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if "License ::" in line]
        expression, stated = about.get_all("License-Expression"), (about.get_all("License") or [""])[0]
        # Some packages give the whole text of their license in place of its name.
        license = (
            expression[0]
            if expression
            else (stated if 0 < len(stated) < 60 and "\n" not in stated else " AND ".join(classified))
        )
        packages.append({"name": about["Name"], "version": distribution.version, "license": license})
    return sorted(packages, key=lambda package: package["name"].lower())


def debian_packages() -> list[dict[str, Any]]:
    """Return name, version, architecture and licenses of each package that dpkg lists as installed."""
    packages = []
    for paragraph in DPKG.read_text(encoding="utf-8").split("\n\n") if DPKG.exists() else []:
        fields = dict(re.findall(r"^(\S+): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            package = {name.lower(): fields[name] for name in ("Version", "Architecture")}
            packages.append({"name": fields["Package"], **package, "license": _debian_license(fields["Package"])})
    return sorted(packages, key=lambda package: package["name"])


def _debian_license(package: str) -> str:
    """Return the short names in a machine-readable copyright file; nothing for any other."""
    try:
        text = Path("/usr/share/doc", package, "copyright").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    names = re.findall(r"^License: *(\S.*)$", text, re.MULTILINE) if text.startswith("Format:") else []
    return " AND ".join(sorted({name.strip() for name in names}))


if __name__ == "__main__":
    contents = {"python": platform.python_version(), "python_packages": python_packages()}
    contents["debian"] = platform.freedesktop_os_release().get("VERSION_ID", "")  # such as 12
    json.dump({**contents, "debian_packages": debian_packages()}, sys.stdout)
