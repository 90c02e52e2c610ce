"""A refused Parquet file ends the stage with 65, in each of 500 starts beside two busy processes.

`make prove NAME=parquet_exit` prints how often each exit code came. While a thread of pyarrow read files, the end of a
process met it now and then, and SIGABRT (-6) came instead.
"""

import collections
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet

from components.core import errors

STARTS = 500
_BUSY = 2


def main() -> int:
    """Print the exit codes with their counts; 0 if all are 65, else 1."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "train.parquet")
        columns = {"image": [bytes(500)] * 40, "label": [-1, *range(39)]}  # refused for the image without a label
        pyarrow.parquet.write_table(pyarrow.table(columns), source)
        flags = ["--source", str(source), "--dataset", str(Path(folder, "dataset"))]
        start = [sys.executable, "-m", "components.preprocess", *flags]
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_BUSY)]
        try:
            ended = [subprocess.run(start, stderr=subprocess.DEVNULL, check=False).returncode for _ in range(STARTS)]
        finally:
            for process in busy:
                process.kill()
                process.wait()
    codes = collections.Counter(ended)
    print(", ".join(f"{count:,} times {code}" for code, count in codes.items()))
    return int(codes.keys() != {errors.BAD_DATA})


if __name__ == "__main__":
    sys.exit(main())
