"""Memory and time of the preprocess stage against the number of images, as a table and a plot.

    python -m benchmarks.data.preprocess_sizes --sizes 10000 100000 1000000

Sources are made under `build/bench/sizes`, a few GB for a million: small gray images as IDX files, and as PNG files in
ten folders, each an image of its own. Memory is the most that any process of the stage had at once; the plot is
`docs/images/preprocess-sizes.png`.
"""

import argparse
import itertools
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.lib import fashion_mnist, tables
from benchmarks.lib.processes import Turn, measured
from tests.proofs.stages import command

_FOLDER = fashion_mnist.BUILD / "sizes"
_PLOT = Path("docs") / "images" / "preprocess-sizes.png"
_SIDE = {"IDX files": 28, "PNG files": 8}
_AT_ONCE = 10_000
_LIMIT = 700  # MiB


def blocks(count: int, side: int) -> Iterator[np.ndarray]:
    """Yield images in parts, uint8 [n, side, side], as this process's memory counts as the stage's."""
    for start in range(0, count, _AT_ONCE):
        generator = np.random.default_rng(start)
        yield generator.integers(0, 256, (_AT_ONCE, side, side), np.uint8)[: count - start]


def write_idx(folder: Path, count: int) -> None:
    """Write images and labels as IDX files."""
    side = _SIDE["IDX files"]
    folder.mkdir(parents=True)
    labels = (np.arange(count) % 10).astype(np.uint8)
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + labels.tobytes())
    header = struct.pack(">4B3I", 0, 0, 8, 3, count, side, side)
    with open(folder / "train-images-idx3-ubyte", "wb") as file:
        file.write(header)
        file.writelines(block.data for block in blocks(count, side))


def write_png(folder: Path, count: int) -> None:
    """Write images as PNG files in ten folders."""
    side = _SIDE["PNG files"]
    for label in range(10):
        (folder / f"class-{label}").mkdir(parents=True)
    for number, image in enumerate(itertools.chain.from_iterable(blocks(count, side))):
        Image.fromarray(image).save(folder / f"class-{number % 10}" / f"{number}.png", compress_level=0)


def measure(kind: str, count: int) -> Turn:
    """Run the stage on `count` images of a kind, and measure the whole process."""
    source = _FOLDER / f"{kind[:3].lower()}-{count}"
    if not source.exists():
        aside = source.with_name(f"{source.name}.tmp")
        shutil.rmtree(aside, ignore_errors=True)
        {"IDX files": write_idx, "PNG files": write_png}[kind](aside, count)
        aside.rename(source)
    made = _FOLDER / "made"
    shutil.rmtree(made, ignore_errors=True)
    side = _SIDE[kind]
    words = command("preprocess", source=source, dataset=made, height=side, width=side, color="gray")
    try:
        return measured(words)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def plot(found: dict[str, dict[int, Turn]]) -> None:
    """Draw memory and time against the number of images."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    memory, seconds = figure.subplots(1, 2)
    for kind, turns in found.items():
        memory.semilogx([*turns], [turn.mebibytes for turn in turns.values()], ".-", label=kind)
        seconds.loglog([*turns], [turn.seconds for turn in turns.values()], ".-", label=kind)
    memory.axhline(_LIMIT, color="gray", linestyle=":", label="limit")
    memory.set(xlabel="images", ylabel="MiB at most, of any process", ylim=(0, None))
    seconds.set(xlabel="images", ylabel="seconds")
    memory.legend()
    seconds.legend()
    figure.savefig(_PLOT, dpi=120)


def main() -> None:
    """Measure each size of each kind once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    given = parser.parse_args()
    found: dict[str, dict[int, Turn]] = {}
    rows = []
    for kind in _SIDE:
        for count in given.sizes:
            print(f"{count:,} images as {kind}", file=sys.stderr)
            turn = found.setdefault(kind, {})[count] = measure(kind, count)
            each = 1e6 * turn.seconds / count
            rows.append([f"{count:,} as {kind}", f"{turn.mebibytes:,.0f}", f"{turn.seconds:,.1f}", f"{each:,.0f}"])
    tables.show("The preprocess stage by size", ["images", "MiB at most", "seconds", "microseconds an image"], rows)
    tables.keep("preprocess-sizes", {"turns": found})
    plot(found)


if __name__ == "__main__":
    main()
