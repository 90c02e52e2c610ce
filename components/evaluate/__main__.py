"""python -m components.evaluate, also with --all-checkpoints."""

import sys

from components.core.stage import cli

if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word not in ("--all-checkpoints", "--all_checkpoints")]
    variant = "all_checkpoints" if len(words) < len(sys.argv[1:]) else ""
    raise SystemExit(cli.main("evaluate", words, variant))
