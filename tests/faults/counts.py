"""What a part of the fault tests found: how often it tried, how often its fault happened, and what was wrong."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Counts:
    """Counts of one kind of fault: cases, those in which it did happen, and a line for each violation."""

    tried: int = 0
    fired: int = 0
    violations: list[str] = dataclasses.field(default_factory=list)

    def add(self, fired: bool, violation: str = "") -> None:
        """Add a case; its violation is empty if all was well."""
        self.tried += 1
        self.fired += fired
        if violation:
            self.violations.append(violation)

    def to_json(self) -> dict[str, Any]:
        """Return what the soak keeps."""
        return dataclasses.asdict(self)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: thousands of cases warn of what was done to them."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
