"""The values of a profile as YAML holds them, each read by a function that says what it expected.

Each takes a value of any type and returns the one that a field annotated with it has, or raises `ValueError` with the
rest of the sentence that begins with the setting's name: "must be ..., got ...".
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from pipeline import quantities
from pipeline.package import Retries
from pipeline.yaml_files import shown

# As Kubernetes names a claim; and folders that need no quotes anywhere.
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_FOLDER = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
# The longest that kfp 2.16.1 writes; longer ones it cuts without a word.
_LONGEST_WAIT = 3600


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toleration:
    """A taint of nodes that a pod may be put on in spite of it; as Kubernetes has it, empty for what is not said."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


def text(value: Any) -> str:
    """Text that says something, on one line."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise _expected("text (in quotes, if it reads as a number, a date, true or false)", value)
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _expected("true or false", value)
    return value


def count(value: Any) -> int:
    """A whole number of things, at least 1."""
    return _whole(value, 1)


def seconds(value: Any) -> int:
    """A whole number of seconds, at least 1."""
    return _whole(value, 1, " of seconds")


def cpu(value: Any) -> str:
    """Processors as text that Kubeflow reads; a number will do."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = shown(value)
    return _quantity(value, quantities.cores)


def memory(value: Any) -> str:
    """Memory as text that Kubeflow reads."""
    return _quantity(value, quantities.size)


def labels(value: Any) -> tuple[tuple[str, str], ...]:
    """Labels that a node must have, and their values, sorted by label."""
    if not isinstance(value, dict):
        raise _expected("labels with their values, such as {cloud.google.com/gke-accelerator: nvidia-l4}", value)
    for word in (*value.keys(), *value.values()):
        try:
            text(word)
        except ValueError as error:
            raise ValueError(f"must hold labels with their values, where each {error}") from None
    return tuple(sorted(value.items()))


def volume_claims(value: Any) -> tuple[tuple[str, str], ...]:
    """Persistent volume claims, and the folder where each is mounted, sorted by claim."""
    expected = "claims with the folder of each, such as {wgan-runs: /data}"
    if not isinstance(value, dict):
        raise _expected(expected, value)
    for claim, folder in value.items():
        if not isinstance(claim, str) or not _CLAIM.fullmatch(claim):
            raise _expected(f"{expected}; a claim's name has small letters, digits, - and .", claim)
        if not isinstance(folder, str) or not _FOLDER.fullmatch(folder):
            raise _expected(f"{expected}; a folder is an absolute path of letters, digits, -, _ and .", folder)
    if len(set(value.values())) < len(value):
        raise _expected(f"{expected}; each in a folder of its own", value)
    return tuple(sorted(value.items()))


def tolerations(value: Any) -> tuple[Toleration, ...]:
    """Taints that are tolerated."""
    if not isinstance(value, list):
        raise _expected("a list such as [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]", value)
    return tuple(_toleration(each) for each in value)


def retries(value: Any) -> Retries:
    """How often, and after how many seconds, a stage is tried again."""
    names = [field.name for field in dataclasses.fields(Retries)]
    if not isinstance(value, dict) or not value.keys() <= set(names) or "count" not in value:
        raise _expected(f"such as {{count: 2, first_wait: 10}}, of {', '.join(names)}", value)
    number = value["count"]
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= 100:
        raise _expected("with a count from 0 to 100", number)
    bounds = {"first_wait": (0, _LONGEST_WAIT), "factor": (1, 100), "longest_wait": (0, _LONGEST_WAIT)}
    for name, (least, most) in bounds.items():
        given = value.get(name, least)
        if isinstance(given, bool) or not isinstance(given, (int, float)) or not least <= given <= most:
            raise _expected(f"with a {name} from {least} to {most}", given)
        if name != "factor" and given != int(given):
            raise _expected(f"with a {name} of whole seconds", given)
    return Retries(number, **{name: float(value[name]) for name in bounds if name in value})


def _toleration(value: Any) -> Toleration:
    names = [field.name for field in dataclasses.fields(Toleration)]
    if not isinstance(value, dict) or not value.keys() <= set(names):
        raise _expected(f"a list of tolerations, each with {', '.join(names)}", value)
    for word in value.values():
        text(word)
    found = Toleration(**value)
    if found.operator not in ("Equal", "Exists"):
        raise _expected("with the operator Equal or Exists", found.operator)
    if found.effect not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise _expected("with the effect NoSchedule, PreferNoSchedule or NoExecute", found.effect)
    if found.operator == "Exists" and found.value:
        raise _expected("without a value where the operator is Exists", found.value)
    if found.operator == "Equal" and not found.key:
        raise _expected("with a key where the operator is Equal", value)
    return found


def _quantity(value: Any, measure: Callable[[str], float]) -> str:
    try:
        # No other type has a text that is a quantity.
        amount = measure(value if isinstance(value, str) else "")
    except ValueError as error:
        raise _expected(str(error), value) from None
    if amount <= 0:
        raise _expected("more than nothing", value)
    return str(value)


def _whole(value: Any, least: int, of: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
        raise _expected(f"a whole number{of}, at least {least}", value)
    return value


def _expected(what: str, value: Any) -> ValueError:
    return ValueError(f"must be {what}, got {shown(value)}")
