"""python -m components.export"""

import sys

from components.core.stage import cli
from components.export.config import ExportConfig

if __name__ == "__main__":
    sys.exit(cli.main("export", ExportConfig))
