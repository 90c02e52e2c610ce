"""Refusals of the service: a status and a JSON body with the reason."""

import json

from tests.fakes.http import Answer

_REASONS = {
    400: "invalid",
    403: "forbidden",
    404: "notFound",
    408: "requestTimeout",
    412: "conditionNotMet",
    416: "requestedRangeNotSatisfiable",
    429: "rateLimitExceeded",
    501: "notImplemented",
}


class Refusal(Exception):
    """An answer instead of a result: an HTTP status and a line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def answer(self) -> Answer:
        """Return the answer, whose body is JSON."""
        detail = {"message": self.message, "domain": "global", "reason": _REASONS.get(self.status, "backendError")}
        if self.status == 412:
            detail |= {"locationType": "header", "location": "If-Match"}
        error = {"code": self.status, "message": self.message, "errors": [detail]}
        headers = {"Content-Type": "application/json; charset=UTF-8"} | (
            {"Retry-After": "1"} if self.status == 429 else {}
        )
        return Answer(self.status, json.dumps({"error": error}).encode(), headers)


def not_served(what: str) -> Refusal:
    """Refuse features of the service that this server lacks."""
    return Refusal(501, f"{what} is not served by this server for tests")
