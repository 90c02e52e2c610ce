"""Fingerprint and dataset of a folder of images to which 1% was added, against the same from scratch.

    python -m benchmarks.incremental --images 20000

The stages are run as a user runs them, each a process of its own, start and imports included, taking turns. The images
are PNG files of 128x128, made once under `build/bench/incremental`, and lie in the system's cache.
"""

import argparse
import filecmp
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import fashion_mnist, tables
from benchmarks.processes import Turn, measured
from tests.proofs.stages import command

_PLACE = fashion_mnist.BUILD / "incremental"
_SIDE = 128
_DETAIL = 16  # pixels of noise on a side, which are enlarged: files of some kilobytes, as of drawings


def write_images(folder: Path, numbers: range) -> None:
    """Writes those images that are not there yet, a thousand to a class."""
    for number in numbers:
        path = folder / f"class-{number // 1000 % 10}" / f"{number}.png"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = np.random.default_rng(number).integers(0, 256, (_DETAIL, _DETAIL, 3), np.uint8)
            Image.fromarray(noise).resize((_SIDE, _SIDE), Image.Resampling.BICUBIC).save(path)


def _require_same(one: Path, other: Path) -> None:
    shards = sorted(path.name for path in one.glob("*.tfrecord"))
    _, differ, failed = filecmp.cmpfiles(one, other, shards, shallow=False)
    if differ or failed or not shards:
        raise SystemExit(f"the datasets differ: {differ + failed}")


def main() -> None:
    """Measures each way in turn, `--rounds` times, and prints medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000, help="images before 1%% is added")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    source, added = _PLACE / f"images-{given.images}", max(1, given.images // 100)
    shutil.rmtree(_PLACE / "rounds", ignore_errors=True)
    for path in source.glob("new/*"):  # of an earlier benchmark
        path.unlink()
    write_images(source, range(given.images))
    found: dict[tuple[str, str], list[Turn]] = {}

    def note(stage: str, way: str, **settings: object) -> None:
        print(f"{stage} {way}", file=sys.stderr)
        found.setdefault((stage, way), []).append(measured(command(stage, source=source, **settings)))

    for number in range(given.rounds):
        place = _PLACE / "rounds" / str(number)
        index = place / "fingerprints"
        former = place / "datasets"
        note("fingerprint", "before", index=index)
        note("preprocess", "before", dataset=former / "before", source_index=index)
        for each in range(added):
            path = source / "new" / f"{each}.png"
            path.parent.mkdir(exist_ok=True)
            noise = np.random.default_rng(10**9 + number * added + each).integers(0, 256, (_SIDE, _SIDE, 3), np.uint8)
            Image.fromarray(noise).save(path)
        note("fingerprint", "scratch")
        note("fingerprint", "new", index=index)
        note("preprocess", "scratch", dataset=place / "scratch")
        note("preprocess", "new", dataset=former / "new", source_index=index, former_datasets=former)
        _require_same(place / "scratch", former / "new")
        shutil.rmtree(place)
        shutil.rmtree(source / "new")
    rows = []
    for stage in ("fingerprint", "preprocess"):
        turns = {"from scratch": found[stage, "scratch"], "1% new": found[stage, "new"]}
        less = [one.cpu / other.cpu for one, other in zip(*turns.values(), strict=True)]
        for way, made in turns.items():
            seconds, cpu = (statistics.median(turn[of] for turn in made) for of in (0, 1))
            ratio = f"{statistics.median(less):.1f}" if way == "1% new" else ""
            memory = f"{max(turn.mebibytes for turn in made):,.0f}"
            rows.append([f"{stage}, {way}", f"{seconds:.1f}", f"{cpu:.1f}", ratio, memory])
    columns = ["", "seconds", "CPU seconds", "times less CPU", "MiB at most"]
    title = f"{given.images:,} PNG files of {_SIDE}x{_SIDE} and {added:,} new ones"
    tables.show(title, columns, rows, ["both ways gave the same shards, byte for byte"])
    tables.keep(
        "incremental", {"images": given.images, "turns": {" ".join(key): turns for key, turns in found.items()}}
    )


if __name__ == "__main__":
    main()
