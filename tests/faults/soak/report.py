"""The counts of a soak as tables, and as docs/evidence/reliability.md, which only this writes."""

import textwrap
from collections.abc import Mapping
from typing import Any

_RULE = "| --- | ---: | ---: | ---: |"

HEAD = """# Reliability

`make soak` writes this; `python -m tests.faults.soak --part "stages killed"` repeats a part. *Fired*: the fault
happened. *Violations*: something was lost, mixed up, or reported so that no user can act.
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


def as_markdown(result: dict[str, Any]) -> str:
    """Return docs/evidence/reliability.md, made of the result of `numbers`."""
    parts = result["parts"]
    libraries = ", ".join(f"{name}=={version}" for name, version in result["libraries"].items())
    # A note is written by hand beside outdated figures; the next soak drops it.
    note = [*textwrap.wrap(result["note"], 120), ""] if "note" in result else []
    lines = [HEAD, *note, f"Libraries: {libraries}.", "", "| fault | tried | fired | violations |", _RULE]
    lines += [_row(name, part["kinds"]) for name, part in parts.items()]
    return "\n".join(lines) + "\n"


def _row(name: str, kinds: dict[str, dict[str, Any]]) -> str:
    counts = (sum(count[key] for count in kinds.values()) for key in ("tried", "fired", "violations"))
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |"
