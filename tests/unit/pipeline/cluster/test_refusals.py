"""Recorded answers of servers, each reported as one line with the right exit code."""

import json
import os
from pathlib import Path
from typing import Any

import kfp_server_api
import pytest
import urllib3

from components.core import errors
from components.core.errors import ConfigError, StageError, TransientError
from pipeline.cluster import refusals

_PROBE = Path(os.environ.get("KFP_PROBE_DIR", os.devnull))
_HOST = "http://kubeflow.example"
_EMPTY = "Internal Server Error"
_UNKNOWN = 'proto:\xa0(line 1:285): unknown field "nonsense"'


def answered(status: int, body: Any) -> kfp_server_api.ApiException:
    """The exception that the generated client raises for an answer."""
    error = kfp_server_api.ApiException(status=status, reason="")
    error.body = body if isinstance(body, str) else json.dumps(body)
    error.headers = {"Location": "/dex/auth"}
    return error


def explained(error: Exception) -> StageError:
    """The one line for an error of a request."""
    with pytest.raises(StageError) as raised, refusals.kubeflow("do it", _HOST):
        raise error
    assert "\n" not in str(raised.value)
    return raised.value


def recorded(case: dict[str, Any]) -> kfp_server_api.ApiException:
    """A recorded answer, in the shape in which it came."""
    if "error_message" in case:
        return answered(case["status"], {"error_message": case["error_message"], "error_details": "x: y"})
    if "body" in case:
        return answered(case["status"], case["body"])
    kind = "type.googleapis.com/google.rpc.Status"
    details = [{"@type": kind, "code": case["code"], "message": case["innermost"]}] if "innermost" in case else []
    return answered(case["status"], {"code": case["code"], "message": case["message"], "details": details})


@pytest.mark.skipif(not _PROBE.is_dir(), reason="no answers of a Kubeflow server: set KFP_PROBE_DIR to their folder")
def test_each_recorded_error_is_one_clear_line() -> None:
    cases = [json.loads(text) for text in (_PROBE / "answers.jsonl").read_text().splitlines()]
    refused = [case for case in cases if isinstance(case["status"], int) and case["status"] >= 400]
    assert len(refused) > 60
    for case in refused:
        error = explained(recorded(case))
        message = str(error)
        assert message.startswith("cannot do it: the server "), case
        assert "\xa0" not in message, case
        assert len(message) < 500, case
        for leftover in ('"code"', "@type", '"message"', "error_message", "HTTP response", "Traceback"):
            assert leftover not in message, case
        passing = case["status"] >= 500 and case["status"] != 501
        assert error.exit_code == (errors.TRANSIENT if passing else errors.BAD_CONFIGURATION), case
        cause = case.get("innermost", "")
        if cause and cause != _EMPTY and len(cause) < 300 and "unknown field" not in cause:
            assert " ".join(cause.split()) in message, case


_WHY: dict[str, Any] = {"code": 5, "message": "it is so", "details": [{"message": "it is so"}]}


@pytest.mark.parametrize(
    ("error", "kind", "shown"),
    [
        # Of a chain the innermost cause counts, unless it is empty.
        (answered(400, {"code": 3, "message": "A: B: C", "details": [{"message": "C"}]}), ConfigError, ": C (400)"),
        (answered(500, {"message": "A: B", "details": [{"message": _EMPTY}]}), TransientError, ": A: B (500)"),
        (answered(400, {"code": 3, "message": _UNKNOWN}), ConfigError, " nonsense, which 2.16.1 "),
        (answered(302, _WHY), ConfigError, "/dex/auth"),
        (answered(429, _WHY), TransientError, "(429)"),
        (answered(503, _WHY), TransientError, "(503)"),
        (urllib3.exceptions.ConnectTimeoutError(None, "timed out"), TransientError, _HOST),
        (urllib3.exceptions.ProtocolError("Connection aborted."), TransientError, ": Connection aborted: "),
        (urllib3.exceptions.SSLError("CERTIFICATE_VERIFY_FAILED"), ConfigError, "--ca-cert"),
        (kfp_server_api.ApiException(status=0, reason="SSLError\nself-signed certificate"), ConfigError, "--ca-cert"),
    ],
)
def test_cause_and_remedy_are_reported(error: Exception, kind: type[StageError], shown: str) -> None:
    line = explained(error)
    assert type(line) is kind
    assert shown in str(line)


def test_a_defect_of_ours_stays_one() -> None:
    with pytest.raises(ZeroDivisionError), refusals.kubeflow("do it", _HOST):
        raise ZeroDivisionError
