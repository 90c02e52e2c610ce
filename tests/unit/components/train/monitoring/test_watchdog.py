import subprocess
import sys
import threading

from components.core import errors
from components.train.monitoring.watchdog import Watchdog

HANGS = """
import logging, time
from components.train.monitoring.watchdog import Watchdog
logging.basicConfig()
def hanging():
    while True:
        time.sleep(60)
with Watchdog(tick_seconds=0.001) as watchdog:
    watchdog.beat()
    hanging()
"""


def hangs_after(watchdog: Watchdog, ticks: int) -> bool:
    return not any(watchdog.tick() for _ in range(ticks)) and watchdog.tick()


def test_a_hang_ends_the_process_and_shows_where_it_was() -> None:
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, check=False)
    assert done.returncode == errors.TRANSIENT, done.stderr
    assert "in hanging" in done.stderr


def test_nothing_is_awaited_before_the_first_beat() -> None:
    watchdog = Watchdog()
    assert not any(watchdog.tick() for _ in range(1000))
    watchdog.beat()
    assert hangs_after(watchdog, 30)


def test_a_wait_of_20_times_the_longest_before_is_allowed() -> None:
    """No time passes here: ticks are counted and not seconds, so that a pause of the process does not end it."""
    watchdog = Watchdog()
    for ticks in (0, 3, 1):
        watchdog.beat()
        assert not any(watchdog.tick() for _ in range(ticks))
    watchdog.beat()
    assert hangs_after(watchdog, 60)


def test_after_its_block_it_watches_no_longer() -> None:
    with Watchdog(tick_seconds=0.001) as watchdog:
        pass
    watchdog.beat()
    for thread in threading.enumerate():
        if thread.name == "watchdog":
            thread.join()  # it has ended, or it ends this process
