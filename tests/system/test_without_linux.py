"""Without what modules lack on macOS, as typeshed knows it. `make lint` looks for uses in all of our code."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import mypy
import pytest

from components.core.artifacts import datasets
from tests.inputs.sources import write_images
from tests.system import whole_runs

_MODULES = ("fcntl", "mmap", "os", "resource", "select", "signal", "socket", "time")
# Python runs it when it starts, also in each process that a stage starts.
_HIDE = """
import importlib
for module, lacking in {hidden}.items():
    module = importlib.import_module(module)
    for name in lacking:
        module.__dict__.pop(name, None)
"""


def names_of(body: Iterable[ast.stmt], platform: str) -> Iterator[str]:
    """Yield the names of a module's stub on a platform and this Python."""
    for node in body:
        match node:
            case ast.If():
                on = {"sys": SimpleNamespace(platform=platform, version_info=sys.version_info)}
                holds = eval(compile(ast.Expression(node.test), "", "eval"), on)  # noqa: S307 - compares these two
                yield from names_of(node.body if holds else node.orelse, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process, and of those that it starts, without what macOS lacks."""
    folder, hidden = tmp_path_factory.mktemp("hidden"), {}
    for module in _MODULES:
        stubs = Path(mypy.__file__).parent / "typeshed" / "stdlib"
        stub = next(path for path in (stubs / f"{module}.pyi", stubs / module / "__init__.pyi") if path.exists())
        body = ast.parse(stub.read_text()).body
        hidden[module] = sorted({*names_of(body, "linux")} - {*names_of(body, "darwin")})
    (folder / "sitecustomize.py").write_text(_HIDE.format(hidden=json.dumps(hidden)))
    variables = {"PYTHONPATH": str(folder)}
    program = (
        "import os, signal; print({*dir(os), *dir(signal)} & {'sched_getaffinity', 'sigwaitinfo', 'fork', 'SIGPROF'})"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **variables}, capture_output=True, check=True
    )
    assert ast.literal_eval(result.stdout.decode()) == {"fork", "SIGPROF"}
    return variables


def test_images_become_a_dataset(tmp_path: Path, environment: dict[str, str]) -> None:
    write_images(tmp_path / "pets", 60)
    command = [sys.executable, "-m", "components.preprocess", f"--source={tmp_path / 'pets'}"]
    command += [f"--dataset={tmp_path / 'dataset'}", "--height=8", "--width=8"]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    assert sum(split.records for split in datasets.Manifest.of(tmp_path / "dataset").splits.values()) == 60


@pytest.mark.slow
def test_the_whole_pipeline_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    with whole_runs.start(tmp_path / "runs", environment) as process:
        _, log = process.communicate()
    assert process.returncode == 0, log
    assert whole_runs.outputs(whole_runs.record_of(tmp_path / "runs"))["version"]
