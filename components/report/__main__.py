"""python -m components.report"""

import sys

from components.core.stage import cli
from components.report.config import ReportConfig

if __name__ == "__main__":
    sys.exit(cli.main("report", ReportConfig))
