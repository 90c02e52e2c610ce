"""A refused Parquet file ends the stage with 65, in each of 500 starts beside two busy processes.

While a thread of pyarrow read files, the end of a process met it now and then, and SIGABRT (-6) came instead.
"""

import argparse
import collections
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet

from components.core import errors
from tests.proofs.stages import command

STARTS = 500
_BUSY = 2


def prove(options: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "train.parquet")
        columns = {"image": [bytes(500)] * 40, "label": [-1, *range(39)]}  # refused for the image without a label
        pyarrow.parquet.write_table(pyarrow.table(columns), source)
        start = command("preprocess", source=source, dataset=Path(folder, "dataset"))
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_BUSY)]
        try:
            ended = [subprocess.run(start, stderr=subprocess.DEVNULL, check=False).returncode for _ in range(STARTS)]
        finally:
            for process in busy:
                process.kill()
                process.wait()
    counts = collections.Counter(ended)
    print(f"{counts[errors.BAD_DATA]} of {STARTS} starts ended with {errors.BAD_DATA}")
    return [f"{count} ended with {code}" for code, count in counts.items() if code != errors.BAD_DATA]
