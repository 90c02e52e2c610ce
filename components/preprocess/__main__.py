"""python -m components.preprocess"""

import gc
import os

from components.core.stage import cli

if __name__ == "__main__":
    # Before NumPy is imported: its idle threads would spin, and take time from other work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000)  # by default, lists of ten thousand files are scanned for every 700 objects
    raise SystemExit(cli.main("preprocess"))
