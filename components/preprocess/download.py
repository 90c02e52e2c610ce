"""Downloading the official Fashion-MNIST files, checked against the sums that their authors publish."""

import hashlib
import logging
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from components import places, storage
from components.errors import DataError, TransientError
from components.sources import FASHION_MNIST_MD5

log = logging.getLogger(__name__)

FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_SECONDS_TO_ANSWER = 5
_BLOCK_BYTES = 1 << 20
_SECONDS_BETWEEN_LINES = 3


def fashion_mnist(downloads: Path, url: str = FASHION_MNIST_URL) -> Path:
    """The folder of the four official files; those that are not kept there yet are downloaded.

    Args:
        downloads: Folder under which downloads are kept.
        url: Where the files are.

    Raises:
        TransientError: The server does not answer within seconds, or breaks off.
        DataError: What it sends has another MD5 sum than the published one.
    """
    folder = downloads / "fashion-mnist"
    places.fetch_files(folder, ".gz")
    for name, md5 in FASHION_MNIST_MD5.items():
        path = folder / name
        if path.is_file():
            if _md5(path.read_bytes()) == md5:
                continue
            log.warning("%s is not the published file; downloading it again", path)
        address = f"{url}/{name}"
        content = _get(address)
        if _md5(content) != md5:
            raise DataError(f"{address} has MD5 {_md5(content)}, published is {md5}; nothing was kept, try again")
        storage.write_file(path, content)
        places.send_file(path)
    return folder


def _get(address: str) -> bytes:
    log.info("downloading %s", address)
    content, told = bytearray(), time.monotonic()
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS_TO_ANSWER) as answer:  # noqa: S310 - a constant http URL
            while block := answer.read(_BLOCK_BYTES):
                content += block
                if time.monotonic() - told > _SECONDS_BETWEEN_LINES:
                    log.info("downloaded %.1f MB", len(content) / 1e6)
                    told = time.monotonic()
    except urllib.error.HTTPError as error:
        error.close()
        raise _failed(address, error) from None
    except (OSError, HTTPException) as error:
        raise _failed(address, getattr(error, "reason", error)) from None
    return bytes(content)


def _failed(address: str, reason: object) -> TransientError:
    alternatives = "`digits`, a folder of IDX files and a folder of images need no network"
    return TransientError(f"{address} cannot be downloaded: {reason}; {alternatives}")


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
