"""Tests for watchdog.py, each in a process of its own, as it may be ended."""

import signal
import subprocess
import sys
import time

import pytest

from components.core import errors

PROCESS = """
import logging, time
from components.train.watchdog import Watchdog
logging.basicConfig()
def hanging():
    time.sleep(60)
with Watchdog(tick_seconds=0.1, ticks=5) as heart:
    print("begun", flush=True)
    {}
print("alive")
"""


def begun(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS.format(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_hang_is_ended_and_it_is_told_where_it_was() -> None:
    process = begun("heart.beat(); hanging()")
    _, said = process.communicate()
    assert process.returncode == errors.TRANSIENT
    assert "no step for" in said
    assert "in hanging" in said
    assert "Thread" in said


@pytest.mark.slow
def test_before_the_first_beat_after_the_end_and_between_beats_nothing_is_awaited() -> None:
    """The last: a pause of 20 times as long as any before is allowed."""
    process = begun(
        "time.sleep(1); heart.beat(); time.sleep(0.35); heart.beat(); time.sleep(1.5); heart.end(); time.sleep(1)"
    )
    said = process.communicate()
    assert process.returncode == 0, said
    assert "alive" in said[0]


@pytest.mark.slow
def test_a_process_that_was_paused_is_not_ended_when_it_wakes() -> None:
    process = begun("heart.beat(); [(time.sleep(0.05), heart.beat()) for _ in range(40)]")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    said = process.communicate()
    assert process.returncode == 0, said
