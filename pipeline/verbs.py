"""Declares verbs of `wgan`, and names the extra of the wheel that a verb lacks before anything is imported from it."""

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

from components.core.errors import ConfigError
from components.core.stage import cli

# Packages that come with each extra.
_CPU = ("keras", "matplotlib", "numpy", "scipy", "tensorflow")
_PACKAGES = {"pipeline": ("croniter", "kfp", "pydantic"), "cpu": _CPU, "local": (*_CPU, "apache_beam", "sklearn")}


def add(
    verbs: "argparse._SubParsersAction[cli.Parser]",
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int | None],  # returns the exit code; None means OK
    *,
    more: str = "",  # of its description
    reports_problems: bool = False,  # whether `run` reports unknown flags, together with its other problems
    **options: Any,
) -> cli.Parser:
    """Return the parser of a new verb; `run` gets its result, with the `verb`, all `words`, and `problems` of flags."""
    description = f"{text[0].upper()}{text[1:]}.{more and ' '}{more}"
    parser = verbs.add_parser(name, help=text, description=description, **options)
    parser.set_defaults(run=run, parser=parser, reports_problems=reports_problems)
    return parser


def require(extra: str, verb: str) -> None:
    """Check that the extra that a verb needs is installed, without importing its packages."""
    if any(importlib.util.find_spec(package) is None for package in _PACKAGES[extra]):
        command = f"pip install 'wgan-gp-pipeline[{extra}]'"
        raise ConfigError(f'wgan {verb} needs the extra "{extra}", which is not installed: {command}')


def positive_int(text: str) -> int:
    """Convert the value of a flag."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, got {text!r}")
    return int(text)
