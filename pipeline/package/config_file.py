"""A user's file of settings by stage, such as examples/digits.yaml; `wgan run --print-config` writes one."""

import argparse
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from components.core.errors import ConfigError
from components.core.settings import Field, text_problems
from pipeline.package import parameters
from pipeline.profiles import yaml_files
from pipeline.profiles.yaml_files import shown


def add_flag(parser: argparse.ArgumentParser) -> None:
    text = "YAML file of parameters by stage, such as examples/digits.yaml; flags override it"
    parser.add_argument("--config", type=Path, metavar="FILE", help=text)


def read(path: Path | None, fields: Mapping[str, Field], problems: list[str]) -> dict[str, str]:
    """Return the parameters that a file sets, by name, and add what is wrong with the others to the problems.

    Values stay text, as those of flags: `no` is a word, and `1e-3` a number. Raises `ConfigError` if the file cannot be
    read, or is no mapping in YAML.
    """
    if path is None:
        return {}
    subject = f"config {path}"
    root = yaml_files.only(yaml_files.nodes(yaml_files.read_bytes(path, "config"), subject), subject)
    if not isinstance(root, yaml.MappingNode | None):
        raise ConfigError(f"{subject} must be a mapping of stages to their settings, as in examples/digits.yaml")
    stages = parameters.by_stage(fields)
    place_of = {name: _place(stage, name) for stage, names in stages.items() for name in names}
    entries: list[tuple[str, str, yaml.Node]] = []  # each value with its stage, "" for one at the top, and its name
    for key, value in root.value if root else []:
        if isinstance(value, yaml.MappingNode):
            entries += [(str(key.value), str(name.value), node) for name, node in value.value]
        else:
            entries.append(("", str(key.value), value))
    values = {}
    for stage, name, node in entries:
        at, place = f"{subject}, line {node.start_mark.line + 1}:", _place(stage, name)
        if not stage and name in stages:
            problems += [f"{at} {name} must be a mapping of settings, got {shown(node.value)}"] if node.value else []
        elif name not in stages.get(stage, ()):
            close = difflib.get_close_matches(name, place_of, n=1)
            meant = f"; did you mean {place_of[close[0]]}?" if close else ""
            problems.append(f"{at} unknown setting {shown(place)}{meant}")
        elif not isinstance(node, yaml.ScalarNode):
            problems.append(f"{at} {place} must be one value, got a list or a mapping")
        elif wrong := text_problems(fields[name], node.value):
            problems += [f"{at} {place.removesuffix(name)}{problem}" for problem in wrong]
        else:
            values[name] = node.value
    return values


def _place(stage: str, name: str) -> str:
    """Return a setting as messages name it, such as `train.steps`."""
    return f"{stage}.{name}" if stage else name


def written(values: Mapping[str, Any]) -> str:
    """Return parameters as a file that `read` accepts."""
    stages = parameters.by_stage(values)
    content = {stage: {name: values[name] for name in names} for stage, names in stages.items() if names}
    return yaml.safe_dump(content.pop("", {}) | content, sort_keys=False)
