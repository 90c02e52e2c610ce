"""What the server says no with: a status, gRPC's code, the chain of what failed and its innermost reason."""

import contextlib
from collections.abc import Iterator


class Refusal(Exception):
    """An answer that is an error.

    Attributes:
        status: Of HTTP.
        code: Of gRPC.
        message: The whole chain, outermost first.
        innermost: What a user is told of it; None where the gateway itself refuses, and the answer has no details.
    """

    def __init__(self, status: int, code: int, message: str, innermost: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.innermost = status, code, message, innermost


def undecodable(message: str) -> Refusal:
    """A request that the gateway could not read."""
    return Refusal(400, 3, message)


def invalid(message: str) -> Refusal:
    return Refusal(400, 3, f"Invalid input error: {message}", message)


def not_found(kind: str, name: str) -> Refusal:
    message = f"{kind} {name} not found"
    return Refusal(404, 5, f"ResourceNotFoundError: {message}", message)


def already_exists(message: str) -> Refusal:
    return Refusal(409, 6, f"Already exist error: {message}", message)


def bad_request(message: str, cause: str) -> Refusal:
    """What Kubeflow calls a bad request reaches HTTP as a conflict."""
    return Refusal(409, 10, f"BadRequestError: {message}: {cause}", message)


def internal(message: str, cause: str) -> Refusal:
    return Refusal(500, 13, f"InternalServerError: {message}: {cause}", "Internal Server Error")


def unauthenticated(message: str) -> Refusal:
    return Refusal(401, 16, f"Unauthenticated: {message}: {message}", message)


def permission_denied(message: str) -> Refusal:
    return Refusal(403, 7, f"PermissionDenied: {message}: Unauthorized access", message)


@contextlib.contextmanager
def during(*steps: str) -> Iterator[None]:
    """Puts what was being done, outermost first, before the message of a refusal."""
    try:
        yield
    except Refusal as refusal:
        message = ": ".join([*steps, refusal.message])
        raise Refusal(refusal.status, refusal.code, message, refusal.innermost) from None


@contextlib.contextmanager
def failing_at(message: str) -> Iterator[None]:
    """Makes a refusal the cause of an internal error."""
    try:
        yield
    except Refusal as refusal:
        raise internal(message, refusal.message) from None
