"""Whole runs make the same in a folder, in a bucket, without what macOS lacks, and two at once."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mypy
import pytest

from components.core import errors
from components.core.artifacts import datasets
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.inputs.sources import write_images
from tests.system.whole_runs import outputs, record_of, run, start

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
    some = "{'sched_getaffinity', 'sigwaitinfo', 'fork', 'SIGPROF'}"
    command = [sys.executable, "-c", f"import os, signal; print({{*dir(os), *dir(signal)}} & {some})"]
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=True)
    assert ast.literal_eval(result.stdout.decode()) == {"fork", "SIGPROF"}
    return variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The root of an undisturbed run in a folder, as on macOS."""
    root = tmp_path_factory.mktemp("folder") / "runs"
    with start(root, environment) as process:
        _, log = process.communicate()
    assert process.returncode == 0, log
    return root


@pytest.fixture(scope="module")
def wanted(folder: Path) -> dict[str, object]:
    return outputs(record_of(folder))


def champion_of(content: str | bytes) -> dict[str, object]:
    champion = json.loads(content)
    return {name: champion[name] for name in ("version", "model_digest", "revision")}


def changes(objects: dict[str, Any], before: dict[str, Any]) -> set[str]:
    """Return the folders below a root in a bucket that have changed; nothing may be gone."""
    assert before.keys() <= objects.keys()
    return {name.split("/")[1] for name in objects if before.get(name) != objects[name]}


@pytest.mark.slow
def test_a_root_in_a_bucket_and_one_in_a_folder(bucket: Server, folder: Path, wanted: dict[str, object]) -> None:
    run("gs://b/runs")
    objects = bucket.objects["b"]
    assert outputs(json.loads(objects["runs/records/wgan-gp-0001/record.json"].content)) == wanted
    champion = (folder / "registry/champion.json").read_text()
    assert champion_of(objects["runs/registry/champion.json"].content) == champion_of(champion)
    assert "runs/registry/versions/1/saved_model.pb" in objects
    before = dict(objects)
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # as on another machine
    assert "since version 1: " in run("gs://b/runs")
    assert changes(objects, before) <= {"records", "history"}  # informative files of the run, and nothing else


@pytest.mark.long
def test_every_stage_once_more_writes_nothing(bucket: Server) -> None:
    run("gs://b/runs")
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # with the run's notes of stages that need not run
    objects = bucket.objects["b"]
    before, asked = dict(objects), len(bucket.requests)
    log = run("gs://b/runs", refresh="yes")
    for stage in ("preprocess", "embed", "train", "export"):
        assert f"{stage}: done" in log
    assert changes(objects, before) == {"records", "history", "evaluations"}  # because of the champion
    writes = [f"{request.path} {request.query}" for request in bucket.requests[asked:] if request.method != "GET"]
    assert writes
    for written in writes:
        assert not any(kind in written for kind in ("datasets", "embeddings", "checkpoints", "models")), written


def finish(runs: list[subprocess.Popen[str]]) -> None:
    """Wait until both have ended: one successfully, the other successfully or superseded."""
    logs = [process.communicate() for process in runs]
    codes = sorted(process.returncode for process in runs)
    assert codes in ([errors.OK, errors.OK], [errors.OK, errors.SUPERSEDED]), logs


@pytest.mark.long
def test_two_runs_at_once_in_one_folder(folder: Path, wanted: dict[str, object], tmp_path: Path) -> None:
    root = tmp_path / "runs"
    finish([start(root), start(root)])
    champions = [champion_of((each / "registry/champion.json").read_text()) for each in (root, folder)]
    assert champions[0] == champions[1]
    assert [path.name for path in (root / "registry/versions").iterdir()] == ["1"]
    for record in (root / "records").glob("*/record.json"):
        assert outputs(json.loads(record.read_text())) == wanted, record


@pytest.mark.long
def test_two_runs_at_once_on_two_machines_with_one_bucket(bucket: Server, folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    finish([start("gs://b/runs", {"TMPDIR": str(tmp_path / name)}) for name in ("first", "second")])
    objects = bucket.objects["b"]
    champion = (folder / "registry/champion.json").read_text()
    assert champion_of(objects["runs/registry/champion.json"].content) == champion_of(champion)
    assert {name.split("/")[3] for name in objects if name.startswith("runs/registry/versions/")} == {"1"}


def test_images_become_a_dataset_without_linux(tmp_path: Path, environment: dict[str, str]) -> None:
    write_images(tmp_path / "pets", 60)
    command = [sys.executable, "-m", "components.preprocess", f"--source={tmp_path / 'pets'}"]
    command += [f"--dataset={tmp_path / 'dataset'}", "--height=8", "--width=8"]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    assert sum(split.records for split in datasets.Manifest.of(tmp_path / "dataset").splits.values()) == 60
