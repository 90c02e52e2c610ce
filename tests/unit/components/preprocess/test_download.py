"""Downloading from a real server on this machine, and from none."""

from pathlib import Path
from typing import Any

import pytest

from components.core.errors import DataError, TransientError
from components.preprocess import download
from tests.fakes import http


class Files(http.Server):
    """Serves the files of a folder; if they are to be cut, it hangs up in the middle of each."""

    def __init__(self, folder: Path, cut: bool = False) -> None:
        super().__init__()
        self.folder, self.cut = folder, cut

    def answer(self, request: http.Request) -> http.Answer:
        path = self.folder / request.path.lstrip("/")
        return http.Answer(200, path.read_bytes(), cut=self.cut) if path.is_file() else http.Answer(404)


def test_official_files_are_downloaded_once(fashion_mnist: Path, tmp_path: Path) -> None:
    with http.serving(Files(fashion_mnist)) as server:
        folder = download.fashion_mnist(tmp_path, server.url)
        assert sorted(path.name for path in folder.iterdir()) == sorted(download.FASHION_MNIST_MD5)
        for path in folder.iterdir():
            assert path.read_bytes() == (fashion_mnist / path.name).read_bytes()
        assert download.fashion_mnist(tmp_path, "http://127.0.0.1:9") == folder  # no server is needed again
        (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
        download.fashion_mnist(tmp_path, server.url)
    assert (folder / "t10k-labels-idx1-ubyte.gz").stat().st_size == 5148


@pytest.mark.parametrize(
    ("content", "cut", "kind", "message"),
    [
        (b"something else", False, DataError, "MD5 6c7ba9c5a141421e1c03cb9807c97c74, published is 8d4fb7e6c68d"),
        (None, False, TransientError, "HTTP Error 404"),
        (b"something else", True, (DataError, TransientError), "train-images"),
    ],
)
def test_what_is_not_the_published_file_is_refused_and_not_kept(
    tmp_path: Path, content: bytes | None, cut: bool, kind: Any, message: str
) -> None:
    if content is not None:
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with http.serving(Files(tmp_path, cut)) as server, pytest.raises(kind, match=message):
        download.fashion_mnist(tmp_path / "kept", server.url)
    assert not list((tmp_path / "kept").rglob("*.gz"))
