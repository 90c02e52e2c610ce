"""Run every kind of fault, print the counts, and write docs/evidence/reliability.md.

    python -m tests.faults.soak --kills 200 --seed 0

Each part's counts, with every violation, go to build/soak/ as JSON as soon as it ends; docs/evidence/reliability.md is
made of these files.
"""

import argparse
import dataclasses
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

from components.core.stage import provenance
from components.core.storage import atomic_files
from tests.faults.conftest import MEMORY
from tests.faults.soak import parts

ROOT = Path(__file__).parents[3]
BUILD, DOCS = ROOT / "build" / "soak", ROOT / "docs" / "evidence"
_RULE = "| --- | ---: | ---: | ---: |"

HEAD = """# Reliability

`make soak` writes this; `python -m tests.faults.soak --part "stages killed"` repeats a part. *Fired*: the fault
happened. *Violations*: something was lost, mixed up, or reported so that no user can act.
"""


def main() -> int:
    """Return exit code 1 if anything was violated or a fault never fired."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="Kills of stages.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", action="append", help="This part alone, in place of what it counted before.")
    options = parser.parse_args()
    amount = parts.Amount(options.kills, options.seed)
    for name in options.part or parts.PARTS:
        began = time.monotonic()
        print(f"soak: {name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            counts = parts.PARTS[name](amount, Path(folder))
        kinds = {kind: dataclasses.asdict(count) for kind, count in counts.items()}
        atomic_files.write_json(_file_of(name), {**dataclasses.asdict(amount), "kinds": kinds})
        print(f"soak: {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    counted = {name: atomic_files.read_json(_file_of(name), "part") for name in parts.PARTS if _file_of(name).exists()}
    for part in counted.values():
        for count in part["kinds"].values():
            count["violations"] = len(count["violations"])  # their texts have paths of one machine
    numbers = {"parts": counted, "libraries": provenance.library_versions()}
    atomic_files.write_json(DOCS / "reliability.json", numbers)
    text = as_markdown(atomic_files.read_json(DOCS / "reliability.json", "soak's result"))  # in its stored order
    atomic_files.write_file(DOCS / "reliability.md", text.encode())
    print(text)
    wrong = [
        f"{name}: {kind}: {count['violations']} violations, of {count['fired']} that happened; see {BUILD}"
        for name, part in counted.items()
        for kind, count in part["kinds"].items()
        if count["violations"] or not count["fired"]
    ]
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


def as_markdown(result: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name}=={version}" for name, version in result["libraries"].items())
    # A note is written by hand beside outdated figures; the next soak drops it.
    note = [*textwrap.wrap(result["note"], 120), ""] if "note" in result else []
    lines = [HEAD, *note, f"Libraries: {libraries}.", "", "| fault | tried | fired | violations |", _RULE]
    for name, part in result["parts"].items():
        counts = (sum(count[key] for count in part["kinds"].values()) for key in ("tried", "fired", "violations"))
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines) + "\n"


def _file_of(part: str) -> Path:
    return BUILD / f"{part.replace(' ', '-')}.json"


if __name__ == "__main__":
    sys.exit(main())
