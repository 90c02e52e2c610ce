"""The targets that a package is compiled for, and the origin of a package."""

import dataclasses
import re
from typing import Self

KFP, VERTEX = "kfp", "vertex"
TARGETS = (KFP, VERTEX)
_OPTIONS = ("service account", "network", "encryption key")
_ORIGIN = re.compile(
    r"Compiled for (\w+), profile (\S+?)" + "".join(rf"(?:, {option} (\S+?))?" for option in _OPTIONS) + r"\.$"
)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Target and profile of a package, and how its runs should be started; empty for the target's default.

    It is in the pipeline's description, the one text of a package that servers keep and show.
    """

    target: str
    profile: str
    service_account: str = ""
    network: str = ""  # to peer Vertex jobs with
    encryption_key: str = ""  # of Cloud KMS, for runs on Vertex

    def __str__(self) -> str:
        values = (self.service_account, self.network, self.encryption_key)
        options = "".join(f", {option} {value}" for option, value in zip(_OPTIONS, values, strict=True) if value)
        return f"Compiled for {self.target}, profile {self.profile}{options}."

    @classmethod
    def of(cls, description: str) -> Self | None:
        """Return the origin from a pipeline's description; None if another program compiled it."""
        match = _ORIGIN.search(description)
        return cls(*(group or "" for group in match.groups())) if match else None
