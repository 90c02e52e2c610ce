"""What a part of the fault tests found: how often it tried, how often its fault happened, and what was wrong."""

import dataclasses
from typing import Any


@dataclasses.dataclass
class Counts:
    """Counts of one kind of fault.

    Attributes:
        tried: Cases.
        fired: Cases in which the fault did happen.
        violations: What was wrong, a line each; nothing may be.
    """

    tried: int = 0
    fired: int = 0
    violations: list[str] = dataclasses.field(default_factory=list)

    def add(self, fired: bool, violation: str = "") -> None:
        """Adds a case; its violation is empty if all was well."""
        self.tried += 1
        self.fired += fired
        if violation:
            self.violations.append(violation)

    def to_json(self) -> dict[str, Any]:
        """As the soak keeps it."""
        return {"tried": self.tried, "fired": self.fired, "violations": self.violations}
