"""python -m components.train"""

import sys

from components.core.stage import cli
from components.train.config import TrainConfig

if __name__ == "__main__":
    sys.exit(cli.main("train", TrainConfig))
