"""Artifacts with a bit of each byte flipped and cut at each length, every kind of bad image, decoders that crash."""

from pathlib import Path

import pytest

from tests.faults.damage.bad_images import crash_decoders, decode_each_kind
from tests.faults.damage.corruption import ARTIFACTS, damage_everywhere

# Some bytes here, and every one in `make soak`. One module seals every manifest: every bit of some bytes of one of them
# is enough. The other files are guarded by the sha256 in a manifest.
MANIFESTS = [kind for kind in ARTIFACTS if kind.endswith((".json", "alone", "result"))]
EVERY = {**dict.fromkeys([*MANIFESTS, "source's index"], 7), "shard": 1}


@pytest.mark.parametrize("kind", ARTIFACTS)
def test_no_damage_is_taken_for_what_was_written(kind: str, tmp_path: Path) -> None:
    bits = range(8) if kind == "dataset.json" else ()
    counts = damage_everywhere(kind, tmp_path / "work", EVERY.get(kind, 29), bits)
    assert counts.violations == []
    assert counts.tried == counts.fired > 0


def test_every_kind_of_image_and_every_crash_of_a_decoder(tmp_path: Path) -> None:
    for counts in (decode_each_kind(), crash_decoders(tmp_path)):
        assert counts.violations == []
        assert counts.tried == counts.fired > 0
