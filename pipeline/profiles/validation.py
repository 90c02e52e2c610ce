"""Strict models of users' YAML: every mistake at once, each with its path, the value and the remedy.

Only verbs that read such a file import this module, and pydantic with it.
"""

import re
import types
from collections.abc import Iterable
from typing import Annotated, Any, Self, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import ErrorDetails

from components.core.errors import ConfigError
from components.core.settings import suggestion
from pipeline.profiles import yaml_files
from pipeline.profiles.yaml_files import shown

_T = TypeVar("_T")
# Errors whose pydantic messages would not help authors of YAML.
_EXPECTED = {
    "bool_type": "be true or false",
    "dict_type": "be a mapping, NAME: VALUE",
    "invalid_key": "be text",
    "int_type": "be a whole number",
    "list_type": "be a list",
    "model_type": "be a mapping, NAME: VALUE",
    "string_type": "be text (in quotes, if it reads as a number, a date, true or false)",
}


class Settings(BaseModel):
    """A mapping of settings: no other names, and no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if problems := [*self.joint_problems()]:
            raise ConfigError(*problems)
        return self

    def joint_problems(self) -> Iterable[str]:
        """Return sentences about several settings together."""
        return ()


def expected(expectation: str, value: Any) -> ValueError:
    """Return the error for a value, without the path, which `read` adds."""
    return ValueError(f"must be {expectation}, got {shown(value)}")


def one_line(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise expected("text on one line", value)
    return value


Text = Annotated[str, AfterValidator(one_line)]


def matching(pattern: str, expectation: str) -> AfterValidator:
    """Return the check that a text matches wholly; messages give the expectation."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise expected(expectation, value)
        return value

    return AfterValidator(check)


def read(kind: type[_T], text: bytes, label: str) -> _T:
    """Return a YAML file as a model or dictionary of models; raise `ConfigError` about `label` with every mistake."""
    try:
        return TypeAdapter(kind).validate_python(yaml_files.load(text, label))
    except ValidationError as error:
        problems = [f"{label}: {problem}" for detail in error.errors() for problem in _problems(kind, detail)]
        raise ConfigError(*dict.fromkeys(problems)) from None


def _problems(kind: Any, error: ErrorDetails) -> list[str]:
    """Return the sentences for one error of pydantic; checks of several settings raise a `ConfigError` with several."""
    path = error["loc"][:-1] if error["loc"][-1:] == ("[key]",) else error["loc"]
    at = ".".join(part if part.isprintable() else shown(part) for part in map(str, path)) or "the file"
    if error["type"] == "extra_forbidden":
        for part in path[:-1]:
            kind = kind.model_fields[part].annotation if hasattr(kind, "model_fields") else get_args(kind)[-1]
            kind = get_args(kind)[0] if isinstance(kind, types.UnionType) else kind
        return [f"{at} is unknown{suggestion(str(path[-1]), kind.model_fields)}"]
    if error["type"] == "missing":
        return [f"{at} is required"]
    if error["type"] == "value_error":
        if isinstance(cause := error["ctx"]["error"], ConfigError):
            return [f"{at}: {problem}" for problem in cause.problems]
        return [f"{at} {cause}"]
    message = error["msg"].partition(" should ")[2]
    return [f"{at} must {_EXPECTED.get(error['type'], message)}, got {shown(error['input'])}"]
