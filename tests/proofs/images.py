"""Build each image twice without cache, and compare all files: bytes, modes, owners, links, times.

    make prove NAME=images IMAGES="preprocess train-cpu"

Prints a line for each difference and one digest for each image; exits with 1 if anything differs.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from typing import NamedTuple

from components.core.errors import StageError
from components.core.storage import digests
from docker import build
from docker.build import ROOT, Engine

# Files that Docker adds to a container that exists only for the export.
_DOCKERS = (".dockerenv", "dev", "etc/hostname", "etc/hosts", "etc/mtab", "etc/resolv.conf", "proc", "sys")


class Entry(NamedTuple):
    """Everything that must be equal of a file, a folder or a link."""

    kind: str
    mode: str
    owner: str
    target: str
    sha256: str
    time: int


def listing(engine: Engine, image: str) -> dict[str, Entry]:
    """Return every entry of an image's file system, by its path."""
    container = engine.read("create", image)
    try:
        found = {}
        with (
            subprocess.Popen([engine.program, "export", container], stdout=subprocess.PIPE) as export,
            tarfile.open(fileobj=export.stdout, mode="r|") as archive,
        ):
            for member in archive:
                if member.name.startswith(_DOCKERS):
                    continue
                file = archive.extractfile(member) if member.isfile() else None
                sha256 = hashlib.file_digest(file, "sha256").hexdigest() if file else ""  # type: ignore[arg-type]
                owner = f"{member.uid}:{member.gid}"
                kind = member.type.decode()
                # COPY gives new folders the time of the build.
                time = 0 if member.isdir() else int(member.mtime)
                found[member.name] = Entry(kind, f"{member.mode:o}", owner, member.linkname, sha256, time)
        return found
    finally:
        engine.read("rm", container)


def differences(one: dict[str, Entry], other: dict[str, Entry]) -> list[str]:
    """Return a line for each path at which two listings differ: `PATH field: one, other`."""
    lines = []
    for path in sorted(one.keys() | other.keys()):
        first, second = one.get(path), other.get(path)
        if first is None or second is None:
            lines.append(f"{path} is in one only")
        else:
            for name, left, right in zip(Entry._fields, first, second, strict=True):
                if left != right:
                    lines.append(f"{path} {name}: {left}, {right}")
    return lines


def main(targets: tuple[str, ...]) -> int:
    """Build, compare, print."""
    engine = Engine(os.environ | {"BUILD_OPTIONS": f"--no-cache {os.environ.get('BUILD_OPTIONS', '')}"})
    base = os.environ.get("BASE") or build.LOCAL_BASE
    differing = 0
    for target in targets:
        listings = []
        for attempt in ("first", "second"):
            tag = f"wgan-proof/{target}:{attempt}"
            engine.build(target, tag, build.build_arguments(base), build.labels())
            listings.append(listing(engine, tag))
            engine.read("rmi", tag)
        lines = differences(*listings)
        differing += len(lines)
        print(*lines, sep="\n", end="\n" if lines else "")
        files = sum(entry.sha256 != "" for entry in listings[0].values())
        print(f"{target}: {len(listings[0]):,} entries, {files:,} files, {len(lines)} differences, ", end="")
        print(f"sha256 {digests.digest_of({path: list(entry) for path, entry in listings[0].items()})[:16]}")
    return 1 if differing else 0


if __name__ == "__main__":
    try:
        sys.exit(main(tuple(sys.argv[1:]) or build.DEFAULT))
    except StageError as error:
        sys.exit(f"{ROOT.name}: {error}")
