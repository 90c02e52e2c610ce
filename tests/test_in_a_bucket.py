"""The whole pipeline on this machine with everything in a bucket: the same artefacts as in a folder."""

import json
import shutil
from pathlib import Path

import pytest

from components import places
from tests.gcs_server.server import Server
from tests.whole_runs import outputs, run

pytestmark = pytest.mark.slow


def test_a_root_in_a_bucket_and_one_in_a_folder(gcs: Server, tmp_path: Path) -> None:
    gcs.create_bucket("b")
    run(tmp_path / "runs")
    run("gs://b/runs")
    held = gcs.objects["b"]
    expected = outputs((tmp_path / "runs/records/wgan-gp-0001/record.json").read_bytes())
    assert outputs(held["runs/records/wgan-gp-0001/record.json"].content) == expected
    champion = json.loads((tmp_path / "runs/registry/champion.json").read_text())
    assert json.loads(held["runs/registry/champion.json"].content)["model_digest"] == champion["model_digest"]
    assert "runs/registry/versions/1/saved_model.pb" in held
    before = dict(held)
    shutil.rmtree(places.local("gs://b").parent.parent)  # as on another machine
    assert "nothing is new since version 1" in run("gs://b/runs")
    changed = {name for name in held if before.get(name) != held[name]}
    assert changed
    assert {name.split("/")[1] for name in changed} <= {"records", "history"}  # what tells of the run, and nothing else
    assert before.keys() <= held.keys()
