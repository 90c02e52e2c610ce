"""python -m components.preprocess"""

import gc
import os

from components.core.stage import cli

if __name__ == "__main__":
    # Before NumPy is imported: its threads wait for their next product at full speed, and take time from other work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000)  # lists of ten thousand files would be looked through for each seven hundred
    raise SystemExit(cli.main("preprocess"))
