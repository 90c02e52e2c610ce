"""Whole runs make the same in a folder, in a bucket, without what macOS lacks, and two at once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.system.whole_runs import outputs, record_of, run, start

# Hides what macOS lacks. Python runs it when it starts, also in each process that a stage starts; `make lint` looks for
# uses of these and all other such names.
_HIDE = """
import os, select, signal
for module, names in (
    (os, "copy_file_range memfd_create posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity waitid"),
    (select, "epoll"),
    (signal, "sigtimedwait sigwaitinfo"),
):
    for name in names.split():
        delattr(module, name)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process, and of those that it starts, without what macOS lacks."""
    folder = tmp_path_factory.mktemp("hidden")
    (folder / "sitecustomize.py").write_text(_HIDE)
    command = [sys.executable, "-c", "import os; print(hasattr(os, 'sched_getaffinity'))"]
    variables = {"PYTHONPATH": str(folder)}
    assert subprocess.check_output(command, env={**os.environ, **variables}) == b"False\n"
    return variables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The root of an undisturbed run in a folder, as on macOS."""
    root = tmp_path_factory.mktemp("folder") / "runs"
    with start(root, environment) as process:
        _, log = process.communicate()
    assert process.returncode == 0, log
    return root


def champion_of(content: str | bytes) -> dict[str, object]:
    champion = json.loads(content)
    return {name: champion[name] for name in ("version", "model_digest", "revision")}


@pytest.mark.slow
def test_a_root_in_a_bucket_and_one_in_a_folder(bucket: Server, folder: Path) -> None:
    run("gs://b/runs")
    objects = bucket.objects["b"]
    assert outputs(json.loads(objects["runs/records/wgan-gp-0001/record.json"].content)) == outputs(record_of(folder))
    champion = (folder / "registry/champion.json").read_text()
    assert champion_of(objects["runs/registry/champion.json"].content) == champion_of(champion)
    assert "runs/registry/versions/1/saved_model.pb" in objects
    before = dict(objects)
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # as on another machine
    assert "since version 1: " in run("gs://b/runs")
    assert before.keys() <= objects.keys()
    changed = {name.split("/")[1] for name in objects if before.get(name) != objects[name]}
    assert changed <= {"records", "history"}  # informative files of the run, and nothing else


def finish(runs: list[subprocess.Popen[str]]) -> None:
    """Wait until both have ended: one successfully, the other successfully or superseded."""
    logs = [process.communicate() for process in runs]
    codes = sorted(process.returncode for process in runs)
    assert codes in ([errors.OK, errors.OK], [errors.OK, errors.SUPERSEDED]), logs


@pytest.mark.long
def test_two_runs_at_once_in_one_folder(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    finish([start(root), start(root)])
    champions = [champion_of((each / "registry/champion.json").read_text()) for each in (root, folder)]
    assert champions[0] == champions[1]
    assert [path.name for path in (root / "registry/versions").iterdir()] == ["1"]
    for record in (root / "records").glob("*/record.json"):
        assert outputs(json.loads(record.read_text())) == outputs(record_of(folder)), record


@pytest.mark.long
def test_two_runs_at_once_on_two_machines_with_one_bucket(bucket: Server, folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    finish([start("gs://b/runs", {"TMPDIR": str(tmp_path / name)}) for name in ("first", "second")])
    objects = bucket.objects["b"]
    champion = (folder / "registry/champion.json").read_text()
    assert champion_of(objects["runs/registry/champion.json"].content) == champion_of(champion)
    assert {name.split("/")[3] for name in objects if name.startswith("runs/registry/versions/")} == {"1"}
