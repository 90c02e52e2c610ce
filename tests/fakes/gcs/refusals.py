"""Refusals of the service: a status and a JSON body with a line."""

import json

from tests.fakes.http import Answer


class Refusal(Exception):
    """An answer instead of a result: an HTTP status and a line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def answer(self) -> Answer:
        """Return the answer, whose body is JSON."""
        error = {"code": self.status, "message": self.message, "errors": [{"message": self.message}]}
        headers = {"Content-Type": "application/json; charset=UTF-8"} | (
            {"Retry-After": "1"} if self.status == 429 else {}
        )
        return Answer(self.status, json.dumps({"error": error}).encode(), headers)


def not_served(feature: str) -> Refusal:
    """Refuse features of the service that this server lacks."""
    return Refusal(501, f"{feature} is not served by this server for tests")
