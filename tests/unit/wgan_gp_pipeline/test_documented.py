"""docs/library.md names every public name, and no other."""

import re
from pathlib import Path

from wgan_gp_pipeline import data, metrics, training

PAGE = Path(__file__).parents[3] / "docs" / "library.md"


def test_the_page_lists_every_public_name() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == {*training.__all__, *metrics.__all__, *data.__all__}
