"""A dataset in a bucket: the bytes of one in a folder, or none, when requests fail and when two attempts meet."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import DataError, TransientError
from components.core.storage import buckets
from components.preprocess import attempt_files
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from tests.fakes.gcs.server import Server
from tests.inputs.sources import write_images

DATASET = "gs://b/d"
# With several shards.
SMALL: dict[str, Any] = {"height": 8, "width": 8, "images_per_shard": 20, "bad_images_limit": 0.1}
# Not surely one process: the workers share nothing but the bucket.
SHARED: dict[str, Any] = {"beam_options": "--direct_running_mode=multi_threading"}
Settings = dict[str, Any]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "pets"
    write_images(folder, 60)
    (folder / "cats" / "page.png").write_bytes(b"<html>")
    return folder


@pytest.fixture(params=[{}, SHARED], ids=["one process", "workers"])
def settings(request: pytest.FixtureRequest, images: Path, gcs: Server) -> Settings:
    gcs.create_bucket("b")
    return {"source": str(images), **SMALL, **request.param}


@pytest.fixture(scope="module")
def expected(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("local") / "d"
    made = preprocess.run(PreprocessConfig(source=str(images), dataset=str(folder), **SMALL))
    return {path.name: path.read_bytes() for path in Path(str(made.parameters["dataset_uri"])).iterdir()}


def in_bucket(gcs: Server) -> dict[str, bytes]:
    """Return the files of the dataset in the bucket, which must hold nothing else."""
    files = gcs.contents()
    if not files:
        return {}
    (key,) = {name.split("/")[1] for name in files}
    assert files.pop(f"d/{key}/committed.json")
    assert len({name.rpartition("/")[0] for name in files}) == 1
    return {name.rpartition("/")[2]: content for name, content in files.items()}


def run(settings: Settings) -> bool:
    """Run the stage; return whether the dataset was there."""
    return preprocess.run(PreprocessConfig(dataset=DATASET, **settings)).reused


def test_images_in_a_bucket_too(gcs: Server, settings: Settings, images: Path, expected: dict[str, bytes]) -> None:
    for path in images.rglob("*.*"):
        buckets.create(f"gs://b/pets/{path.relative_to(images).as_posix()}", path)
    run({**settings, "source": "gs://b/pets"})
    for name in [name for name in gcs.objects["b"] if name.startswith("pets/")]:
        del gcs.objects["b"][name]
    files = in_bucket(gcs)
    assert {name: files[name] for name in files if name != "dataset.json"} == {
        name: content for name, content in expected.items() if name != "dataset.json"
    }


@pytest.mark.parametrize("fails", [False, True])
def test_another_attempt_that_is_first_is_kept(
    gcs: Server, settings: Settings, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """It begins and ends when this one's shards are written; then this one commits, or fails.

    It deletes the shards that workers wrote to the bucket, so that their failure says nothing.
    """
    finish, late_calls = attempt_files.finish, []

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(attempt_files, "finish", finish)
        late_calls.append(arguments)
        assert not run(settings)
        if fails:
            raise DataError("of this attempt")
        finish(*arguments)

    monkeypatch.setattr(attempt_files, "finish", late)
    is_told = fails and "beam_options" not in settings
    with pytest.raises(DataError, match="of this attempt") if is_told else contextlib.nullcontext():
        assert not run(settings)
    assert late_calls
    assert in_bucket(gcs) == expected


def test_what_an_attempt_leaves_that_lost_its_connection_goes_with_the_next(
    gcs: Server, settings: Settings, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = attempt_files.finish

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(attempt_files, "finish", finish)
        monkeypatch.setattr(buckets, "RETRY_SECONDS", 0.01)
        gcs.outage(on=True)
        finish(*arguments)

    monkeypatch.setattr(attempt_files, "finish", late)
    with pytest.raises(TransientError):
        run(settings)
    gcs.outage(on=False)
    left = {*gcs.objects["b"]}
    assert bool([name for name in left if name.endswith(".tfrecord")]) == ("beam_options" in settings)
    assert not run(settings)
    assert in_bucket(gcs) == expected
    assert not left & gcs.objects["b"].keys()
    assert run(settings)
    assert in_bucket(gcs) == expected
