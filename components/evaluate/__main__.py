"""python -m components.evaluate"""

import sys

from components import cli
from components.evaluate.config import EvaluateConfig

if __name__ == "__main__":
    sys.exit(cli.main("evaluate", EvaluateConfig))
