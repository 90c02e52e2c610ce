"""Two runs that a schedule started at once on one root, here and as on two machines: they end as a single run."""

import json
import subprocess
from pathlib import Path

import pytest

from components.core import errors
from tests.fakes.gcs.server import Server
from tests.system.whole_runs import outputs, record_of, run, start

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an undisturbed run."""
    root = tmp_path_factory.mktemp("alone") / "runs"
    run(root)
    return root


def finish(runs: list[subprocess.Popen[str]]) -> None:
    """Wait until both have ended: one successfully, the other successfully or superseded."""
    logs = [process.communicate() for process in runs]
    codes = sorted(process.returncode for process in runs)
    assert codes in ([errors.OK, errors.OK], [errors.OK, errors.SUPERSEDED]), logs


def champion_of(content: str | bytes) -> dict[str, object]:
    champion = json.loads(content)
    return {name: champion[name] for name in ("version", "model_digest", "revision")}


def test_two_in_one_folder(alone: Path, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    finish([start(root), start(root)])
    assert champion_of((root / "registry/champion.json").read_text()) == champion_of(
        (alone / "registry/champion.json").read_text()
    )
    assert [path.name for path in (root / "registry/versions").iterdir()] == ["1"]
    wanted = outputs(record_of(alone))
    for folder in (root / "records").iterdir():
        assert outputs(json.loads((folder / "record.json").read_text())) == wanted, folder


def test_two_machines_and_one_bucket(gcs: Server, alone: Path, tmp_path: Path) -> None:
    gcs.create_bucket("b")
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    finish([start("gs://b/runs", {"TMPDIR": str(tmp_path / name)}) for name in ("first", "second")])
    objects = gcs.objects["b"]
    assert champion_of(objects["runs/registry/champion.json"].content) == champion_of(
        (alone / "registry/champion.json").read_text()
    )
    versions = {name.split("/")[3] for name in objects if name.startswith("runs/registry/versions/")}
    assert versions == {"1"}
