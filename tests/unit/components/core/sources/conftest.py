"""A folder of pictures in classes."""

from pathlib import Path

import pytest

from components.core.sources import source_listing


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    folder = tmp_path / "pets"
    for name in ("cats/1.png", "cats/2.JPG", "dogs/3.jpeg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(name.encode())
    return folder


def names(folder: Path) -> list[str]:
    return [file.name for file in source_listing.list_source(str(folder)).files]
