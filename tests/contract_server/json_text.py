"""JSON with the place of everything in it, which the messages of Kubeflow's decoder name."""

import dataclasses
import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = {"true": True, "false": False, "null": None}


@dataclasses.dataclass(frozen=True)
class Node:
    """A value in a text.

    Attributes:
        value: As `json.loads` gives it.
        raw: Its first token.
        place: Where it starts, as `line:column` from 1.
        members: Of an object: each key, where the key stands, and its value.
        items: Of an array.
    """

    value: Any
    raw: str
    place: str
    members: "tuple[tuple[str, str, Node], ...]" = ()
    items: "tuple[Node, ...]" = ()


class NotJson(ValueError):
    """A text that is no JSON.

    Attributes:
        place: Where it stops being JSON, as `line:column` from 1.
        token: What stands there; empty at the end of the text.
    """

    def __init__(self, text: str, at: int, expected: str) -> None:
        found = _WORD.match(text, at)
        self.token = found.group() if found else text[at : at + 1]
        self.place = _place(text, at)
        character = text[at : at + 1]
        shown = character if character.isprintable() else f"\\u{ord(character):04x}"
        super().__init__(f"invalid character '{shown}' {expected}" if character else "unexpected EOF")


def parse(text: str) -> Node:
    """Reads one JSON value.

    Raises:
        NotJson: The text is none.
    """
    node, at = _value(text, _skip(text, 0))
    if at != len(text):
        raise NotJson(text, at, "after top-level value")
    return node


def _place(text: str, at: int) -> str:
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[Node, int]:
    """The value that starts here, and where the text goes on after it and any white space."""
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at)
    if first == "[":
        return _array(text, at)
    word = _WORD.match(text, at)
    found = word if word and word.group() in _WORDS else _STRING.match(text, at) or _NUMBER.match(text, at)
    if not found:
        raise NotJson(text, at, "looking for beginning of value")
    raw = found.group()
    return Node(json.loads(raw), raw, _place(text, at)), _skip(text, found.end())


def _object(text: str, start: int) -> tuple[Node, int]:
    members: list[tuple[str, str, Node]] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}" or members:
        key = _STRING.match(text, at)
        if not key:
            raise NotJson(text, at, "looking for beginning of object key string")
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise NotJson(text, colon, "after object key")
        node, after = _value(text, _skip(text, colon + 1))
        members.append((json.loads(key.group()), _place(text, at), node))
        at = after
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise NotJson(text, at, "after object key:value pair")
        at = _skip(text, at + 1)
    value = {key: node.value for key, _, node in members}
    return Node(value, "{", _place(text, start), members=tuple(members)), _skip(text, at + 1)


def _array(text: str, start: int) -> tuple[Node, int]:
    items: list[Node] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]" or items:
        node, at = _value(text, at)
        items.append(node)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            raise NotJson(text, at, "after array element")
        at = _skip(text, at + 1)
    return Node([node.value for node in items], "[", _place(text, start), items=tuple(items)), _skip(text, at + 1)
