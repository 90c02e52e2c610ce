"""The counts of a soak as tables, and as docs/reliability.md, which is written by nothing else."""

from collections.abc import Mapping
from typing import Any

_RULE = "| --- | ---: | ---: | ---: |"

HEAD = """# Reliability, in counts

`make soak` wrote this file; docs/reliability.json has the same numbers. *Tried* are the cases, *fired* those in which
the fault did happen, as strace, the kernel or the process's end shows, *violations* those after which something was
lost, mixed, taken for what it was not, or said in a way that no user can act on. What each fault is, and what must hold
after it, stands at the head of the files in tests/faults/.
"""
MUTANTS = """
## Broken variants

The same faults under code that is broken on purpose. *Caught* are the cases that found it out: were it none of them,
the tests above would show nothing.
"""


def numbers(parts: dict[str, Any], mutants: dict[str, Any], libraries: Mapping[str, str]) -> dict[str, Any]:
    """What docs/reliability.json keeps of what was found: of violations and catches their number.

    What they were stands in build/soak/, with places of one machine.

    Args:
        parts: By name, what build/soak/ holds of each: `kills`, `seed`, and counts by kind.
        mutants: Counts by broken variant.
        libraries: What it was made with.
    """
    return {
        "parts": {name: {**part, "kinds": _numbers(part["kinds"])} for name, part in parts.items()},
        "mutants": {
            name: {"cases": count["tried"], "caught": len(count["violations"])} for name, count in mutants.items()
        },
        "libraries": dict(libraries),
    }


def _numbers(kinds: dict[str, Any]) -> dict[str, Any]:
    return {kind: {**count, "violations": len(count["violations"])} for kind, count in kinds.items()}


def total(kinds: dict[str, dict[str, int]], what: str) -> int:
    """The sum over all kinds of a part."""
    return sum(count[what] for count in kinds.values())


def as_markdown(found: dict[str, Any]) -> str:
    """docs/reliability.md.

    Args:
        found: What docs/reliability.json holds, made by `numbers`.
    """
    parts = found["parts"]
    libraries = ", ".join(f"{name} {version}" for name, version in found["libraries"].items())
    lines = [HEAD, f"Made with {libraries}.", "", "| fault | tried | fired | violations |", _RULE]
    lines += [_row(name, part["kinds"]) for name, part in parts.items()]
    for name, part in parts.items():
        command = f'python -m tests.faults.soak --kills {part["kills"]} --seed {part["seed"]} --part "{name}"'
        lines += ["", f"## {name[0].upper()}{name[1:]}", "", f"`{command}`", ""]
        lines += ["| of | tried | fired | violations |", _RULE]
        lines += [_row(kind, {kind: count}) for kind, count in part["kinds"].items()]
    lines += [MUTANTS, "| variant | cases | caught |", "| --- | ---: | ---: |"]
    lines += [f"| {mutant} | {count['cases']:,} | {count['caught']:,} |" for mutant, count in found["mutants"].items()]
    return "\n".join(lines) + "\n"


def as_table(found: dict[str, Any]) -> str:
    """The summary on the screen.

    Args:
        found: What `numbers` made.
    """
    lines = [f"{'fault':36} {'tried':>8} {'fired':>8} {'violations':>10}"]
    for name, part in found["parts"].items():
        tried, fired, violations = (total(part["kinds"], what) for what in ("tried", "fired", "violations"))
        lines.append(f"{name:36} {tried:8,} {fired:8,} {violations:10,}")
    lines += ["", f"{'broken variant':36} {'cases':>8} {'caught':>8}"]
    lines += [f"{mutant:36} {count['cases']:8,} {count['caught']:8,}" for mutant, count in found["mutants"].items()]
    return "\n".join(lines)


def _row(name: str, kinds: dict[str, dict[str, Any]]) -> str:
    counts = [f"{total(kinds, what):,}" for what in ("tried", "fired", "violations")]
    return f"| {name} | {' | '.join(counts)} |"
