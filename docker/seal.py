"""Makes a folder of an image the same in every build: modes, times, and compiled modules. Runs during the build.

    python3 seal.py FOLDER

Standard library only, in the base image's Python.
"""

import compileall
import os
import py_compile
import subprocess
import sys
from pathlib import Path

# Any constant time will do; ZIP files have none before 1980.
EPOCH = 315_532_800


def compile_modules(folder: Path) -> None:
    """Compile every module once and for all: the bytes hold no time, and Python does not ask for the source's.

    What a container may not write it could not compile either, and would do so again at every start.
    """
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(str(folder), quiet=2, force=True, invalidation_mode=mode)


def settle(folder: Path) -> None:
    """Set mode and time of everything below the folder: root may write, everybody may read."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            _settle(Path(parent, name))
    _settle(folder)


def _settle(path: Path) -> None:
    if not path.is_symlink():
        executable = path.is_dir() or path.stat().st_mode & 0o100
        path.chmod(0o755 if executable else 0o644)
    os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of a set's constants is written too
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=os.environ | {"PYTHONHASHSEED": "0"}).returncode)
    compile_modules(Path(sys.argv[1]))
    settle(Path(sys.argv[1]))
