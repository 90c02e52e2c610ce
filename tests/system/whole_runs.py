"""Runs of the whole pipeline that are small enough for a test, and their results."""

import ast
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mypy

from tests.inputs.limits import NO_LIMITS

SMALL: dict[str, object] = {
    "source": "digits",
    "height": 12,
    "width": 12,
    "batch_size": 32,
    "base_filters": 8,
    "latent_size": 16,
    "steps": 300,
    "checkpoint_every": 100,
    "sample_every": 100,
    "log_every": 100,
    "classifier_epochs": 6,
    "sample_count": 300,
    **NO_LIMITS,  # so few steps draw nothing good; the test is about running
}
# Of these modules names are hidden that macOS lacks, as typeshed knows it. `make lint` looks for uses in all code.
_MODULES = ("fcntl", "mmap", "os", "resource", "select", "signal", "socket", "time")
# Python runs it when it starts, also in each process that a stage starts.
_HIDE = """
import importlib
for module, lacking in {hidden}.items():
    module = importlib.import_module(module)
    for name in lacking:
        module.__dict__.pop(name, None)
"""
_DIGESTS = ("dataset_digest", "embedding_digest", "checkpoint_digest", "evaluation_digest", "model_digest")


def command(root: str | Path, *words: str, **changes: object) -> list[str]:
    """Return the command of such a run, with some settings changed, and further words."""
    flags = [f"--{name}={value}" for name, value in {**SMALL, **changes}.items()]
    return [sys.executable, "-m", "pipeline", "run", f"--root={root}", *flags, *words]


def start(root: str | Path, environment: dict[str, str] | None = None, /, **changes: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(root, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def run(root: str | Path, **changes: object) -> str:
    """Run it to success; return its log and its output."""
    with start(root, **changes) as process:
        printed, log = process.communicate()
    assert process.returncode == 0, log
    return log + printed


def record_of(root: Path, number: int = 1) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((root / "records" / f"wgan-gp-{number:04d}" / "record.json").read_bytes())
    return record


def outputs(record: dict[str, Any]) -> dict[str, Any]:
    """Return a run's digests, verdict and version from its record; without a publication the version is None."""
    results: dict[str, Any] = {"version": None}
    for stage in record["stages"].values():
        results |= stage["outputs"]
    return {name: results[name] for name in (*_DIGESTS, "verdict", "version")}


def against_umask(root: Path, umask: int) -> dict[str, str]:
    """Return every file and folder without the mode that an umask gives: 0666 or 0777 without its bits."""
    modes = {path: path.lstat().st_mode for path in [root, *root.rglob("*")] if not path.is_symlink()}
    return {
        str(path): oct(mode)
        for path, mode in modes.items()
        if stat.S_IMODE(mode) != (0o777 if stat.S_ISDIR(mode) else 0o666) & ~umask
    }


def _names_of(body: Iterable[ast.stmt], platform: str) -> Iterator[str]:
    """Yield the names that the stub of a module defines for this Python on a platform."""
    for node in body:
        match node:
            case ast.If():
                on = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info)}
                holds = eval(compile(ast.Expression(node.test), "", "eval"), on)  # noqa: S307 - typeshed's condition on the two
                yield from _names_of(node.body if holds else node.orelse, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def without_linux(folder: Path) -> dict[str, str]:
    """Return the variables of processes that lack what macOS lacks: a new folder gets the module that hides it."""
    hidden = {}
    for module in _MODULES:
        stubs = Path(mypy.__file__).parent / "typeshed" / "stdlib"
        stub = next(path for path in (stubs / f"{module}.pyi", stubs / module / "__init__.pyi") if path.exists())
        body = ast.parse(stub.read_text()).body
        hidden[module] = sorted({*_names_of(body, "linux")} - {*_names_of(body, "darwin")})
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_HIDE.format(hidden=json.dumps(hidden)))
    variables = {**os.environ, "PYTHONPATH": str(folder)}
    checked = "{'sched_getaffinity', 'sigwaitinfo', 'fork', 'SIGPROF'}"
    command = [sys.executable, "-c", f"import os, signal; print({{*dir(os), *dir(signal)}} & {checked})"]
    result = subprocess.run(command, env=variables, capture_output=True, check=True)
    assert ast.literal_eval(result.stdout.decode()) == {"fork", "SIGPROF"}
    return variables


def changes(objects: dict[str, Any], before: dict[str, Any]) -> set[str]:
    """Return the folders below a root in a bucket that have changed; nothing may be gone."""
    assert before.keys() <= objects.keys()
    return {name.split("/")[1] for name in objects if before.get(name) != objects[name]}
