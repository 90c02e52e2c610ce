"""Downloading from a real server on this machine, and from none."""

import functools
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core.errors import DataError, TransientError
from components.preprocess import download


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files; says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        pass


class CutHandler(QuietHandler):
    """Promises a thousand bytes, sends four, and hangs up."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"four")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(handler: type[QuietHandler], folder: Path = tmp_path) -> str:
        made = functools.partial(handler, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_official_files_are_downloaded_once(serve: Callable[..., str], fashion_mnist: Path, tmp_path: Path) -> None:
    folder = download.fashion_mnist(tmp_path / "kept", serve(QuietHandler, fashion_mnist))
    assert sorted(path.name for path in folder.iterdir()) == sorted(download.FASHION_MNIST_MD5)
    for path in folder.iterdir():
        assert path.read_bytes() == (fashion_mnist / path.name).read_bytes()
    assert download.fashion_mnist(tmp_path / "kept", "http://127.0.0.1:9") == folder  # no server is needed again
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    download.fashion_mnist(tmp_path / "kept", serve(QuietHandler, fashion_mnist))
    assert (folder / "t10k-labels-idx1-ubyte.gz").stat().st_size == 5148


@pytest.mark.parametrize(
    ("handler", "content", "kind", "message"),
    [
        (QuietHandler, b"something else", DataError, "MD5 6c7ba9c5a141421e1c03cb9807c97c74, published is 8d4fb7e6c68d"),
        (QuietHandler, None, TransientError, "HTTP Error 404"),
        (CutHandler, None, (DataError, TransientError), "train-images"),
    ],
)
def test_what_is_not_the_published_file_is_refused_and_not_kept(
    serve: Callable[..., str], tmp_path: Path, handler: Any, content: bytes | None, kind: Any, message: str
) -> None:
    if content is not None:
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(kind, match=message):
        download.fashion_mnist(tmp_path / "kept", serve(handler))
    assert not list((tmp_path / "kept").rglob("*.gz"))


def test_without_a_network_the_message_names_the_sources_that_need_none(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(TransientError, match=r"`digits`.* no network"):
            download.fashion_mnist(tmp_path, address)
