"""Run a proof, which takes too long for the tests: `make prove NAME=replicas`. docs/verification.md keeps the results.

A proof is a module of this folder. Its `prove(options)` prints what it measures and returns what is wrong.
"""

import argparse
import importlib
import sys
from pathlib import Path

NAMES = sorted({path.stem for path in Path(__file__).parent.glob("[a-z]*.py")} - {"stages"})


def main() -> int:
    """Run the proof; 1 if something is wrong, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    source = "folder of Fashion-MNIST's files; downloads by default"
    parser.add_argument("--source", default="fashion-mnist", help=source)
    reused = "folder for artifacts, which are reused"
    parser.add_argument("--root", type=Path, default=Path("build/proofs"), help=reused)
    parser.add_argument("--base", default="HEAD~1", help="commit to compare with (previous_commit)")
    parser.add_argument("--announced", action="append", default=[], metavar="GLOB", help="differences that are meant")
    parser.add_argument("--turns", type=int, default=0, help="compare time and memory of each stage instead")
    options = parser.parse_args()
    wrong = importlib.import_module(f"tests.proofs.{options.name}").prove(options)
    for line in wrong:
        print(f"not as it should be: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
