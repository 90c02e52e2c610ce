"""make test-pythons: run the tests that depend on Python itself, and one small run, on every supported Python found.

Each Python has an environment of its own (.venv-py311, .venv-py312, .venv-py313). The small runs must agree: the same
keys, digests and verdict, and the same content of every artifact file but those of `RUN_FILES`.
"""

import fnmatch
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.proofs import previous_commit
from tests.system import whole_runs

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
TESTS = (
    "tests/stages/test_publish.py",
    "tests/unit/components/core/storage/test_array_files.py",
    "tests/unit/components/core/stage/test_cli.py",
    "tests/unit/components/core/artifacts/test_datasets.py",
    "tests/unit/components/train/test_losses.py",
    "tests/unit/components/train/test_step.py",
    "tests/unit/pipeline/cli/test_compile.py",
    "tests/unit/pipeline/test_goldens.py::test_golden_packages",
    "tests/unit/pipeline/test_main.py",
    "tests/unit/pipeline/cli/test_registry.py",
    "tests/system/test_installation.py",
)
# Beside their content they record the run: versions, folders, images per second. Digests cover the content.
RUN_FILES = ("*/CARD.md", "*/report.html")


def interpreters(search_path: str, pyenv: Path) -> dict[str, Path]:
    """Return the interpreter of each supported version that runs: the first on a path, else one of pyenv."""
    pythons = {}
    for version in VERSIONS:
        name = f"python{version}"
        on_path = [Path(folder) / name for folder in search_path.split(os.pathsep) if folder]
        for path in (*on_path, *sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))):
            if os.access(path, os.X_OK) and _version(path) == version:
                pythons[version] = path
                break
    return pythons


def _version(python: Path) -> str:
    command = [str(python), "-c", "import ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def results(root: Path) -> dict[str, Any]:
    """Return each digest, the verdict and the version of a run, and its artifacts but those that record the run."""
    files = previous_commit.contents(root, names={str(root): "ROOT"})
    run_files = [name for name in files if any(fnmatch.fnmatch(name, pattern) for pattern in RUN_FILES)]
    return whole_runs.outputs(whole_runs.record_of(root)) | files | dict.fromkeys(run_files, "present")


def main() -> int:
    """Test every Python found; returns 0 if all pass and agree, 64 if fewer than two are found, else 1."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pythons = interpreters(os.environ["PATH"], pyenv)
    for version in VERSIONS:
        print(
            f"Python {version}: {pythons.get(version, 'not found on PATH or among the versions of pyenv')}", flush=True
        )
    if len(pythons) < 2:
        print("make test-pythons compares at least two of them: install another one", file=sys.stderr)
        return 64
    failed, results_by_version = [], {}
    for version, python in pythons.items():
        folder = ROOT / f".venv-py{version.replace('.', '')}"
        print(f"\n=== Python {version}, in {folder.name}", flush=True)
        subprocess.run(["make", "--silent", "install", f"VENV={folder.name}", f"PYTHON={python}"], cwd=ROOT, check=True)
        tests = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *TESTS]
        if subprocess.run([*tests, "-m", "not docker and not slow and not long"], cwd=ROOT, check=False).returncode:
            failed.append(version)
        results_by_version[version] = _run_chain(folder / "bin" / "python", ROOT / "build" / "pythons" / version)
    first, *others = results_by_version.items()
    differing = [
        f"Python {version}: {line}"
        for version, values in others
        for line in previous_commit.differences(first[1], values)
    ]
    print(f"\n{len(first[1])} digests and files of Python {first[0]}: {len(differing)} differ")
    print("\n".join(differing))
    print(f"tests failed on Python {', '.join(failed)}" if failed else "the tests passed on each")
    return 1 if failed or differing else 0


def _run_chain(python: Path, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    previous_commit.run_pipeline(str(python), folder, folder / "runs")
    return results(folder / "runs")


if __name__ == "__main__":
    sys.exit(main())
