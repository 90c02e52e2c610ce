"""Makes the virtual environment of an image from a lock, less what no stage uses. Runs while the image is built.

    python3 environment.py preprocess|train LOCK

Standard library only, in the base image's Python.
"""

import csv
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ENVIRONMENT = Path("/opt/venv")
CODE = "/app"

# Files that a wheel holds and no stage uses, as patterns below site-packages. Whole packages that are not needed never
# get here: requirements/*-excludes.txt. tests/docker runs every stage on what is left.
DROPPED = {
    "every": (
        # For those who compile against a package, or check types.
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
        # The digits and the file beside which they are found are left of scikit-learn (see KEPT).
        "sklearn/**/*",
        "scikit_learn.libs/**/*",
    ),
    "train": (
        "tensorflow/include/**/*",
    ),
}
KEPT = ("sklearn/__init__.py", "sklearn/datasets/data/digits.csv.gz")


def install(lock: Path) -> Path:
    """Makes the environment, without pip, from wheels whose hashes the lock holds. Returns its site-packages."""
    venv.create(ENVIRONMENT, with_pip=False, symlinks=True)
    python = ENVIRONMENT / "bin" / "python"
    settings = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    for name, secret in (("PIP_CERT", "ca"), ("PIP_CONFIG_FILE", "pip")):
        if Path("/run/secrets", secret).exists():
            settings[name] = f"/run/secrets/{secret}"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    command += ["--require-hashes", "--only-binary", ":all:", "--requirement", str(lock)]
    subprocess.run(command, env=os.environ | settings, check=True)
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(ENVIRONMENT)}))


def drop(packages: Path, patterns: tuple[str, ...]) -> None:
    """Removes what the patterns match, but for KEPT, from the folder and from the packages' own lists of files."""
    kept = {packages / name for name in KEPT}
    for pattern in patterns:
        for path in packages.glob(pattern):
            if path.is_file() and path not in kept:
                path.unlink()
    for folder, _, _ in os.walk(packages, topdown=False):
        if not any(Path(folder).iterdir()):
            Path(folder).rmdir()
    for record in sorted(packages.glob("*.dist-info/RECORD")):
        with open(record, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if (packages / row[0]).exists()]
        with open(record, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def main(kind: str, lock: Path) -> None:
    """Makes the environment of one kind of image."""
    packages = install(lock)
    drop(packages, DROPPED["every"] + DROPPED[kind])
    # Last on Python's path, and safe from whatever PYTHONPATH a container is given.
    (packages / "wgan.pth").write_text(f"{CODE}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
