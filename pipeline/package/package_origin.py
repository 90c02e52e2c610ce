"""Origin of a package: target, profile and service account of its compilation.

It is in the pipeline's description, the one text of a package that servers keep and show.
"""

import dataclasses
import re

_ORIGIN = re.compile(
    r"Compiled for (\w+), profile (\S+?)"
    r"(?:, service account (\S+?))?(?:, network (\S+?))?(?:, encryption key (\S+?))?\.$"
)


@dataclasses.dataclass(frozen=True)
class Origin:
    """Target and profile of a package, and how its runs should be started; empty for the target's default."""

    target: str
    profile: str
    service_account: str = ""
    network: str = ""
    encryption_key: str = ""

    def __str__(self) -> str:
        account = f", service account {self.service_account}" if self.service_account else ""
        network = f", network {self.network}" if self.network else ""
        key = f", encryption key {self.encryption_key}" if self.encryption_key else ""
        return f"Compiled for {self.target}, profile {self.profile}{account}{network}{key}."


def read(description: str) -> Origin | None:
    """Return the origin from a pipeline's description; None if another program compiled it."""
    match = _ORIGIN.search(description)
    return Origin(*(group or "" for group in match.groups())) if match else None
