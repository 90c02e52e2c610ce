"""Runs every kind of fault for as long as it takes, prints what was counted, and writes docs/reliability.md.

    python -m tests.soak --kills 200 --seed 0

Each part's counts, with every violation, go to build/soak/ as JSON as soon as it ends.
"""

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components import lineage, storage
from tests.faults.conftest import MEMORY
from tests.faults.corruption import NOT_SEALED
from tests.faults.counts import Counts
from tests.soak import parts, report

ROOT = Path(__file__).parents[2]
BUILD, DOCS = ROOT / "build" / "soak", ROOT / "docs"


def main() -> int:
    """Exit code 1 if anything was violated, a fault never fired, or a broken variant was not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="Kills of stages.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", action="append", help="This part alone, without docs: see tests/soak/parts.py.")
    given = parser.parse_args()
    amount, found = parts.Amount(given.kills, given.seed), {}
    for name in given.part or parts.PARTS:
        began = time.monotonic()
        print(f"soak: {name} ...", file=sys.stderr, flush=True)
        found[name] = _counted(name, functools.partial(parts.PARTS[name], amount))
        print(f"soak: {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    result = {
        "kills": given.kills,
        "seed": given.seed,
        "libraries": lineage.library_versions(),
        "parts": found,
        "not_guarded": list(NOT_SEALED),
        "mutants": _counted("mutants", parts.mutants),
    }
    numbers = report.numbers(result)
    print(report.as_table(numbers))
    if not given.part:
        storage.write_json(DOCS / "reliability.json", numbers)
        storage.write_file(DOCS / "reliability.md", report.as_markdown(numbers).encode())
    return _complain(numbers)


def _counted(name: str, part: Callable[[Path], dict[str, Counts]]) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        counts = {kind: count.to_json() for kind, count in part(Path(folder)).items()}
    storage.write_json(BUILD / f"{name.replace(' ', '-')}.json", counts)
    return counts


def _complain(numbers: dict[str, Any]) -> int:
    """Says what is wrong with the counts; returns the exit code."""
    wrong = [
        f"{name}: {kind}: {count['violations']} violations, of {count['fired']} that happened; see {BUILD}"
        for name, kinds in numbers["parts"].items()
        for kind, count in kinds.items()
        if count["violations"] or not count["fired"]
    ]
    wrong += [f"not caught: {mutant}" for mutant, count in numbers["mutants"].items() if not count["caught"]]
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
