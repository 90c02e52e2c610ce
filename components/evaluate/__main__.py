"""python -m components.evaluate, also with --all-checkpoints."""

import sys

from components.core.stage import cli
from components.evaluate.config import AllCheckpointsConfig, EvaluateConfig

_ALL_CHECKPOINTS = ("--all-checkpoints", "--all_checkpoints")

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word not in _ALL_CHECKPOINTS]
    if len(words) < len(sys.argv[1:]):
        sys.exit(cli.main("evaluate", AllCheckpointsConfig, words, "all_checkpoints"))
    sys.exit(cli.main("evaluate", EvaluateConfig))
