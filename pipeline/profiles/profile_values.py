"""Types of the values in a profile, each with the expectation for messages."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from components.core import settings
from components.core.stage import run_notes
from components.train.config import TrainConfig
from pipeline.profiles.validation import Settings, Text, expected, matching

if TYPE_CHECKING:
    from kfp import dsl

# Amounts that both Kubernetes and Kubeflow read: 500m, 1.5, 16Gi, 32G.
_CPU = re.compile(r"(?:[0-9]{0,9}\.)?[0-9]{1,9}m?")
_MEMORY = re.compile(r"([0-9]{1,18})([EPTGMK]?)(i?)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_LONGEST_WAIT = 3600  # kfp 2.16.1 silently cuts longer ones
_REPLICAS = next(field.setting for field in settings.fields_of(TrainConfig) if field.name == "replicas")
MOST_REPLICAS = int(_REPLICAS.at_most or 0)


def cores(text: str) -> float:
    """Return the number of processors, such as 0.5 for `500m`; raise `ValueError` with the expectation."""
    if not _CPU.fullmatch(text):
        raise ValueError("a number of processors such as 4, 0.5 or 500m")
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def size(text: str) -> int:
    """Return the number of bytes, such as 16 * 2**30 for `16Gi`; raise `ValueError` with the expectation."""
    match = _MEMORY.fullmatch(text)
    if not match or (match[3] and not match[2]):
        raise ValueError("a whole number with K, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei, such as 16Gi")
    base = 1024 if match[3] else 1000
    return int(match[1]) * int(base ** _POWERS[match[2]])


def _quantity(measure: Callable[[str], float], *accepted_types: type) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        text = str(value) if type(value) in accepted_types else ""
        try:
            amount = measure(text)
        except ValueError as error:
            raise expected(str(error), value) from None
        if amount <= 0:
            raise expected("more than nothing", value)
        return text

    return check


def _distinct_folders(value: dict[str, str]) -> dict[str, str]:
    if len(set(value.values())) < len(value):
        raise expected("claims with a folder of its own for each", value)
    return value


_OBJECT = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
_CLAIM = matching(_OBJECT, "the name of a volume claim: small letters, digits, - and .")
# Folders that need no quotes anywhere.
_FOLDER = matching(r"(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+", "a folder: an absolute path of letters, digits, -, _ and .")
Cpu = Annotated[str, BeforeValidator(_quantity(cores, str, int, float))]
Memory = Annotated[str, BeforeValidator(_quantity(size, str))]
Secret = Annotated[str, matching(rf"({_OBJECT})?", "the name of a secret: small letters, digits, - and .")]
Seconds = Annotated[int, Field(ge=1, lt=2**31)]
Devices = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]
_SORTED = AfterValidator(lambda value: dict(sorted(value.items())))
Labels = Annotated[dict[Text, Text], _SORTED]
_Folders = dict[Annotated[str, _CLAIM], Annotated[str, _FOLDER]]
VolumeClaims = Annotated[_Folders, AfterValidator(_distinct_folders), _SORTED]


class Toleration(Settings):
    """A taint of nodes that a pod tolerates, as Kubernetes defines it."""

    key: Text | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: Text | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def joint_problems(self) -> Iterator[str]:
        if self.operator == "Exists" and self.value:
            yield f"leave out value where the operator is Exists, got {self.value!r}"
        if self.operator == "Equal" and not self.key:
            yield "key is required where the operator is Equal"


class Retries(Settings):
    """Retry policy of a stage; waits in seconds grow by `factor`."""

    count: int = Field(ge=0, le=100)
    first_wait: int = Field(default=0, ge=0, le=_LONGEST_WAIT)
    factor: float = Field(default=2.0, ge=1, le=100)
    longest_wait: int = Field(default=_LONGEST_WAIT, ge=0, le=_LONGEST_WAIT)

    def apply(self, task: "dsl.PipelineTask") -> None:
        """Set the number of retries of a task, and tell the stage."""
        if self.count:
            task.set_env_variable(run_notes.RETRIES, str(self.count))
            task.set_retry(self.count, f"{self.first_wait:.0f}s", self.factor, f"{self.longest_wait:.0f}s")


# Machines, images and Kubeflow's launcher fail under any stage. One that fails for good ends its retries at once.
RETRIES = Retries(count=2, first_wait=10)
