"""What a package says of how it was compiled: target, profile, service account.

It stands in the pipeline's description, the one text of a package that servers keep and people see.
"""

import dataclasses
import re

_ORIGIN = re.compile(r"Compiled for (kfp|vertex), profile (\S+?)(?:, service account (\S+?))?\.$")


@dataclasses.dataclass(frozen=True)
class Origin:
    """Target and profile of a package, and whom its runs should be started as; empty for the target's default."""

    target: str
    profile: str
    service_account: str = ""

    def __str__(self) -> str:
        account = f", service account {self.service_account}" if self.service_account else ""
        return f"Compiled for {self.target}, profile {self.profile}{account}."


def read(description: str) -> Origin | None:
    """Return how a pipeline's package was compiled, by its description; None if another program did."""
    found = _ORIGIN.search(description)
    return Origin(found[1], found[2], found[3] or "") if found else None
