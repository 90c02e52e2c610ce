"""The same package in containers and as processes, on `digits`: the same digests; and what users do with containers."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.core import container_images, stages
from pipeline.local.docker_client import Docker
from tests.programs import umask, until
from tests.system import whole_runs
from tests.system.docker import required

pytestmark = pytest.mark.docker

SETTINGS = {"checkpoint_every": 1000}
LIGHT = ("decide", "preprocess", "record")
# NumPy's kernels decide last bits. Processes inherit a choice of this machine; containers need the same one.
SAME_KERNELS = "--docker-options=" + " ".join(f"-e {name}" for name in os.environ if name.startswith("OPENBLAS_"))


@pytest.fixture(scope="module", autouse=True)
def built_images() -> None:
    client = required.client()
    for target in ("preprocess", "train-cpu"):
        required.image(client, target)


def run(root: Path, *words: str, **changes: object) -> subprocess.CompletedProcess[str]:
    command = whole_runs.command(root, *words, **{**SETTINGS, **changes})
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def in_state(state: str, root: Path, number: int = 1) -> set[str]:
    return {name for name, task in tasks(root, number).items() if task["state"] == state}


def tasks(root: Path, number: int = 1) -> dict[str, Any]:
    state = json.loads((root / "history" / f"{number:04d}" / "state.json").read_text())
    return {name: task for name, task in state["tasks"].items() if name in stages.ALL}


def digests_of(root: Path) -> dict[str, str]:
    """Every digest and fingerprint that a stage of a run returned, by stage and name."""
    return {
        f"{stage}.{name}": value
        for stage, task in tasks(root).items()
        for name, value in task["outputs"].items()
        if name.endswith(("_digest", "_fingerprint"))
    }


def published(root: Path) -> dict[str, bytes]:
    folder = root / "registry" / "versions" / "1"
    files = [folder / "saved_model.pb", *(folder / "variables").iterdir()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def in_containers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("containers") / "runs"
    done = run(root, "--runner", "docker", SAME_KERNELS)
    assert done.returncode == 0, done.stderr
    return root


def test_containers_and_processes_make_the_same(in_containers: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    container_digests = digests_of(in_containers)
    assert len(container_digests) >= 8
    assert container_digests == digests_of(tmp_path / "runs")
    assert in_state("done", in_containers) == tasks(in_containers).keys()
    assert [whole_runs.against_umask(root, umask() | 0o027) for root in (in_containers, tmp_path / "runs")] == [{}, {}]
    model, other = (published(root) for root in (in_containers, tmp_path / "runs"))
    assert {"saved_model.pb", "variables/variables.data-00000-of-00001"} <= model.keys()
    assert model == other


def test_the_image_that_ran_is_on_record(in_containers: Path) -> None:
    docker = Docker()
    images = {name: docker.image(container_images.image(name)) for name in ("preprocess", "train")}
    for name, task in tasks(in_containers).items():
        image = images["preprocess" if name in LIGHT else "train"]
        assert image is not None
        assert task["image"] == image.name
        assert image.name.partition("@sha256:")[2]
    lineage = next((in_containers / "evaluations").glob("*/lineage.json")).read_text()
    assert json.loads(lineage)["checkpoint"]["made_with"]["image"] == tasks(in_containers)["train"]["image"]


def test_a_folder_and_an_edit_reach_the_containers(in_containers: Path, tmp_path: Path) -> None:
    # Another code folder than the image's, with one line changed.
    subprocess.run(["cp", "-r", "components", "pipeline", str(tmp_path)], check=True)
    edited = tmp_path / "components" / "decide" / "run.py"
    text = edited.read_text()
    assert "def run(" in text
    edited.write_text(text + '\nimport sys\n\nprint("this line was edited", file=sys.stderr)\n')
    (tmp_path / "more").mkdir()
    words = whole_runs.command(tmp_path / "runs", "--runner", "docker", "--dev", source="more")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    # The container sees the empty folder, by its relative name, and refuses it.
    assert done.returncode == 65, done.stderr
    assert all(words in done.stderr for words in ("decide | ", "this line was edited", "source more"))


def test_ctrl_c_in_the_middle_of_training_ends_the_container_and_loses_nothing(tmp_path: Path) -> None:
    root, log = tmp_path / "runs", tmp_path / "runs" / "history" / "0001" / "train.log"
    with open(tmp_path / "stderr.txt", "w") as file:
        process = subprocess.Popen(
            whole_runs.command(root, "--runner", "docker", **{**SETTINGS, "steps": 800}), stdout=file, stderr=file
        )
    until(lambda: process.poll() is not None or (log.exists() and "step 200 of" in log.read_text()), 600)
    listed = ["ps", "--all", "--quiet", "--filter", f"label=wgan-gp-pipeline.root={root}"]
    assert len(Docker().ask(*listed).split()) == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert Docker().ask(*listed) == ""
    assert tasks(root)["train"]["state"] == "interrupted"
    assert tasks(root)["train"]["exit_code"] == 143
    kept = [path.name for path in (root / "checkpoints").glob("*/step-*")]
    assert len(kept) == 1, log.read_text()
    done = run(root, "--runner", "docker", steps=800)
    assert done.returncode == 0, done.stderr
    assert in_state("unchanged", root, 2) == {"preprocess", "embed"}
    log = root / "history" / "0002" / "train.log"
    assert f"resuming at step {int(kept[0].removeprefix('step-'))} of 800" in log.read_text()
