"""Image files that are damaged, hostile or odd, and decoded by crashing decoders.

Undecodable ones are quarantined for the reason in docs/sources-and-datasets.md, and cost no other image.
"""

from pathlib import Path

import numpy as np

from components.core.data.pixels import Decoded, UndecodableImage
from tests.faults.counts import Counts
from tests.faults.damage import broken_decoder
from tests.faults.damage.corruption import damages
from tests.faults.damage.image_cases import CASES, SHAPE

_WHOLE = [name for name, case in CASES.items() if not isinstance(case.expected, str) and case.expected is not None]


def decode_everything(folder: Path) -> dict[str, Counts]:
    """Try each kind of image, each damage to usable ones, and each failure of a decoder."""
    return {
        "each kind": decode_each_kind(),
        "PNG, cut or flipped at each byte": _damaged([name for name in _WHOLE if name.startswith("PNG")]),
        "JPEG, cut at each byte": _damaged([name for name in _WHOLE if name.startswith("JPEG")], "cut"),
        "WebP, cut at each byte": _damaged([name for name in _WHOLE if name.startswith("WebP")], "cut"),
        "decoder that crashes": crash_decoders(folder),
    }


def decode_each_kind() -> Counts:
    """Try each kind alone, in a decoder's process."""
    counts = Counts()
    for name, case in CASES.items():
        (decoded,) = broken_decoder.decode([case.make()], SHAPE)
        if isinstance(decoded, Decoded):
            problem = case.problem(np.frombuffer(decoded.pixels, np.uint8).reshape(16, 16, 3))
        else:
            problem = case.problem(decoded)
        counts.add(True, f"{name}: {problem}" if problem else "")
    return counts


def _damaged(names: list[str], kind: str = "") -> Counts:
    """Try damage to whole files, none of which may be used; `kind` is the prefix of the damage's description."""
    counts = Counts()
    for name in names:
        content = CASES[name].make()
        chosen = [(damage, left) for damage, left in damages(content) if damage.startswith(kind)]
        results = broken_decoder.decode([left for _, left in chosen], SHAPE)
        for (damage, left), result in zip(chosen, results, strict=True):
            counts.add(left != content, "" if isinstance(result, UndecodableImage) else f"{name}, {damage}: it is used")
    return counts


def crash_decoders(folder: Path) -> Counts:
    """Try each failure among good images, which must be unaffected."""
    counts = Counts()
    with broken_decoder.broken_decoder(folder):
        good = [broken_decoder.png(number) for number in range(4)]
        wanted = broken_decoder.decode(good)
        for fault, reason in broken_decoder.REASONS.items():
            batch = [*good[:2], broken_decoder.png(9, fault), *good[2:]]
            results = broken_decoder.decode(batch)
            failed = results.pop(2)
            problem = "" if results == wanted else "it cost another image"
            counts.add(reason in str(failed), f"{fault}: {problem}" if problem else "")
    return counts
