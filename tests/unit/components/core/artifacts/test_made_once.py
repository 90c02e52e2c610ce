"""An artifact is made once; an existing one is found, or made again if it is damaged."""

import contextlib
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.core.artifacts import datasets, embeddings, evaluations, models
from components.core.artifacts.manifest import Manifest
from components.core.errors import DataError
from components.core.stage import cache_key
from components.core.storage import atomic_files, buckets
from components.core.storage.location import Location
from tests.fakes.gcs.server import Server
from tests.inputs import artifacts
from tests.inputs.damages import damages

ORIGIN = artifacts.origin(artifacts.dataset(), {"step": 7, "classes": [], "dataset_digest": "d" * 64})


def _dataset(folder: Path) -> object:
    files = {name: folder / name for name in ("test-00000-of-00001.members", "quarantine.jsonl")}
    for name, path in files.items():
        atomic_files.write_file(path, name.encode())
    sha256 = atomic_files.files_in(folder)
    (members, quarantined) = files
    return artifacts.write_dataset(
        folder,
        dict.fromkeys(datasets.SPLITS, (np.zeros((2, 2, 2, 1), np.uint8), [0, 0])),
        ["one"],
        quarantine={"list": {"file": quarantined, "bytes": len(quarantined), "sha256": sha256[quarantined]}},
        made_with={datasets.MEMBERS: {members: sha256[members]}},
    )


def _embedding(folder: Path) -> None:
    atomic_files.write_file(folder / "model" / "saved_model.pb", b"a large graph")
    artifacts.embedding(files=atomic_files.files_in(folder)).write(folder)


KINDS: dict[type[Manifest], Callable[[Path], object]] = {
    datasets.Manifest: _dataset,
    embeddings.Manifest: _embedding,
    evaluations.Manifest: lambda folder: artifacts.write_evaluation(folder, ORIGIN),
    models.Manifest: lambda folder: artifacts.write_model(folder, ORIGIN, {"variables/data": b"many weights"}),
}


class Maker:
    """Makes an artifact of a kind, always the same, at a location."""

    def __init__(self, kind: type[Manifest], where: str, template: Path) -> None:
        KINDS[kind](template)
        self.kind, self._where, self._template, self.count = kind, where, template, 0
        self.content = {name: (template / name).read_bytes() for name in atomic_files.files_in(template)}
        self._parts: dict[str, Any] = {"settings": {"size": 1}}
        self.location = Location.of(where) / cache_key.key_of(self._parts)

    def make(self, location: Location) -> None:
        self.count += 1
        with location.new_folder(self.kind.FILE) as folder:
            shutil.copytree(self._template, folder, dirs_exist_ok=True)

    def run(self, **settings: int) -> bool:
        """Return whether it was there."""
        return self.kind.made_once(self._where, {"settings": {"size": 1, **settings}}, self.make)[2]


def test_it_is_made_if_it_is_not_there_and_found_if_it_is(tmp_path: Path) -> None:
    maker = Maker(models.Manifest, str(tmp_path / "models"), tmp_path / "template")
    assert [maker.run() for _ in range(2)] == [False, True]
    assert [maker.run(size=2), maker.run(size=2), maker.run()] == [False, True, True]
    assert maker.count == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_one_is_made_again(kind: type[Manifest], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maker = Maker(kind, str(tmp_path), tmp_path / "template")
    maker.run()
    for name, content in maker.content.items():
        for how, left in damages(content).items():
            path = maker.location.path / name
            path.unlink() if left is None else path.write_bytes(left)
            caplog.clear()
            assert not maker.run(), (name, how)
            (warning,) = (record.message for record in caplog.records if record.levelno == logging.WARNING)
            assert path.name in warning
            assert {file: (maker.location.path / file).read_bytes() for file in maker.content} == maker.content
            assert maker.run()
    assert {path.name for path in tmp_path.iterdir()} == {maker.location.name, "template"}


@pytest.mark.parametrize("kind", [evaluations.Manifest, models.Manifest])
def test_a_damaged_one_in_a_bucket_is_made_again(
    kind: type[Manifest], tmp_path: Path, gcs: Server, caplog: pytest.LogCaptureFixture
) -> None:
    gcs.create_bucket("b")
    maker = Maker(kind, "gs://b", tmp_path / "template")
    maker.run()
    whole = gcs.contents()
    for name, content in whole.items():
        for how, left in damages(content).items():
            if left is None:
                del gcs.objects["b"][name]
            else:
                buckets.put(f"gs://b/{name}", left)
            caplog.clear()
            is_whole = name.endswith("committed.json") and left is None  # as before the commit
            assert not maker.run(), (name, how)
            assert is_whole or any(Path(name).name in record.message for record in caplog.records), (name, how)
            assert gcs.contents() == whole, (name, how)
            assert maker.run()


def test_what_another_process_has_made_again_stays(tmp_path: Path, gcs: Server) -> None:
    gcs.create_bucket("b")
    for number, where in enumerate((str(tmp_path), "gs://b")):
        maker = Maker(models.Manifest, where, tmp_path / f"template {number}")
        maker.run()
        location = maker.location
        if location.in_bucket:
            (weights,) = (name for name in gcs.objects["b"] if name.endswith("data"))
            buckets.put(f"gs://b/{weights}", b"")
        else:
            (location.path / "variables" / "data").write_bytes(b"")
        with contextlib.suppress(DataError), location.removed_if_damaged():
            assert not maker.run()
            raise DataError("what this process saw before")
        assert maker.run()
        assert maker.count == 2
