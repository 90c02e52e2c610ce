"""docs/evidence/reliability.md is generated from the numbers beside it, not typed."""

from pathlib import Path

from components.core.storage import atomic_files
from tests.faults.soak import parts, report

DOCS = Path(__file__).parents[3] / "docs" / "evidence"
PARTS = {
    "stages killed": {"kills": 1, "seed": 0, "kinds": {"train": {"tried": 2000, "fired": 3, "violations": ["lost"]}}}
}
MUTANTS = {"no sync": {"tried": 9, "fired": 9, "violations": ["a", "b"]}}


def test_the_document_is_what_the_numbers_say() -> None:
    numbers = atomic_files.read_json(DOCS / "reliability.json", "soak's result")
    assert (DOCS / "reliability.md").read_text(encoding="utf-8") == report.as_markdown(numbers)
    counts = [count for part in numbers["parts"].values() for count in part["kinds"].values()]
    assert all(count["violations"] == 0 and count["fired"] > 0 for count in counts)
    assert numbers["parts"].keys() == parts.PARTS.keys()
    assert all(count["caught"] > 0 for count in numbers["mutants"].values())


def test_counts_are_shown() -> None:
    numbers = report.numbers(PARTS, MUTANTS, {"python": "3.11"})
    assert "| no sync | 9 | 2 |" in report.as_markdown(numbers)
    assert "| stages killed | 2,000 | 3 | 1 |" in report.as_markdown(numbers)
