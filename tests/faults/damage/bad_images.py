"""Image files that are damaged, hostile or odd: alone, in a source, and decoded by crashing decoders.

Undecodable ones are quarantined for the reason in docs/sources-and-datasets.md, and cost no other image.
"""

import json
from pathlib import Path

import numpy as np

from components.core.artifacts import datasets
from components.core.data import dataset_reader
from components.core.storage import digests
from components.preprocess import run as preprocess
from components.preprocess.config import PreprocessConfig
from components.preprocess.decode.pixels import LARGEST_FILE, Decoded, UndecodableImage
from tests.faults.counts import Counts
from tests.faults.damage import broken_decoder
from tests.faults.damage.corruption import damages
from tests.faults.damage.image_cases import CASES, NOISE, SHAPE, png

_GOOD = 60  # beside the bad images of a source
_WHOLE = [name for name, case in CASES.items() if not isinstance(case.expected, str) and case.expected is not None]


def decode_everything(folder: Path) -> dict[str, Counts]:
    """Try each kind of image, each damage to usable ones, and each failure of a decoder."""
    return {
        "each kind": decode_each_kind(),
        "each kind, in one source": _in_one_source(folder),
        "PNG, cut or flipped at each byte": _damaged([name for name in _WHOLE if name.startswith("PNG")]),
        "JPEG, cut at each byte": _damaged([name for name in _WHOLE if name.startswith("JPEG")], "cut"),
        "WebP, cut at each byte": _damaged([name for name in _WHOLE if name.startswith("WebP")], "cut"),
        "decoder that crashes": crash_decoders(folder),
    }


def decode_each_kind() -> Counts:
    """Try each kind alone, in a decoder's process."""
    counts = Counts()
    for name, case in CASES.items():
        (found,) = broken_decoder.decode([case.make()], SHAPE)
        problem = case.problem(_pixels(found))
        counts.add(True, f"{name}: {problem}" if problem else "")
    return counts


def _in_one_source(folder: Path) -> Counts:
    """Run the stage on all kinds among good images; check its quarantine and the other pixels."""
    source, counts = folder / "source", Counts()
    source.mkdir()
    for number in range(_GOOD):
        (source / f"good-{number:02}.png").write_bytes(png(np.roll(NOISE, number, axis=0), 2))
    # Under misleading names, and in the order of the table.
    files = {f"case-{number:02}.png": case for number, case in enumerate(CASES.values())}
    for name, case in files.items():
        (source / name).write_bytes(case.make())
    dataset = folder / "dataset"
    height, width = SHAPE.height, SHAPE.width
    given = PreprocessConfig(source=str(source), dataset=str(dataset), height=height, width=width, bad_images_limit=0.5)
    preprocess.run(given)
    manifest = datasets.Manifest.of(str(dataset))
    lines = (dataset / preprocess.QUARANTINE).read_text(encoding="utf-8").splitlines()
    aside = {entry["name"]: entry for entry in map(json.loads, lines)}
    kept = [image for split in datasets.SPLITS for image in dataset_reader.load_split(str(dataset), manifest, split)[0]]
    for name, case in files.items():
        if isinstance(case.expected, str):
            entry = aside.pop(name, {"reason": "it is not quarantined", "sha256": ""})
            problem = case.problem(UndecodableImage(entry["reason"]))
            is_read = (source / name).stat().st_size <= LARGEST_FILE
            if not problem and entry["sha256"] != (digests.sha256_of_file(source / name) if is_read else ""):
                problem = "the list has another sha256"
        else:
            problem = "" if any(not case.problem(image) for image in kept) else "its pixels are not in the dataset"
        counts.add(True, f"{name}: {problem}" if problem else "")
    used = sum(not isinstance(case.expected, str) for case in CASES.values())
    if aside or len(kept) != _GOOD + used:
        counts.violations.append(f"{len(kept)} images are kept; quarantined are also {sorted(aside)}")
    return counts


def _damaged(names: list[str], kind: str = "") -> Counts:
    """Try damage to whole files, none of which may be used; `kind` is the prefix of the damage's description."""
    counts = Counts()
    for name in names:
        content = CASES[name].make()
        chosen = [(damage, left) for damage, left in damages(content) if damage.startswith(kind)]
        found = broken_decoder.decode([left for _, left in chosen], SHAPE)
        for (damage, left), each in zip(chosen, found, strict=True):
            counts.add(left != content, "" if isinstance(each, UndecodableImage) else f"{name}, {damage}: it is used")
    return counts


def crash_decoders(folder: Path) -> Counts:
    """Try each failure among good images, which must be unaffected."""
    counts = Counts()
    with broken_decoder.broken_decoder(folder):
        good = [broken_decoder.png(number) for number in range(4)]
        wanted = broken_decoder.decode(good)
        for fault, reason in broken_decoder.REASONS.items():
            batch = [*good[:2], broken_decoder.png(9, fault), *good[2:]]
            found = broken_decoder.decode(batch)
            failed = found.pop(2)
            problem = "" if found == wanted else "it cost another image"
            counts.add(reason in str(failed), f"{fault}: {problem}" if problem else "")
    return counts


def _pixels(found: Decoded | UndecodableImage) -> np.ndarray | UndecodableImage:
    if isinstance(found, UndecodableImage):
        return found
    return np.frombuffer(found.pixels, np.uint8).reshape(SHAPE.height, SHAPE.width, SHAPE.channels)
