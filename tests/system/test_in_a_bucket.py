"""The whole pipeline on this machine with everything in a bucket: the same artifacts as in a folder."""

import json
import shutil
from pathlib import Path

import pytest

from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.system.whole_runs import outputs, record_of, run


@pytest.mark.slow
def test_a_root_in_a_bucket_and_one_in_a_folder(gcs: Server, tmp_path: Path) -> None:
    gcs.create_bucket("b")
    run(tmp_path / "runs")
    run("gs://b/runs")
    objects = gcs.objects["b"]
    record = json.loads(objects["runs/records/wgan-gp-0001/record.json"].content)
    assert outputs(record) == outputs(record_of(tmp_path / "runs"))
    champion = json.loads((tmp_path / "runs/registry/champion.json").read_text())
    assert json.loads(objects["runs/registry/champion.json"].content)["model_digest"] == champion["model_digest"]
    assert "runs/registry/versions/1/saved_model.pb" in objects
    before = dict(objects)
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # as on another machine
    assert "since version 1: " in run("gs://b/runs")
    changed = {name for name in objects if before.get(name) != objects[name]}
    assert changed
    assert {name.split("/")[1] for name in changed} <= {
        "records",
        "history",
    }  # informative files of the run, and nothing else
    assert before.keys() <= objects.keys()


@pytest.mark.long
def test_every_stage_once_more_writes_nothing(gcs: Server) -> None:
    gcs.create_bucket("b")
    run("gs://b/runs")
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # with the run's notes of stages that need not run
    objects = gcs.objects["b"]
    before, asked = dict(objects), len(gcs.requests)
    log = run("gs://b/runs", refresh="yes")
    for stage in ("preprocess", "embed", "train", "export"):
        assert f"{stage}: done" in log
    changed = {name for name in objects if before.get(name) != objects[name]}
    assert {name.split("/")[1] for name in changed} == {"records", "history", "evaluations"}  # because of the champion
    writes = [request for request in gcs.requests[asked:] if request.method != "GET"]
    assert writes
    for request in writes:
        asked_for = f"{request.path} {request.query}"
        assert not any(location in asked_for for location in ("datasets", "embeddings", "checkpoints", "models")), (
            asked_for
        )
