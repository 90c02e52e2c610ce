"""python -m components.record"""

import sys

from components.core.stage import cli
from components.record.config import RecordConfig

if __name__ == "__main__":
    sys.exit(cli.main("record", RecordConfig))
