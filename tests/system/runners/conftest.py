"""Sources, the dataset that the direct runner makes of each, and the stage as a program."""

import gzip
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.storage import digests
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.inputs.sources import idx, write_images

ROOT = Path(__file__).parents[3]
_MARK = "WGAN_TEST_STAGE"


def write_idx(folder: Path, images: int) -> Path:
    """IDX files of gray noise of 28x28 in 10 classes: so many images to train on, and a tenth to test on."""
    generator = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for split, count in (("train", images), ("t10k", images // 10)):
        noise = generator.integers(0, 256, (count, 28, 28), np.uint8)
        labels = np.arange(count, dtype=np.uint8) % 10
        (folder / f"{split}-images-idx3-ubyte").write_bytes(idx(noise))
        (folder / f"{split}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return folder


def content(folder: Path) -> dict[str, str]:
    """Return the sha256 of each file of a dataset, by its own folder or the one that holds it alone."""
    return {path.name: digests.sha256_of_file(path) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session", params=["idx", "images"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Settings for several shards of a source: IDX files, or images, one of which cannot be decoded."""
    folder = tmp_path_factory.mktemp("source")
    if request.param == "idx":
        return {"source": str(write_idx(folder / "idx", 2000)), "images_per_shard": 500}
    write_images(folder / "pets", 200)
    (folder / "pets" / "cats" / "page.png").write_bytes(b"<html>")
    return {"source": str(folder / "pets"), "height": 12, "width": 10, "images_per_shard": 30}


@pytest.fixture(scope="session")
def direct_runner_files(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    datasets = tmp_path_factory.mktemp("direct")
    preprocess.run(PreprocessConfig(dataset=str(datasets), **settings))
    return content(datasets)


class Stage:
    """The preprocess stage as a program that runs beside the test."""

    def __init__(self, folder: Path, settings: dict[str, Any], beam_options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.datasets = folder / "datasets"
        self._mark = str(uuid.uuid4())
        self._stderr = folder / "stderr"
        words = [f"--{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "components", "preprocess", f"--dataset={self.datasets}", *words]
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*command, f"--beam_options={beam_options}"],
                env={**os.environ, _MARK: self._mark},
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    @property
    def stderr(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    def wait(self, timeout: float = 300) -> int:
        return self.process.wait(timeout)

    def processes(self) -> dict[int, str]:
        """Return its process and all descendants, by id: their commands, whoever their parent is."""
        commands = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{_MARK}={self._mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if command:  # an ended process that waits for its parent has none
                        commands[int(path.name)] = command
            except OSError:
                continue  # it has ended, or is another user's
        return commands


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[dict[str, Any], str], Stage]]:
    """Start the stage in the folder of the test; ended with the test."""
    started: list[Stage] = []

    def start(settings: dict[str, Any], beam_options: str) -> Stage:
        started.append(Stage(tmp_path / f"stage{len(started)}", settings, beam_options))
        return started[-1]

    yield start
    for stage in started:
        stage.process.kill()
        stage.process.wait()
