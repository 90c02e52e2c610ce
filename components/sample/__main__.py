"""python -m components.sample"""

import sys

from components.core.stage import cli
from components.sample.config import SampleConfig

if __name__ == "__main__":
    sys.exit(cli.main("sample", SampleConfig))
