"""python -m components.selfcheck"""

import sys

from components.core.stage import cli
from components.selfcheck.config import SelfcheckConfig

if __name__ == "__main__":
    sys.exit(cli.main("selfcheck", SelfcheckConfig))
