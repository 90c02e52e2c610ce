"""The counts of a soak as tables, and as docs/evidence/reliability.md, which only this writes."""

import textwrap
from collections.abc import Mapping
from typing import Any

_RULE = "| --- | ---: | ---: | ---: |"

HEAD = """# Reliability, in counts

`make soak` writes this file from reliability.json, which also counts by kind. Repeat a part with
`python -m tests.faults.soak --kills 200 --seed 0 --part "stages killed"`. *Tried* counts cases. *Fired* counts those in
which the fault happened, as strace, the kernel or the exit code shows. *Violations* counts those after which something
was lost, mixed up, or reported in a way that no user can act on. The modules of tests/faults/ describe each fault and
what must hold after it.
"""


def numbers(parts: dict[str, Any], libraries: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of docs/evidence/reliability.json from build/soak/: of violations their number.

    Their texts have paths of one machine.
    """
    return {
        "parts": {
            name: {
                **part,
                "kinds": {
                    kind: {**count, "violations": len(count["violations"])} for kind, count in part["kinds"].items()
                },
            }
            for name, part in parts.items()
        },
        "libraries": dict(libraries),
    }


def as_markdown(found: dict[str, Any]) -> str:
    """Return docs/evidence/reliability.md, made of the result of `numbers`."""
    parts = found["parts"]
    libraries = ", ".join(f"{name} {version}" for name, version in found["libraries"].items())
    # A note is written by hand beside outdated figures; the next soak drops it.
    note = [*textwrap.wrap(found["note"], 120), ""] if "note" in found else []
    lines = [HEAD, *note, f"Made with {libraries}.", "", "| fault | tried | fired | violations |", _RULE]
    lines += [_row(name, part["kinds"]) for name, part in parts.items()]
    return "\n".join(lines) + "\n"


def _row(name: str, kinds: dict[str, dict[str, Any]]) -> str:
    counts = (sum(count[what] for count in kinds.values()) for what in ("tried", "fired", "violations"))
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"
