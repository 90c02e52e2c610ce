"""Users' YAML: strict, and with every problem in one line."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

from components.core.errors import ConfigError, describe_os_error

# PyYAML raises others besides its own, for invalid tags and numbers.
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError)
_SHOWN = 60
_T = TypeVar("_T")


def read_bytes(path: Path, label: str, remedy: str = "") -> bytes:
    """Read a file, which errors call `label`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{label} cannot be read: {describe_os_error(error)}{remedy}") from None


def load_all(text: bytes, label: str) -> list[Any]:
    """Return the documents of a YAML file, or raise a `ConfigError`, as `nodes` does."""
    roots = nodes(text, label)
    with _refusing(label):
        return [yaml.SafeLoader("").construct_document(node) for node in roots]


def load(text: bytes, label: str) -> Any:
    """Return the one document of a YAML file; None if it is empty. Otherwise like `load_all`."""
    return only(load_all(text, label), label)


def only(documents: list[_T], label: str) -> _T | None:
    """Return the one document or node of a file; None if it is empty."""
    if len(documents) > 1:
        raise ConfigError(f"{label} holds {len(documents)} YAML documents; give one")
    return documents[0] if documents else None


def nodes(text: bytes, label: str) -> list[yaml.Node]:
    """Return a file's root nodes, with lines; `ConfigError` for invalid YAML, repeated names, and too deep nesting."""
    roots: list[yaml.Node] = []
    with _refusing(label):
        loader = _Loader(text.decode())
        while loader.check_node() and (node := loader.get_node()) is not None:
            roots.append(node)
    if loader.repeated:
        twice = [f"line {key.start_mark.line + 1}: {shown(key.value)} is given twice" for key in loader.repeated]
        raise ConfigError(*(f"{label}, {problem}" for problem in twice))
    return roots


@contextlib.contextmanager
def _refusing(label: str) -> Iterator[None]:
    """Turn the errors of YAML into a `ConfigError`."""
    try:
        yield
    except RecursionError:
        raise ConfigError(f"{label} is nested too deeply; give a flatter file") from None
    except _YAML_ERRORS as error:
        raise ConfigError(f"{label} is not YAML: {' '.join(str(error).split())}") from None


class _Loader(yaml.SafeLoader):
    """Notes repeated keys of mappings, of which YAML itself silently takes the last one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[yaml.ScalarNode] = []

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):  # before merge keys (<<)
            if key.value in keys:
                self.repeated.append(key)
            keys.add(key.value)
        return node


def shown(value: Any) -> str:
    """Return a value for a message: on one line, and short."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, deep nesting
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
