"""Results of a part of the fault tests: trials, faults that fired, and violations."""

import contextlib
import dataclasses
import logging
from collections.abc import Iterator


@dataclasses.dataclass
class Counts:
    """Counts of one kind of fault: trials, those in which it fired, and a line for each violation."""

    tried: int = 0
    fired: int = 0
    violations: list[str] = dataclasses.field(default_factory=list)

    def add(self, fired: bool, violation: str = "") -> None:
        """Add a trial; its violation is empty if all was well."""
        self.tried += 1
        self.fired += fired
        if violation:
            self.violations.append(violation)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the log: thousands of trials would log their faults."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
