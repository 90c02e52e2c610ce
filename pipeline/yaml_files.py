"""YAML that people write: bounded, strict, and with every problem in one line."""

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from components.errors import ConfigError

# What PyYAML raises besides its own errors, for tags and numbers that are none.
_YAML_ERRORS = (
    yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, OverflowError
)  # fmt: skip
_MOST_BYTES = 2**20  # ten times a compiled package
_MOST_LEVELS = 50
_SHOWN = 60


def read_bytes(path: Path) -> bytes:
    """Read a file; of one that is too large, only as much as shows that.

    Raises:
        OSError: It cannot be read.
    """
    with open(path, "rb") as file:
        return file.read(_MOST_BYTES + 1)


def load_all(text: bytes, what: str) -> list[Any]:
    """Return the documents of a YAML file.

    Args:
        text: The YAML.
        what: What to call the file in messages.

    Raises:
        ConfigError: It is not YAML, gives a name twice, or is too large or nested too deeply.
    """
    if len(text) > _MOST_BYTES:
        raise ConfigError(f"{what} is larger than {_MOST_BYTES:,} bytes; give a smaller file")
    try:
        loader = yaml.SafeLoader(text.decode())
        nodes: list[yaml.Node] = []
        while loader.check_node() and (node := loader.get_node()) is not None:
            _require_bounded(node, what)
            nodes.append(node)
        twice = [found for node in nodes for found in _given_twice(node)]  # before merge keys (<<) are resolved
        documents = [loader.construct_document(node) for node in nodes]
    except ConfigError:
        raise
    except RecursionError:
        raise _too_deep(what) from None
    except _YAML_ERRORS as error:
        raise ConfigError(f"{what} is not YAML: {' '.join(str(error).split())}") from None
    if twice:
        raise ConfigError(*(f"{what}, line {line}: {name} is given twice" for name, line in twice))
    return documents


def load(text: bytes, what: str) -> Any:
    """Return the one document of a YAML file; None if it is empty. Otherwise like `load_all`."""
    documents = load_all(text, what)
    if len(documents) > 1:
        raise ConfigError(f"{what} holds {len(documents)} YAML documents; give one")
    return documents[0] if documents else None


def _require_bounded(node: yaml.Node, what: str) -> None:
    """Refuse what a few lines of aliases make endless: whoever shows or walks the value writes them out."""
    size, ahead = 0, [(node, 1)]
    while ahead:
        node, level = ahead.pop()
        size += 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if level > _MOST_LEVELS:
            raise _too_deep(what)
        if size > _MOST_BYTES:
            raise ConfigError(
                f"{what}, line {node.start_mark.line + 1}: with its aliases (*) written out, the file is larger than "
                f"{_MOST_BYTES:,} characters; give a smaller file"
            )
        if isinstance(node, yaml.MappingNode):
            ahead += [(each, level + 1) for pair in node.value for each in pair]
        elif isinstance(node, yaml.SequenceNode):
            ahead += [(each, level + 1) for each in node.value]


def _too_deep(what: str) -> ConfigError:
    return ConfigError(f"{what} is nested more than {_MOST_LEVELS} levels deep; give a flatter file")


def _given_twice(node: yaml.Node) -> Iterator[tuple[str, int]]:
    """The keys that a mapping has already, with their lines: YAML itself takes the last one without a word."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield shown(key.value), key.start_mark.line + 1
                seen.add(key.value)
            yield from _given_twice(value)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _given_twice(value)


def shown(value: Any) -> str:
    """A value for a message: on one line, and short."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, what is nested too deeply
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def unknown(at: str, content: Mapping[Any, Any], known: tuple[str, ...]) -> list[str]:
    """A sentence for each name that nobody reads, with the known one that was probably meant."""
    found = []
    for name in content:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1) if isinstance(name, str) else []
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            found.append(f"{at}: {shown(name)} is unknown; {meant}")
    return found
