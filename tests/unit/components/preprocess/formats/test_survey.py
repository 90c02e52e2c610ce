"""Every format in a bucket is as in a folder: fetched, compared with its checksum, and read from its start."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from components.core.sources import source_listing
from components.core.storage import buckets
from tests.fakes.gcs.server import Server
from tests.faults.damage.image_cases import JPEG, WEBP
from tests.inputs.sources import framed_example, read_source


def files(folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 3), np.uint8)
    for kind in ("npz", "tfrecord", "zip", "labeled"):
        (folder / kind).mkdir(parents=True)
    np.savez(folder / "npz" / "train.npz", images=images, labels=np.arange(5))
    np.savez_compressed(folder / "npz" / "test.npz", images=images[:2], labels=np.arange(2))
    for split, content in (("train", JPEG), ("test", WEBP)):
        (folder / "tfrecord" / f"{split}.tfrecord").write_bytes(framed_example(content, 4))
    (folder / "labeled" / "a.jpg").write_bytes(JPEG)
    (folder / "labeled" / "b.webp").write_bytes(WEBP)
    (folder / "labeled" / source_listing.LABELS).write_bytes(b"file,label,split\na.jpg,x,\nb.webp,y,test\n")
    shutil.make_archive(str(folder / "zip" / "photos"), "zip", folder / "labeled")


@pytest.mark.parametrize("source", ["npz", "tfrecord", "zip", "labeled", "zip/photos.zip", "tfrecord/t*.tfrecord"])
def test_a_format_in_a_bucket(gcs: Server, tmp_path: Path, source: str) -> None:
    files(tmp_path)
    gcs.create_bucket("photos")
    for path in tmp_path.rglob("*.*"):
        buckets.create(f"gs://photos/{path.relative_to(tmp_path)}", path)
    remote, images = read_source(f"gs://photos/{source}")
    local, expected = read_source(str(tmp_path / source))
    assert sorted(images) == sorted(expected)
    assert len(images) > 1
    assert (remote.kind, remote.counts, remote.classes) == (local.kind, local.counts, local.classes)
    assert remote.stored == local.stored
