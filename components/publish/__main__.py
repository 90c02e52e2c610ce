"""python -m components.publish"""

import sys

from components.core.stage import cli
from components.publish.config import PublishConfig

if __name__ == "__main__":
    sys.exit(cli.main("publish", PublishConfig))
