"""python -m components NAME --flags: a stage or another program (`components.core.stage.cli`)."""

import gc
import os
import sys

from components.core import errors, stages
from components.core.stage import cli


def main(words: list[str]) -> int:
    """Run the program that the first word names with the others, and return the exit code."""
    name, *flags = words or [""]
    if name not in stages.PROGRAMS:
        usage = f"usage: python -m components NAME --flags; NAME is one of {', '.join(stages.PROGRAMS)}"
        if name in ("-h", "--help"):
            print(usage)
            return errors.OK
        print(f"{name!r} is no program\n{usage}" if name else usage, file=sys.stderr)
        return errors.BAD_CONFIGURATION
    if name == "preprocess":
        # Before NumPy is imported: its idle threads would spin, and take time from other work.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        gc.set_threshold(50_000)  # by default, lists of ten thousand files are scanned for every 700 objects
    return cli.main(name, flags)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
