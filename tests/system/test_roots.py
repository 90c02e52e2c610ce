"""Whole runs make the same two at once, and write nothing again."""

import json
import shutil
from pathlib import Path

import pytest

from components.core import errors
from components.core.registry import registry
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.system.whole_runs import changes, outputs, record_of, run, start


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an undisturbed run in a folder."""
    root = tmp_path_factory.mktemp("folder") / "runs"
    run(root)
    return root


@pytest.fixture(scope="module")
def wanted(folder: Path) -> dict[str, object]:
    return outputs(record_of(folder))


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


@pytest.mark.long
@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("place", ["in a folder", "on two machines, in a bucket"])
def test_two_runs_at_once(place: str, folder: Path, wanted: dict[str, object], tmp_path: Path) -> None:
    """One ends successfully, the other successfully or superseded; they leave what one run does."""
    root = Location.of("gs://b/runs" if "bucket" in place else tmp_path / "runs")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    runs = [start(str(root), {"TMPDIR": str(tmp_path / name)}) for name in ("first", "second")]
    logs = [process.communicate() for process in runs]
    codes = sorted(process.returncode for process in runs)
    assert codes in ([errors.OK, errors.OK], [errors.OK, errors.SUPERSEDED]), logs
    at_once, alone = (registry.read_champion(each / "registry") for each in (root, Location.of(folder)))
    assert at_once == alone
    assert [*registry.begun(root / "registry")] == [1]
    for record in tmp_path.glob("runs/records/*/record.json"):
        assert outputs(json.loads(record.read_text())) == wanted, record
