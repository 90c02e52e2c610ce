"""The size of a step, as flags that its benchmarks and contenders share. Standard library only, for PyTorch's."""

import argparse

from components.train.config import TrainConfig

_DEFAULTS = {"critic_steps": 1, "batch_size": 64, "base_filters": TrainConfig.base_filters}


def parser(description: str | None = None) -> argparse.ArgumentParser:
    """Return a parser with the flags; `critic_steps` is the number of critic updates per generator update."""
    flag_parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in _DEFAULTS.items():
        flag_parser.add_argument(f"--{name}", type=int, default=default)
    return flag_parser


def flags(options: argparse.Namespace) -> list[str]:
    """Return the flags that give another program the same size."""
    return [f"--{name}={getattr(options, name)}" for name in _DEFAULTS]
