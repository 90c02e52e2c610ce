"""python -m components.decide"""

import sys

from components.core.stage import cli
from components.decide.config import DecideConfig

if __name__ == "__main__":
    sys.exit(cli.main("decide", DecideConfig))
