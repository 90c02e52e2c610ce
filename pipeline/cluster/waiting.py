"""Wait for the end of a run: print a line for each stage whose state changes, and return how it ended."""

import datetime
import logging
import time

from components.core.errors import OK, TransientError
from components.core.reporting.text import duration
from pipeline.cluster import backend
from pipeline.cluster.backend import RunStatus, Server, StageStatus

log = logging.getLogger("pipeline")

FAILED, CANCELED, TIMED_OUT = 1, 3, 4
EXIT_CODES = {backend.SUCCEEDED: OK, backend.SKIPPED: OK, backend.FAILED: FAILED, backend.CANCELED: CANCELED}
EXIT_CODES_HELP = (
    "With --wait the exit code is 0 if the run succeeded, 1 if it failed, 3 if it was canceled and 4 if --timeout "
    "passed before its end."
)
# Seconds between requests, without a line, and without an answer.
POLL_SECONDS = 5.0
HEARTBEAT_SECONDS = 60.0
PATIENCE_SECONDS = 600.0


def wait(server: Server, run_id: str, timeout: float | None) -> RunStatus | None:
    """Wait for the end of a run, for `timeout` seconds at most; return None if they passed before.

    Raise what the server raises: a `TransientError` only after nobody answered for ten minutes.
    """
    began = answered = logged = time.monotonic()
    shown: dict[str, tuple[str, str]] = {}
    state, away, hinted = "", False, False
    while True:
        try:
            run = server.status(run_id)
        except TransientError as error:
            if time.monotonic() - answered > PATIENCE_SECONDS:
                raise
            if not away:
                log.warning("%s; the run continues, and the request is repeated", error)
            away = True
        else:
            if away:
                log.info("the server answers again")
            answered, away = time.monotonic(), False
            for stage in run.stages:
                if shown.get(stage.name) != (stage.state, stage.message):
                    after = f" after {elapsed(stage)}" if stage.started and stage.finished else ""
                    log.info("%s", f"{stage.name}: {stage.state.lower()}{after}: {stage.message}".removesuffix(": "))
                    shown[stage.name], logged = (stage.state, stage.message), answered
            if run.state != state:
                log.info("run %s is %s", run_id, run.state.lower())
                state, logged = run.state, answered
            elif answered - logged >= HEARTBEAT_SECONDS:
                active = ", ".join(stage.name for stage in run.stages if stage.state == backend.RUNNING)
                still = f"still {state.lower()} after {duration(answered - began)}: {active}"
                log.info("%s", still.removesuffix(": "))
                logged = answered
                if not hinted and (hint := server.hint_for_waiting(run_id)):
                    log.info("%s", hint)
                hinted = True
            if run.state in backend.ENDED:
                return run
        left = POLL_SECONDS if timeout is None else began + timeout - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(POLL_SECONDS, left))


def elapsed(status: RunStatus | StageStatus) -> str:
    """Return how long a run or a stage took, or has taken so far, as text; empty if it has not begun."""
    started = status.created if isinstance(status, RunStatus) else status.started
    if started is None:
        return ""
    end = status.finished or datetime.datetime.now(datetime.UTC)
    return duration(max((end - started).total_seconds(), 0.0))
