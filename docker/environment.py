"""Makes the virtual environment of an image from a lock, without files that no stage uses. Runs during the build.

    python3 environment.py preprocess|train LOCK

Standard library only, in the base image's Python.
"""

import base64
import csv
import hashlib
import os
import struct
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ENVIRONMENT = Path("/opt/venv")
CODE = "/app"

# Files of wheels that no stage uses, as patterns below site-packages. requirements/*-excludes.txt leaves out whole
# packages. tests/system/docker runs every stage on what is left.
DROPPED = {
    "every": (
        # For compiling against a package, and for type checks.
        "**/*.a",
        "**/*.h",
        "**/*.pxd",
        "**/*.pyi",
        "**/*.pyx",
        # A package's own tests.
        "**/tests/**/*",
    ),
    "preprocess": (
        "apache_beam/**/*_test.py",
        "apache_beam/examples/**/*",
        # Arrow Flight, and copies of a library under names that nothing loads.
        "pyarrow/*_flight*",
        "pyarrow/libarrow_python.so",
        "pyarrow/libarrow_python.so.*.*",
        # KEPT keeps scikit-learn's digits and the file that locates them.
        "sklearn/**/*",
        "scikit_learn.libs/**/*",
    ),
    "train": (
        # For compiling against TensorFlow: 287 MB.
        "tensorflow/include/**/*",
        # For tools that rewrite StableHLO; XLA has its own inside libtensorflow_cc.
        "tensorflow/compiler/mlir/stablehlo/*",
        # What matplotlib's examples plot.
        "matplotlib/mpl-data/sample_data/**/*",
    ),
}
# Libraries with 220 MB of debug symbols.
WITHOUT_SYMBOLS = ("tensorflow/libtensorflow_cc.so.2", "tensorflow/libtensorflow_framework.so.2")
KEPT = ("sklearn/__init__.py", "sklearn/datasets/data/digits.csv.gz")

_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_ELF_SEGMENT = struct.Struct("<IIQQQQQQ")


def install(lock: Path) -> Path:
    """Make the environment, without pip, from wheels whose hashes the lock holds; return its site-packages."""
    venv.create(ENVIRONMENT, with_pip=False, symlinks=True)
    python = ENVIRONMENT / "bin" / "python"
    settings = {
        "PIP_CACHE_DIR": "/var/cache/pip",  # mounted during the build, so in no layer
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    for name, secret in (("PIP_CERT", "ca"), ("PIP_CONFIG_FILE", "pip")):
        if Path("/run/secrets", secret).exists():
            settings[name] = f"/run/secrets/{secret}"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--requirement", str(lock)]
    subprocess.run(command, env=os.environ | settings, check=True)
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(ENVIRONMENT)}))


def drop(packages: Path, patterns: tuple[str, ...]) -> None:
    """Remove what the patterns match from the folder, except KEPT."""
    kept = {packages / name for name in KEPT}
    for pattern in patterns:
        for path in packages.glob(pattern):
            if path.is_file() and path not in kept:
                path.unlink()
    for folder, _, _ in os.walk(packages, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()


def cut_symbols(library: Path) -> None:
    """Cut a library after the last byte that is ever loaded, where symbols and the section table lie.

    The loader reads program headers alone, so that the program is the same; a debugger sees exported names only. It is
    done here, as what `strip` writes depends on the version of binutils.
    """
    with open(library, "r+b") as file:
        header = bytearray(file.read(_ELF_HEADER.size))
        fields = list(_ELF_HEADER.unpack(header))
        start, size, count = fields[5], fields[9], fields[10]
        if fields[0][:6] != _ELF_64_LITTLE:
            raise SystemExit(f"{library} is no library for x86_64 Linux")
        file.seek(start)
        segments = [_ELF_SEGMENT.unpack_from(file.read(size)) for _ in range(count)]
        fields[6] = fields[11] = fields[12] = fields[13] = 0  # no sections
        file.seek(0)
        file.write(_ELF_HEADER.pack(*fields))
        file.truncate(max(offset + length for _, _, offset, _, _, length, _, _ in segments))


def rewrite_records(packages: Path) -> None:
    """Make each package's own list of files name the files that are left, with digest and size."""
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        with open(record, newline="", encoding="utf-8") as file:
            names = [row[0] for row in csv.reader(file) if (packages / row[0]).exists()]
        with open(record, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(_record(packages, name, record) for name in names)


def _record(packages: Path, name: str, record: Path) -> tuple[str, str, str]:
    path = packages / name
    if path == record:
        return name, "", ""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    return name, "sha256=" + base64.urlsafe_b64encode(digest).decode().rstrip("="), str(path.stat().st_size)


def main(kind: str, lock: Path) -> None:
    """Make the environment of one kind of image."""
    packages = install(lock)
    drop(packages, DROPPED["every"] + DROPPED[kind])
    for name in WITHOUT_SYMBOLS:
        if (packages / name).exists():
            cut_symbols(packages / name)
    rewrite_records(packages)
    # Last on Python's path, so that no PYTHONPATH of a container matters.
    (packages / "wgan.pth").write_text(f"{CODE}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
