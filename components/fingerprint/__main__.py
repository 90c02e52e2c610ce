"""python -m components.fingerprint"""

import sys

from components import cli
from components.fingerprint.config import FingerprintConfig

if __name__ == "__main__":
    sys.exit(cli.main("fingerprint", FingerprintConfig))
