"""Images decoded in a process of their own, with limits, against the same within the process that asks.

    python -m benchmarks.decoding

Both ways take short turns; seconds are those of processors, of both processes together. The images are made here: noise
enlarged, of the sizes of drawings and of photographs.
"""

import argparse
import io
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import tables
from components.preprocess import decoder, pixels
from components.records import ImageShape

_SHAPE = ImageShape(64, 64, 3)
_AT_ONCE = 100  # as many files as the preprocess stage hands over
_KINDS = (("PNG", 32), ("PNG", 128), ("JPEG", 500))


def image_file(seed: int, kind: str, side: int) -> bytes:
    """An image file of a kind, with so many pixels on a side."""
    noise = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(file, kind)
    return file.getvalue()


def _within(contents: Sequence[bytes]) -> list[bytes]:
    return [pixels.from_file(content, _SHAPE, "fill") for content in contents]


def _apart(contents: Sequence[bytes]) -> list[bytes]:
    found = decoder.decode(contents, _SHAPE, "fill")
    return [image for image in found if isinstance(image, bytes)]


def _processor_seconds() -> float:
    """Of this process and of those that it started, which have not ended yet."""
    children = [pid for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()]
    return (
        time.process_time() + sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in children) / 1e9
    )


def _seconds(decode: Callable[[Sequence[bytes]], list[bytes]], contents: list[bytes]) -> tuple[float, list[bytes]]:
    before, found = _processor_seconds(), []
    for start in range(0, len(contents), _AT_ONCE):
        found += decode(contents[start : start + _AT_ONCE])
    return _processor_seconds() - before, found


def main() -> None:
    """Measures each way in turn, `--rounds` times, and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=25)
    given = parser.parse_args()
    rows = []
    for kind, side in _KINDS:
        contents = [image_file(seed, kind, side) for seed in range(given.images)]
        _apart(contents[:1])  # the process starts once for a whole dataset
        turns = []
        for _ in range(given.rounds):
            within, expected = _seconds(_within, contents)
            apart, found = _seconds(_apart, contents)
            if found != expected:
                raise SystemExit("both ways must give the same pixels")
            turns.append((within, apart))
        rates = [f"{given.images / statistics.median(turn[of] for turn in turns):,.0f}" for of in (0, 1)]
        rows.append([f"{kind} {side}x{side}", *rates, f"{statistics.median(b / a for a, b in turns):.2f}"])
    decoder.end_processes()
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # Linux counts in KiB
    title = f"{given.images:,} images decoded to {_SHAPE}, {os.cpu_count()} cores"
    columns = ["", "images a second within", "apart", "times the seconds"]
    notes = ["both ways gave the same pixels", f"the process took {most:,.0f} MiB at most"]
    tables.show(title, columns, rows, notes)


if __name__ == "__main__":
    main()
