"""Makes the virtual environment of an image from a lock, without files that no stage uses. Runs during the build.

    python3 environment.py preprocess|train LOCK

Standard library only, in the base image's Python.
"""

import compileall
import csv
import os
import py_compile
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
    # For compiling against a package, and for type checks; a package's own tests.
    "every": ("**/*.a", "**/*.h", "**/*.pxd", "**/*.pyi", "**/*.pyx", "**/tests/**/*"),
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
        "tensorflow/include/**/*",  # for compiling against TensorFlow: 287 MB
        # For tools that rewrite StableHLO; XLA has its own inside libtensorflow_cc.
        "tensorflow/compiler/mlir/stablehlo/*",
        "matplotlib/mpl-data/sample_data/**/*",  # what its examples plot
    ),
}
KEPT = ("sklearn/__init__.py", "sklearn/datasets/data/digits.csv.gz")


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


def shorten_records(packages: Path) -> None:
    """Remove the dropped files from each package's own list of files."""
    for record in packages.glob("*.dist-info/RECORD"):
        rows = list(csv.reader(record.read_text(encoding="utf-8").splitlines()))
        with open(record, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(row for row in rows if (packages / row[0]).exists())


def main(kind: str, lock: Path) -> None:
    """Make the environment of one kind of image."""
    packages = install(lock)
    drop(packages, DROPPED["every"] + DROPPED[kind])
    shorten_records(packages)
    # What a container may not write it could not compile, and would try again at every start.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(packages, quiet=2, invalidation_mode=unchecked)
    # Last on Python's path, so that no PYTHONPATH of a container matters.
    (packages / "wgan.pth").write_text(f"{CODE}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
