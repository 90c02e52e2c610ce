"""How the service refuses: a status and a body of JSON that names the reason."""

import json

_REASONS = {
    400: "invalid",
    403: "forbidden",
    404: "notFound",
    408: "requestTimeout",
    411: "required",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    429: "rateLimitExceeded",
    501: "notImplemented",
}


class Refusal(Exception):
    """What a request is answered with instead of a result.

    Attributes:
        status: Of HTTP.
        message: One line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def body(self) -> bytes:
        """The body of the answer, JSON."""
        detail = {"message": self.message, "domain": "global", "reason": _REASONS.get(self.status, "backendError")}
        if self.status == 412:
            detail |= {"locationType": "header", "location": "If-Match"}
        return json.dumps({"error": {"code": self.status, "message": self.message, "errors": [detail]}}).encode()


def not_served(what: str) -> Refusal:
    """What the service may know and this server does not; to pass over it in silence would be a lie."""
    return Refusal(501, f"{what} is not served by this server for tests")
