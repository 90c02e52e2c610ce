"""From a folder of color pictures of mixed sizes, without classes, to a published generator: the real command."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from components.core import errors, stages
from components.core.artifacts import models
from components.core.stage import cache_key
from components.core.storage.location import Location
from tests import documents
from tests.fakes.gcs.server import Server
from tests.inputs.damages import damage, damages
from tests.inputs.limits import NO_LIMITS
from tests.system.whole_runs import against_umask, changes, outputs, record_of, without_linux

# So few steps draw nothing good, so limits are ignored; the test is about running.
SETTINGS = {"height": 16, "width": 12, "steps": 600, "batch_size": 16, "base_filters": 8, "latent_size": 8}
SETTINGS |= {"sample_count": 200, **NO_LIMITS}
RUN = ("run", "--source=pictures", *(f"--{name}={value}" for name, value in SETTINGS.items()))
MAKERS = ("preprocess", "embed", "train", "export")  # stages whose artifacts are found by key
pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
UMASK = 0o002  # of the user, who would let others read


def wgan(*words: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("wgan")), *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, umask=UMASK)


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """The table at the end: the state of each stage."""
    table = done.stdout.split("\n\n")[0]  # below are the locations
    lines = [line.split() for line in table.splitlines()]
    return {words[0]: words[1] for words in lines if words and words[0] in stages.ALL}


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on `pictures/`, as on macOS: 600 PNG and JPEG files of a colored disc, and one file that is no picture."""
    folder = tmp_path_factory.mktemp("end_to_end")
    (folder / "pictures").mkdir()
    generator = np.random.default_rng(0)
    for index in range(600):
        height, width = generator.integers(12, 40, 2)
        rows, columns = np.mgrid[:height, :width]
        inside = (rows - height / 2) ** 2 + (columns - width / 2) ** 2 < (min(height, width) / 3) ** 2
        pixels = np.where(inside[..., None], generator.integers(100, 256, 3), generator.integers(0, 60, 3))
        kind = ("png", "jpg")[index % 2]
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "pictures" / f"{index:03d}.{kind}")
    (folder / "pictures" / "broken.png").write_bytes(b"no picture")
    done = wgan(*RUN, "--jobs=2", cwd=folder, environment=without_linux(folder / "hidden"))
    assert done.returncode == 0, done.stderr
    assert set(states(done).values()) == {"done"}
    assert "broken.png" in done.stderr
    return folder


def test_a_folder_of_pictures_becomes_a_champion(location: Path) -> None:
    champion = json.loads((location / "runs" / "registry" / "champion.json").read_text())
    assert champion["version"] == 1
    assert against_umask(location / "runs", 0o027) == {}
    version = location / "runs" / "registry" / "versions" / "1"
    for name in ("samples.png", "report.html"):
        file = location / "runs" / "latest" / name
        assert file.read_bytes() == (version / "evaluation" / name).read_bytes()
        assert (location / "runs" / "champion" / name).resolve() == version / "evaluation" / name
    assert (location / "runs" / "latest" / "model" / "saved_model.pb").exists()
    # The stages and the runner computed the same keys.
    tasks = json.loads((location / "runs" / "history" / "0001" / "state.json").read_text())["tasks"]
    for stage, folder in zip(MAKERS, ("datasets", "embeddings", "checkpoints", "models"), strict=True):
        keys = [path.name for path in (location / "runs" / folder).iterdir()]
        assert keys == [cache_key.key_of(tasks[stage]["parts"])]

    drawn = wgan("sample", "--registry=runs/registry", "--count=9", "--out=grid.png", cwd=location)
    assert drawn.returncode == 0, drawn.stderr
    with Image.open(location / "grid.png") as grid:
        assert grid.mode == "RGB"
    assert against_umask(location / "grid.png", UMASK) == {}  # the user's own file


def test_the_printed_settings_make_the_same_in_a_bucket(location: Path, bucket: Server) -> None:
    printed = wgan("registry", "reproduce", "1", "--root=gs://b/runs", cwd=location)
    assert printed.returncode == 0, printed.stderr
    assert "WARNING" not in printed.stdout
    (location / "again.yaml").write_text(printed.stdout)
    done = wgan("run", "--config=again.yaml", cwd=location)
    assert done.returncode == 0, done.stderr
    contents = bucket.contents()
    record = json.loads(contents["runs/records/wgan-gp-0001/record.json"])
    results = outputs(record)
    assert results == outputs(record_of(location / "runs"))
    first = location / "runs" / "registry" / "versions" / "1"
    again = {name.removeprefix("runs/registry/versions/1/"): content for name, content in contents.items()}
    for name in ("saved_model.pb", models.CARD):
        assert again[name] == (first / name).read_bytes(), name
    champion = json.loads(contents["runs/registry/champion.json"])
    assert (champion["version"], champion["revision"], champion["model_digest"]) == (1, 1, results["model_digest"])

    planned = wgan("plan", "--config=again.yaml", "--refresh=yes", cwd=location).stdout.splitlines()
    assert {line.split()[0] for line in planned if "unchanged" in line} == {"preprocess", "embed", "train", "export"}
    shutil.rmtree(Location.of("gs://b").path.parent.parent)  # as on another machine
    done = wgan("run", "--config=again.yaml", cwd=location)
    assert "since version 1: " in done.stdout + done.stderr
    assert changes(bucket.contents(), contents) <= {"records", "history"}  # informative files of the run, nothing else


@pytest.mark.parametrize("page", ["use-the-model.md", "library.md"])
def test_the_code_of_a_page_runs(location: Path, tmp_path: Path, page: str) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(location / "runs")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    commands = documents.commands(DOCS / page)
    for command in commands[:-1] if page == "use-the-model.md" else commands:  # `make notebook` runs its Python
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_an_exported_version_is_ready_for_the_hub(location: Path) -> None:
    command = ["registry", "export", "1", "discs", "--license=other", "--dataset=a/discs", "--dataset=b: more"]
    done = wgan(*command, cwd=location)
    assert done.returncode == 0, done.stderr
    folder, version = location / "discs", location / "runs" / "registry" / "versions" / "1"
    _, front, card = (folder / "README.md").read_text().split("---\n", 2)
    metadata = yaml.safe_load(front)
    assert (metadata["license"], metadata["datasets"]) == ("other", ["a/discs", "b: more"])
    assert metadata["pipeline_tag"] == "unconditional-image-generation"
    (result,) = metadata["model-index"][0]["results"]
    numbers = json.loads((version / "evaluation" / "metrics.json").read_text())
    values = {metric["type"]: metric["value"] for metric in result["metrics"]}
    assert values == {name: numbers["model"][name] for name in (numbers["distance"], f"{numbers['distance']}_ratio")}
    assert card.endswith((version / models.CARD).read_text())
    assert (folder / "samples.png").read_bytes() == (version / "evaluation" / "samples.png").read_bytes()
    (code,) = documents.commands(folder / "README.md")
    done = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with Image.open(folder / "sample.png") as image:
        assert image.size == (12, 16)
    again = wgan(*command, cwd=location)
    assert (again.returncode, again.stdout) == (errors.BAD_CONFIGURATION, "")
    assert "discs" in again.stderr


def test_the_same_command_again_is_skipped_and_a_refresh_makes_nothing_again(location: Path) -> None:
    again = wgan(*RUN, cwd=location)
    assert again.returncode == 0, again.stderr
    judged = ("preprocess", "embed", "train", "evaluate", "export", "publish")
    done = dict.fromkeys(("decide", "record"), "done")
    assert states(again) == done | dict.fromkeys(judged, "skipped:")
    skipped = record_of(location / "runs", len([*(location / "runs" / "history").iterdir()]))
    assert (skipped["state"], skipped["verdict"], "version 1" in skipped["reason"]) == ("SKIPPED", None, True)
    assert (set(skipped["stages"]), skipped["training"]["made"]) == ({"decide"}, False)

    refreshed = wgan(*RUN, "--refresh=yes", cwd=location)
    assert refreshed.returncode == 0, refreshed.stderr
    assert states(refreshed) == done | dict.fromkeys(MAKERS, "unchanged") | {"evaluate": "done", "publish": "skipped:"}
    record = record_of(location / "runs", len([*(location / "runs" / "history").iterdir()]))
    assert (record["state"], record["verdict"], record["training"]["made"]) == ("SUCCEEDED", "HOLD", False)
    assert "version 1" in record["reason"]


def test_damaged_artifacts_are_made_again_by_the_same_command(location: Path) -> None:
    runs, kinds = location / "runs", itertools.cycle(damages(b"."))
    files = [
        *(file for kind in ("datasets", "embeddings", "models") for file in (runs / kind).rglob("*") if file.is_file()),
        *runs.glob("checkpoints/*/step-0000000600/[cs]*"),
    ]
    whole = {file: file.read_bytes() for file in files}
    for file, how in zip(sorted(whole), kinds, strict=False):
        damage(file, how)
    done = wgan(*RUN, "--refresh=yes", cwd=location)
    assert done.returncode == 0, done.stderr
    assert {states(done)[stage] for stage in MAKERS} == {"done"}
    assert done.stderr.count("made again, as ") == 3
    assert {file for file in whole if file.read_bytes() != whole[file]} == set()
