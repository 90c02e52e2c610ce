"""python -m components.evaluate, and the like with --all-checkpoints"""

import sys

from components.core.stage import cli
from components.evaluate.all_checkpoints_config import AllCheckpointsConfig
from components.evaluate.config import EvaluateConfig

_ALL_CHECKPOINTS = ("--all-checkpoints", "--all_checkpoints")


def main() -> int:
    """Judges one checkpoint or, asked for all, scores them; returns the exit code."""
    words = [word for word in sys.argv[1:] if word not in _ALL_CHECKPOINTS]
    if len(words) < len(sys.argv[1:]):
        return cli.main("evaluate", AllCheckpointsConfig, words, "all_checkpoints")
    return cli.main("evaluate", EvaluateConfig, words)


if __name__ == "__main__":
    sys.exit(main())
