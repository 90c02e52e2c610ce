"""A pickle that shows whether anything loads it."""

from typing import Any


class Unpickled:
    """Ends the test if it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, ("raise SystemExit('unpickled')",))
