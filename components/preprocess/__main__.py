"""python -m components.preprocess"""

import os
import sys

from components import cli
from components.preprocess.config import PreprocessConfig

if __name__ == "__main__":
    # Before NumPy is imported: its threads wait for their next product at full speed, and take time from other work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(cli.main("preprocess", PreprocessConfig))
