"""python -m components.embed"""

import sys

from components.core.stage import cli
from components.embed.config import EmbedConfig

if __name__ == "__main__":
    sys.exit(cli.main("embed", EmbedConfig))
