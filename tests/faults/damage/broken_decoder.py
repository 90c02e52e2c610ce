"""A decoder that really crashes, hangs or takes all memory."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image, PngImagePlugin

from components.core.artifacts.datasets import ImageShape
from components.core.data.pixels import Decoded, UndecodableImage
from components.preprocess.decode import pool
from tests.faults.damage.image_cases import saved

SHAPE = ImageShape(6, 5, 3)
FAULTS = """
import ctypes, json, os, sys, time
import numpy
from PIL import PngImagePlugin

load = PngImagePlugin.PngImageFile.load_prepare

def load_prepare(self):
    match self.info.get("nonfinite"):
        case "segfault":
            ctypes.string_at(0)
        case "exit":
            os._exit(3)
        case "loop":
            while True:
                pass
        case "sleep":
            time.sleep(1000)
        case "wait":
            while not os.path.exists(os.environ["ONCE"]):
                time.sleep(0.01)
        case "memory":
            memory = [numpy.empty(50 << 20, numpy.uint8) for _ in range(1000)]  # not touched, so that it takes no time
        case "nonsense":
            os.write(json.loads(sys.argv[1])[1], bytes([9] * 100))
            os._exit(0)
        case "too many pixels":
            answer = b'[false]' + bytes([10]) + bytes(1 << 16)
            os.write(json.loads(sys.argv[1])[1], len(answer).to_bytes(4, "big") + answer)
        case "once" if not os.path.exists(os.environ["ONCE"]):
            open(os.environ["ONCE"], "w").close()
            os.abort()
    return load(self)

PngImagePlugin.PngImageFile.load_prepare = load_prepare
"""
# The reason for an image that causes each fault.
REASONS = {
    "segfault": "SIGSEGV",
    "exit": "exit status 3",
    "loop": "1 s of processor",
    "memory": "512 MiB",
    "nonsense": "garbage",
    "too many pixels": "garbage",
}


@contextlib.contextmanager
def broken_decoder(folder: Path) -> Iterator[None]:
    """Break decoders for images that request it; the file `folder/once` records that one did, and ends waiting."""
    _end_idle()
    (folder / "faulty").mkdir()
    (folder / "faulty" / "sitecustomize.py").write_text(FAULTS)
    environment = {"PYTHONPATH": str(folder / "faulty"), "ONCE": str(folder / "once")}
    with mock.patch.dict(os.environ, environment), mock.patch.multiple(pool, MEMORY=512 << 20, PROCESSOR_SECONDS=1):
        try:
            yield
        finally:
            _end_idle()


def _end_idle() -> None:
    while pool._idle:
        pool._idle.pop().end()


def decode(
    contents: Sequence[bytes], shape: ImageShape = SHAPE, resize: str = "fill"
) -> list[Decoded | UndecodableImage]:
    ((_, decoded),) = pool.decode_all([(None, contents)], shape, resize, processes=1)
    return decoded


def png(seed: int, fault: str = "", shape: ImageShape = SHAPE) -> bytes:
    """Return a PNG file of noise that causes a fault, or none."""
    values = np.random.default_rng(seed).integers(0, 256, (shape.height, shape.width, 3), np.uint8)
    words = PngImagePlugin.PngInfo()
    if fault:
        words.add_text("nonfinite", fault)
    return saved(Image.fromarray(values), pnginfo=words)
