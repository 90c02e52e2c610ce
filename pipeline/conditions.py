"""The conditions that Kubeflow's compiler writes: a small part of the Common Expression Language (CEL).

or      = and { "||" and }
and     = unary { "&&" unary }
unary   = "!" unary | compare
compare = value [ ("==" | "!=" | "<" | "<=" | ">" | ">=") value ]
value   = literal | "inputs.parameter_values['NAME']" | ("int" | "double" | "string") "(" value ")" | "(" or ")"
"""

import dataclasses
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:inputs\.parameter_values\['(?P<name>[^']+)'\]"
    r"|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<word>true|false|int|double|string)\b"
    r"|(?P<symbol>==|!=|<=|>=|&&|\|\||[<>!()]))"
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONVERT: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "double": float,
    "string": lambda value: value if isinstance(value, str) else json.dumps(value),
}

Evaluate = Callable[[Mapping[str, Any]], Any]


@dataclasses.dataclass(frozen=True)
class Condition:
    """A parsed condition.

    Attributes:
        text: The condition as it was written.
        names: The parameters that it asks for, in order of appearance.

    Raises:
        ValueError: The text uses more of CEL than this module knows; the message says where.
    """

    text: str
    names: tuple[str, ...]
    _evaluate: Evaluate

    def holds(self, parameters: Mapping[str, Any]) -> bool:
        """Whether it is true of these parameters.

        Raises:
            ValueError: A parameter is missing, or values of two kinds are compared or converted.
        """
        try:
            answer = self._evaluate(parameters)
        except KeyError as missing:
            raise ValueError(f"condition {self.text!r} asks for {missing}, which has no value") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"condition {self.text!r} cannot be decided: {error}") from None
        if not isinstance(answer, bool):
            raise ValueError(f"condition {self.text!r} is {answer!r}, neither true nor false")
        return answer


def parse(text: str) -> Condition:
    """Parses a condition.

    Raises:
        ValueError: It is not of the grammar above.
    """
    parser = _Parser(text)
    evaluate = parser.either()
    parser.expect("")
    return Condition(text, tuple(dict.fromkeys(parser.names)), evaluate)


class _Parser:
    """Recursive descent, one token ahead; every rule returns a function of the parameters."""

    def __init__(self, text: str) -> None:
        self.text, self.position, self.names = text.rstrip(), 0, list[str]()
        self.advance()

    def advance(self) -> None:
        """Reads the next token into `kind` (its group in `_TOKEN`, empty at the end) and `token`."""
        self.start = self.position
        if self.position == len(self.text):
            self.kind, self.token = "", ""
            return
        found = _TOKEN.match(self.text, self.position)
        if not found or not found.lastgroup:
            raise self.unknown()
        self.kind, self.token, self.position = found.lastgroup, found[found.lastgroup], found.end()

    def unknown(self) -> ValueError:
        return ValueError(f"condition {self.text!r} is not understood from character {self.start + 1} on")

    def expect(self, token: str) -> None:
        if self.token != token or self.kind not in ("symbol", ""):
            raise self.unknown()
        if token:
            self.advance()

    def take(self, *symbols: str) -> str:
        """The symbol that comes next, if it is one of these, else an empty string."""
        if self.kind != "symbol" or self.token not in symbols:
            return ""
        token = self.token
        self.advance()
        return token

    def either(self) -> Evaluate:
        left = self.both()
        while self.take("||"):
            left = _either(left, self.both())
        return left

    def both(self) -> Evaluate:
        left = self.unary()
        while self.take("&&"):
            left = _both(left, self.unary())
        return left

    def unary(self) -> Evaluate:
        if self.take("!"):
            return _negation(self.unary())
        return self.comparison()

    def comparison(self) -> Evaluate:
        left = self.value()
        symbol = self.take(*_COMPARE)
        return _comparison(_COMPARE[symbol], left, self.value()) if symbol else left

    def value(self) -> Evaluate:
        if self.take("("):
            inner = self.either()
            self.expect(")")
            return inner
        kind, token = self.kind, self.token
        if kind not in ("name", "text", "number", "word"):
            raise self.unknown()
        self.advance()
        if kind == "name":
            self.names.append(token)
            return lambda parameters: parameters[token]
        if kind == "word" and token in _CONVERT:
            self.expect("(")
            inner = self.either()
            self.expect(")")
            return _conversion(_CONVERT[token], inner)
        literal = _literal(kind, token)
        return lambda parameters: literal


def _literal(kind: str, token: str) -> Any:
    if kind == "text":
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    if kind == "word":
        return json.loads(token)
    return int(token) if token.lstrip("-").isdigit() else float(token)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _either(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda parameters: _truth(left(parameters)) or _truth(right(parameters))


def _both(left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda parameters: _truth(left(parameters)) and _truth(right(parameters))


def _negation(inner: Evaluate) -> Evaluate:
    return lambda parameters: not _truth(inner(parameters))


def _conversion(convert: Callable[[Any], Any], inner: Evaluate) -> Evaluate:
    return lambda parameters: convert(inner(parameters))


def _comparison(compare: Callable[[Any, Any], bool], left: Evaluate, right: Evaluate) -> Evaluate:
    def evaluate(parameters: Mapping[str, Any]) -> bool:
        first, second = left(parameters), right(parameters)
        if _kind(first) is not _kind(second):
            raise TypeError(f"{first!r} and {second!r} are of two kinds")
        return compare(first, second)

    return evaluate


def _kind(value: Any) -> type:
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)
