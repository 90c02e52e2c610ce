"""Whole runs make the same two at once, and write nothing again; images become a dataset without what macOS lacks."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import errors
from components.core.artifacts import datasets
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.inputs.sources import write_images
from tests.system.whole_runs import changes, outputs, record_of, run, start, without_linux


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an undisturbed run in a folder."""
    root = tmp_path_factory.mktemp("folder") / "runs"
    run(root)
    return root


@pytest.fixture(scope="module")
def wanted(folder: Path) -> dict[str, object]:
    return outputs(record_of(folder))


def champion_of(content: str | bytes) -> dict[str, object]:
    champion = json.loads(content)
    return {name: champion[name] for name in ("version", "model_digest", "revision")}


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


def test_images_become_a_dataset_without_linux(tmp_path: Path) -> None:
    write_images(tmp_path / "pets", 60)
    command = [sys.executable, "-m", "components", "preprocess", f"--source={tmp_path / 'pets'}"]
    command += [f"--dataset={tmp_path / 'dataset'}", "--height=8", "--width=8"]
    subprocess.run(command, env=without_linux(tmp_path / "hidden"), check=True)
    assert sum(split.records for split in datasets.Manifest.of(tmp_path / "dataset").splits.values()) == 60
