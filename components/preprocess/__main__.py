"""python -m components.preprocess"""

import sys

from components import cli
from components.preprocess.config import PreprocessConfig

if __name__ == "__main__":
    sys.exit(cli.main("preprocess", PreprocessConfig))
