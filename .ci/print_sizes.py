"""Print the lines of Python in each folder against its budget in docs/architecture.md."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines_by_file() -> dict[str, int]:
    """Return the number of lines of each Python file that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name: len((ROOT / name).read_bytes().splitlines()) for name in listed.stdout.split("\0") if name}


def main() -> None:
    """Print a line for each row of the table."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    budgets = re.findall(r"^\| `([\w/]+/)`[^|]* \| +([\d,]+) \|$", page, re.MULTILINE)
    files = lines_by_file()
    for folder, budget in budgets:
        lines = sum(count for name, count in files.items() if name.startswith(folder))
        most = int(budget.replace(",", ""))
        print(f"{folder:24} {lines:7,} of {most:7,}{f'  OVER by {lines - most:,}' if lines > most else ''}")


if __name__ == "__main__":
    main()
