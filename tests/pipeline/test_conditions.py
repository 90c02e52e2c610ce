"""The evaluator of conditions against Python's own, on random conditions of the grammar."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import conditions

NUMBERS = {"a": 3, "b": 2.5, "c": -7}
TEXTS = {"t": "PROMOTE", "u": "it's", "v": "12"}
TRUTHS = {"p": True, "q": False}
VALUES = {**NUMBERS, **TEXTS, **TRUTHS}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
Pair = tuple[str, str]  # a condition and the same in Python
Pairs = st.SearchStrategy[Pair]


def name(found: str) -> Pair:
    return f"inputs.parameter_values['{found}']", f"VALUES[{found!r}]"


def literal(value: object) -> Pair:
    text = json.dumps(value) if not isinstance(value, str) else "'" + value.replace("'", "\\'") + "'"
    return text, repr(value)


def compared(values: Pairs) -> Pairs:
    return st.tuples(values, st.sampled_from(COMPARISONS), values).map(
        lambda found: (f"{found[0][0]} {found[1]} {found[2][0]}", f"({found[0][1]} {found[1]} {found[2][1]})")
    )


numbers = st.one_of(
    st.sampled_from(sorted(NUMBERS)).map(name),
    st.integers(-20, 20).map(literal),
    st.floats(-1e6, 1e6).map(literal),
    st.just(("int(inputs.parameter_values['v'])", "int(VALUES['v'])")),
    st.just(("double(inputs.parameter_values['v'])", "float(VALUES['v'])")),
)
texts = st.one_of(
    st.sampled_from(sorted(TEXTS)).map(name), st.sampled_from(["PROMOTE", "it's", "", "a b"]).map(literal)
)
truths = st.one_of(
    st.sampled_from(sorted(TRUTHS)).map(name), st.booleans().map(literal), compared(numbers), compared(texts)
)


def combined(inner: Pairs) -> Pairs:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        pairs.map(lambda found: (f"({found[0][0]}) && ({found[1][0]})", f"({found[0][1]} and {found[1][1]})")),
        pairs.map(lambda found: (f"({found[0][0]}) || ({found[1][0]})", f"({found[0][1]} or {found[1][1]})")),
        inner.map(lambda found: (f"!({found[0]})", f"(not {found[1]})")),
    )


@given(st.recursive(truths, combined, max_leaves=8))
def test_agrees_with_python(pair: Pair) -> None:
    text, python = pair
    assert conditions.parse(text).holds(VALUES) is eval(python)  # noqa: S307 - the oracle


def test_and_binds_stronger_than_or() -> None:
    assert conditions.parse("true || false && false").holds({})
    assert not conditions.parse("(true || false) && false").holds({})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a == 1",
        "1 +",
        "1 + 1 == 2",
        "inputs.parameter_values['a'] in [1]",
        "'open",
        "(true",
        "true)",
        "true true",
        "size('a') == 1",
    ],
)
def test_refuses_what_it_does_not_know(text: str) -> None:
    with pytest.raises(ValueError, match="not understood"):
        conditions.parse(text)


@pytest.mark.parametrize(
    "text", ["'3' == 3", "true < 1", "3", "int('x') == 1", "inputs.parameter_values['z'] == 1", "!3"]
)
def test_never_guesses(text: str) -> None:
    with pytest.raises(ValueError, match="condition"):
        conditions.parse(text).holds(VALUES)
