"""Many requests in the body of one, and their answers in the body of one."""

import email.parser
import email.policy
import http
from collections.abc import Callable
from email.message import Message
from typing import Any

from tests.fakes.gcs.refusals import Refusal

_BOUNDARY = "batch_of_answers"
_MOST = 100  # as the service allows


def answer(
    headers: Message, body: bytes, act: Callable[[str, str, Message, bytes], Any]
) -> tuple[bytes, dict[str, str]]:
    """The body and the headers of the answer to a batch, each request of which is acted upon in its turn."""
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    whole = parser.parsebytes(b"Content-Type: " + headers.get("Content-Type", "").encode() + b"\r\n\r\n" + body)
    if not whole.is_multipart():
        raise Refusal(400, "Failed to parse batch request: no parts.")
    requests = list(whole.iter_parts())
    if len(requests) > _MOST:
        raise Refusal(400, f"The batch request has {len(requests)} calls; {_MOST} are allowed.")
    answers = []
    for request in requests:
        content: Any = request.get_payload(decode=True)
        first, _, rest = content.lstrip().replace(b"\r\n", b"\n").partition(b"\n")
        method, target, _ = first.decode().split(" ")
        inner = email.parser.BytesParser().parsebytes(rest)
        text: Any = inner.get_payload(decode=True)
        found = act(method, target, inner, text)
        lines = [f"HTTP/1.1 {found.status} {http.HTTPStatus(found.status).phrase}"]
        lines += [f"{key}: {value}" for key, value in found.headers.items()]
        lines += [f"Content-Length: {len(found.body)}", "", found.body.decode()]
        number = request.get("Content-ID", "<0>").strip().removeprefix("<").removesuffix(">")
        part = ["Content-Type: application/http", f"Content-ID: <response-{number}>", "", *lines]
        answers.append("\r\n".join([f"--{_BOUNDARY}", *part]))
    body = "\r\n".join([*answers, f"--{_BOUNDARY}--", ""]).encode()
    return body, {"Content-Type": f"multipart/mixed; boundary={_BOUNDARY}"}
