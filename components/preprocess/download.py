"""Download the official Fashion-MNIST files, checked against the sums that their authors publish."""

import hashlib
import logging
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from components.core.errors import DataError, TransientError
from components.core.sources.source_listing import FASHION_MNIST_MD5
from components.core.storage.location import Location, LocationLike

log = logging.getLogger(__name__)

FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_SECONDS_TO_ANSWER = 5
_BLOCK_BYTES = 1 << 20
_SECONDS_BETWEEN_LINES = 3


def fashion_mnist(downloads: LocationLike, url: str = FASHION_MNIST_URL) -> Path:
    """Return the folder of the four official files, and download those that it lacks."""
    location = Location.of(downloads) / "fashion-mnist"
    location.fetch_files(".gz")
    for name, md5 in FASHION_MNIST_MD5.items():
        path = location.path / name
        if path.is_file():
            if _md5(path.read_bytes()) == md5:
                continue
            log.warning("%s is not the published file; downloading it again", path)
        address = f"{url}/{name}"
        log.info("downloading %s", address)
        try:
            with urllib.request.urlopen(address, timeout=_SECONDS_TO_ANSWER) as answer:  # noqa: S310 - a constant http URL
                content, logged = bytearray(), time.monotonic()
                while block := answer.read(_BLOCK_BYTES):
                    content += block
                    if time.monotonic() - logged > _SECONDS_BETWEEN_LINES:
                        log.info("downloaded %.1f MB", len(content) / 1e6)
                        logged = time.monotonic()
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(error, urllib.error.HTTPError):
                reason = str(error)
                error.close()
            alternatives = "`digits`, a folder of IDX files and a folder of images need no network"
            raise TransientError(f"{address} cannot be downloaded: {reason}; {alternatives}") from None
        if _md5(content) != md5:
            raise DataError(f"{address} has MD5 {_md5(content)}, published is {md5}; it was discarded, try again")
        (location / name).write_file(bytes(content))
    return location.path


def _md5(content: bytes | bytearray) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
