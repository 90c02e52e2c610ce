"""What can go wrong between a client and the service, one request at a time."""

import dataclasses

# Before the request is acted upon.
_STATUSES = {
    "status-408": 408,
    "status-429": 429,
    "status-500": 500,
    "status-502": 502,
    "status-503": 503,
    "status-504": 504,
}
FAULTS = (
    *_STATUSES,
    "reset",  # the connection is reset; nothing is done
    "stall",  # nothing happens for a while; then it is done, whether or not anyone waits any more
    "flip-upload",  # one byte of content is another when it arrives
    "lost-ack",  # it is done, and the connection closed without an answer
    "503-after-commit",  # it is done, and answered 503
    "truncated-body",  # it is done; the answer ends in its middle
    "flip-download",  # one byte of content is another in the answer
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: One of FAULTS.
        seconds: How long a stall is.
    """

    kind: str
    seconds: float

    @property
    def status(self) -> int | None:
        """What is answered instead of acting, if that is the fault."""
        return _STATUSES.get(self.kind)


def flipped(content: bytes) -> bytes:
    """Content with one bit of the byte in its middle the other way."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
