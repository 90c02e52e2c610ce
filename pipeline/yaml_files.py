"""YAML that people write: read strictly, with what is wrong told in one line."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from components.errors import ConfigError
from pipeline.profile_values import shown

# What PyYAML raises besides its own errors, for tags and numbers that are none.
_YAML_ERRORS = (
    yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError, OverflowError
)  # fmt: skip


def load(text: bytes, what: str) -> Any:
    """What a YAML file holds, with no name given twice.

    Args:
        text: The YAML.
        what: What to call the file in messages.

    Raises:
        ConfigError: It is not YAML, or gives a name twice.
    """
    try:
        decoded = text.decode()
        content = yaml.safe_load(decoded)
        twice = list(_given_twice(yaml.compose(decoded, Loader=yaml.SafeLoader), set()))
    except _YAML_ERRORS as error:
        raise ConfigError(f"{what} is not YAML: {' '.join(str(error).split())}") from None
    if twice:
        raise ConfigError(*(f"{what}, line {line}: {name} is given twice" for name, line in twice))
    return content


def _given_twice(node: yaml.Node | None, seen: set[int]) -> Iterator[tuple[str, int]]:
    """The keys that a mapping has already, with their lines: YAML itself takes the last one without a word."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        names = [shown(key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for place, (key, value) in enumerate(node.value):
            if isinstance(key, yaml.ScalarNode) and shown(key.value) in names[:place]:
                yield shown(key.value), key.start_mark.line + 1
            yield from _given_twice(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _given_twice(value, seen)


def unknown(at: str, content: Mapping[Any, Any], known: tuple[str, ...]) -> list[str]:
    """A sentence for each name that nobody reads, with the known one that was probably meant."""
    found = []
    for name in content:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1) if isinstance(name, str) else []
            meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            found.append(f"{at}: {shown(name)} is unknown; {meant}")
    return found
