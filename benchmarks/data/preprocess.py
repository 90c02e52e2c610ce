"""The preprocess stage against a plain loop: the same images, whole processes.

    python -m benchmarks.data.preprocess --rounds 5 --files 50000

Start and imports included. The contenders take turns, every other round in reverse. Sources are the real Fashion-MNIST
as IDX files, PNG and JPEG files of mixed sizes, and photos of 1 to 12 megapixels, which are made once under
`build/bench/preprocess`. Each turn begins with the source in the system's cache.
"""

import argparse
import math
import os
import shutil
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from PIL import Image

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.processes import Turn, measured
from tests.proofs.stages import command

_FOLDER = fashion_mnist.BUILD / "preprocess"
_SMALLEST, _LARGEST = 32, 160  # pixels on a side
_DETAIL = 16  # pixels of noise on a side, which are enlarged: files of some kilobytes, as of drawings
_OURS, _PLAIN = "preprocess stage", "plain loop"


def write_files(folder: Path, count: int) -> None:
    """Write the missing images: PNG and JPEG alternately, in ten classes, of mixed sizes."""

    def drawn(number: int, generator: np.random.Generator) -> Image.Image:
        noise = generator.integers(0, 256, (_DETAIL, _DETAIL, 3), np.uint8)
        width, height = generator.integers(_SMALLEST, _LARGEST, 2)
        return Image.fromarray(noise).resize((int(width), int(height)), Image.Resampling.BICUBIC)

    for number in range(count):
        _write_once(folder, number, ("png", "jpg")[number // 10 % 2], drawn)


def write_photos(folder: Path, count: int) -> None:
    """Write the missing JPEG files: crops of scikit-learn's two photos, enlarged, with noise."""
    photos = [Image.fromarray(photo) for photo in sklearn.datasets.load_sample_images().images]

    def drawn(number: int, generator: np.random.Generator) -> Image.Image:
        photo, share = photos[number % 2], generator.uniform(0.5, 1)
        width, height = int(share * photo.width), int(share * photo.height)
        left, top = map(int, generator.integers((photo.width - width + 1, photo.height - height + 1)))
        scale = math.sqrt(generator.uniform(1e6, 12e6) / (width * height))
        box = (left, top, left + width, top + height)
        enlarged = photo.resize((round(scale * width), round(scale * height)), Image.Resampling.BICUBIC, box)
        noisy = np.asarray(enlarged) + generator.integers(-8, 9, (enlarged.height, enlarged.width, 1))
        return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))

    for number in range(count):
        _write_once(folder, number, "jpg", drawn, quality=90)


def _write_once(
    folder: Path, number: int, suffix: str, drawn: Callable[[int, np.random.Generator], Image.Image], **options: Any
) -> None:
    """Write the image of an index, in one of ten classes, unless it exists."""
    path = folder / f"class-{number % 10}" / f"{number}.{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".tmp.{suffix}")
        drawn(number, np.random.default_rng(number)).save(temporary, **options)
        temporary.replace(path)


def compare(title: str, source: Path, rounds: int) -> None:
    """Measure both contenders on a source, `rounds` times, and print medians."""
    location = _FOLDER / "made"
    plain = [sys.executable, "-m", "benchmarks.data.plain_preprocess", str(source), str(location / "plain")]
    contenders = {_OURS: command("preprocess", source=source, dataset=location / "ours"), _PLAIN: plain}
    turns: dict[str, list[Turn]] = {name: [] for name in contenders}
    for number in range(rounds):
        shutil.rmtree(location, ignore_errors=True)
        location.mkdir(parents=True)
        for name in contenders if number % 2 == 0 else reversed(contenders):
            print(f"{title}, round {number + 1} of {rounds}: {name}", file=sys.stderr)
            for path in filter(Path.is_file, source.rglob("*")):  # which the system caches
                path.read_bytes()
            turns[name].append(measured(contenders[name]))
            shutil.rmtree(location / "ours", ignore_errors=True)
    rows = []
    for name, series in turns.items():
        seconds, cpu = (statistics.median(turn[field] for turn in series) for field in (0, 1))
        ratio = statistics.median(plain.seconds / own.seconds for plain, own in zip(turns[_PLAIN], series, strict=True))
        most = max(turn.mebibytes for turn in series)
        rows.append([name, f"{seconds:.1f}", f"{cpu:.1f}", f"{ratio:.2f}", f"{most:,.0f}"])
    columns = ["", "seconds", "CPU seconds", "x plain loop", "MiB at most"]
    tables.show(f"{title}, {os.cpu_count()} cores", columns, rows, ["x: times as fast, the median over the rounds"])
    tables.keep(f"preprocess-{title.split(' ')[0]}", {"turns": turns})


def main() -> None:
    """Compare both on each source."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=50_000, help="PNG and JPEG files; 0 leaves them out")
    parser.add_argument("--photos", type=int, default=2_000, help="large JPEG files, some 3 GB; 0 leaves them out")
    options = parser.parse_args()
    idx = os.environ.get("FASHION_MNIST_DIR")
    if idx:
        compare("Fashion-MNIST from IDX files", Path(idx), options.rounds)
    else:
        print("Fashion-MNIST left out: set FASHION_MNIST_DIR to the folder of its four files (*-ubyte.gz)")
    if options.files:
        source = _FOLDER / f"files-{options.files}"
        write_files(source, options.files)
        compare(f"{options.files:,} PNG and JPEG files to 64x64x3", source, options.rounds)
    if options.photos:
        source = _FOLDER / f"photos-{options.photos}"
        write_photos(source, options.photos)
        compare(f"{options.photos:,} photos of 1 to 12 megapixels to 64x64x3", source, options.rounds)


if __name__ == "__main__":
    main()
