"""SIGTERM and Ctrl-C in a stage: its exit code, and signals that its parent ignores."""

import signal

import pytest

from tests.programs import ignoring
from tests.unit.components.core.stage import stand_in


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_end_a_stage_with_their_codes(number: signal.Signals, code: int) -> None:
    with stand_in.started("--source", "wait") as process:
        process.send_signal(number)
        _, reported = process.communicate()
    assert process.returncode == code
    assert "again to resume" in reported
    assert "Traceback" not in reported


@pytest.mark.parametrize(("source", "said"), [("wait", ""), ("defer", f"stopped by {signal.SIGTERM.value}\n")])
def test_a_stage_started_with_sigint_ignored_stops_on_sigterm_alone(source: str, said: str) -> None:
    with ignoring(signal.SIGINT):
        process = stand_in.started("--source", source)
    with process:
        process.send_signal(signal.SIGINT)  # arrives first: Python handles pending signals by their numbers
        process.send_signal(signal.SIGTERM)
        output, log = process.communicate()
    assert (process.returncode, output) == (143, said), log
    assert "terminated" in log
