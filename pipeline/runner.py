"""Executes a package on this machine, stage by stage: dependencies, conditions, exit handlers, retries, exit codes.

After a failure nothing new starts but exit handlers; after an interruption nothing at all.

One thread, the caller's, decides everything; each running stage has a thread that only waits for its process:

    until nothing runs and nothing can start:
        decide every task whose dependencies have ended: skip it, take its kept result, or start it
        wait for a stage to end, or for a signal
"""

import contextlib
import dataclasses
import logging
import queue
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from components import errors, run_records
from components.errors import StageError
from components.executor import OF_THE_RUN, RunOf
from components.run_records import Note
from pipeline import processes
from pipeline.cache import Cache, key_parts, stage_of
from pipeline.containers import Containers
from pipeline.history import History
from pipeline.package import FinalStatus, Package, Task
from pipeline.processes import Call, Processes
from pipeline.resolve import Outputs, Resolver, as_text, executor_input, placeholders_of, read_outputs

log = logging.getLogger(__name__)

WAITING, RUNNING, DONE, UNCHANGED = "waiting", "running", "done", "unchanged"
FAILED, SKIPPED, NOT_RUN, INTERRUPTED = "failed", "skipped", "not run", "interrupted"
_GOOD = (DONE, UNCHANGED)
_CANNOT_START = 127
_FINAL = (errors.BAD_CONFIGURATION, errors.BAD_DATA, errors.DEFECT, errors.INTERRUPTED, errors.TERMINATED)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_SECONDS = 0.5  # at most, until a signal is noticed


@dataclasses.dataclass
class Progress:
    """How far a task is.

    Attributes:
        state: One of the words above.
        reason: Why it was skipped or run, for people.
        seconds: How long its attempts took together.
        attempts: How often it was started.
        exit_code: Of the last attempt.
        outputs: What it made.
    """

    state: str = WAITING
    reason: str = ""
    seconds: float = 0.0
    attempts: int = 0
    exit_code: int | None = None
    outputs: Outputs | None = None


@dataclasses.dataclass(frozen=True)
class _Ended:
    """A stage's thread reports that it is over."""

    task: Task
    exit_code: int
    attempts: int
    seconds: float
    outputs: Outputs | None


class Run:
    """One execution of a package.

    Args:
        package: What to execute.
        parameters: The pipeline's parameters, checked.
        root: The folder that keeps results and history.
        history: The folder of this run.
        place: Where stages run: as processes, or in containers.
        jobs: How many stages may run at once.
    """

    def __init__(
        self,
        package: Package,
        parameters: dict[str, Any],
        root: Path,
        history: History,
        place: Processes | Containers,
        jobs: int = 1,
    ) -> None:
        self.tasks = package.tasks
        self.progress = {task: Progress() for task in self.tasks}
        self.exit_code = errors.OK
        self._package, self._history, self._jobs = package, history, jobs
        self._cache = Cache(root)
        self._place = place
        self._events: queue.SimpleQueue[_Ended | int] = queue.SimpleQueue()
        self._parts: dict[Task, dict[str, Any]] = {}
        self._made: dict[Task, Outputs] = {}
        self._interrupted_by = 0
        name = f"{package.name}-{history.number:04d}"
        placeholders = placeholders_of(name, str(history.folder))
        self._resolver = Resolver(parameters, self._made, placeholders, self._final_status)
        width = max((len(task.name) for task in self.tasks), default=0)
        self._prefixes = {task: _dim(f"{task.name:>{width}} | ") for task in self.tasks}

    def execute(self) -> int:
        """Runs everything that can run and returns the exit code.

        That is the code of the first stage that failed, or 128 + N if signal N interrupted the run.
        """
        with self._signals():
            try:
                self._decide()
                while self._running():
                    self._handle(self._next_event())
                    self._decide()
            finally:
                # Nothing runs by now, unless an error (a full disk) ended the loop.
                self._place.stop(signal.SIGTERM)
        if self._interrupted_by:
            self.exit_code = 128 + self._interrupted_by
        self._write_state()
        return self.exit_code

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Brings every task as far as it can be brought without waiting."""
        for task in self.tasks:  # each comes after those that it needs
            if self.progress[task].state == WAITING:
                self._decide_waiting(task)
        self._write_state()

    def _decide_waiting(self, task: Task) -> None:
        if self._interrupted_by or (self.exit_code and not task.exit_handler):
            self._settle(task, NOT_RUN)
            return
        states = {need: self.progress[need].state for need in task.needs}
        if any(state in (WAITING, RUNNING) for state in states.values()):
            return
        blocked = next((need for need, state in states.items() if state not in _GOOD), None)
        if blocked and not task.exit_handler:
            state = SKIPPED if states[blocked] == SKIPPED else NOT_RUN
            self._settle(task, state, self.progress[blocked].reason or f"{blocked.name} {state}")
            return
        reason = skip_reason(task, self._resolver)
        if reason:
            self._settle(task, SKIPPED, reason)
        elif len(self._running()) < self._jobs and not self._take_kept(task):
            self._start(task)

    def _take_kept(self, task: Task) -> bool:
        """Whether the task's result is kept from an earlier run; if so, the task is settled with it."""
        if not task.cached:
            return False
        self._parts[task] = key_parts(task, self._resolver.inputs(task), self._place.identity(task))
        found = self._cache.look_up(task, self._parts[task])
        if found.outputs is None:
            log.info("%s: runs: %s", task.name, found.reason)
            return False
        self._made[task] = self.progress[task].outputs = found.outputs
        self._settle(task, UNCHANGED, "inputs, settings and code are unchanged")
        self._note_kept(task, found.outputs)
        log.info("%s: unchanged inputs, settings and code: not run again", task.name)
        return True

    def _note_kept(self, task: Task, outputs: Outputs) -> None:
        """Tells the run's record of a stage that is not run, as the stage itself cannot."""
        inputs = self._resolver.inputs(task)
        if stage_of(task) and inputs.keys() >= set(OF_THE_RUN):
            of_run = RunOf(*(str(inputs[name]) for name in OF_THE_RUN))
            note = Note(stage=stage_of(task), state=run_records.KEPT, outputs=outputs.parameters, exit_code=errors.OK)
            run_records.write(of_run, note)

    def _settle(self, task: Task, state: str, reason: str = "") -> None:
        self.progress[task].state, self.progress[task].reason = state, reason

    def _final_status(self, status: FinalStatus) -> dict[str, Any]:
        """How the tasks of a graph ended, as a `PipelineTaskFinalStatus` message."""
        states = [self.progress[task].state for task in status.tasks]
        broken = [task for task in status.tasks if self.progress[task].state == FAILED]
        message = "; ".join(f"{task.name}: exit code {self.progress[task].exit_code}" for task in broken)
        stopped = NOT_RUN in states or INTERRUPTED in states
        return {
            "state": "FAILED" if broken else "CANCELLED" if stopped else "SUCCEEDED",
            "pipelineJobResourceName": f"{self._package.name}-{self._history.number:04d}",
            "pipelineTaskName": status.graph,
            # 9 is FAILED_PRECONDITION of google.rpc.Code, which Kubeflow reports for a failed task.
            "error": {"code": 9, "message": message} if message else {},
        }

    def _fail(self, task: Task, code: int) -> None:
        self.progress[task].exit_code = code
        self._settle(task, FAILED)
        self.exit_code = self.exit_code or code

    # --- running ----------------------------------------------------------------------------------------------------

    def _running(self) -> list[Task]:
        return [task for task in self.tasks if self.progress[task].state == RUNNING]

    def _start(self, task: Task) -> None:
        folder = self._history.task_folder(task.name)
        message = executor_input(task, self._resolver.inputs(task), folder)
        call = Call(
            task,
            self._resolver.command(task, message),
            self._resolver.environment(task),
            folder,
            self._history.log_file(task.name),
            self._prefixes[task],
        )
        self.progress[task].state = RUNNING
        log.info("%s: starts", task.name)
        threading.Thread(target=self._attempt, args=(call, message), name=task.name).start()

    def _attempt(self, call: Call, message: dict[str, Any]) -> None:
        """In a thread: runs a stage, again where its policy says so, and reports how it ended."""
        task, started, attempt, outputs = call.task, time.monotonic(), 0, None
        while True:
            attempt += 1
            try:
                shutil.rmtree(call.folder, ignore_errors=True)
                (call.folder / "parameters").mkdir(parents=True)
                code = self._place.run(call)
                if code == errors.OK:
                    outputs = read_outputs(task, message)
            except OSError as error:
                log.error("%s: cannot be started: %s", task.name, errors.describe_os_error(error))
                code = _CANNOT_START
            except StageError as error:
                log.error("%s: %s", task.name, error)
                code = error.exit_code
            except Exception as error:
                log.error("%s: ended well, but %s", task.name, error)
                code = errors.DEFECT
            final = code in (errors.OK, _CANNOT_START, *_FINAL) or self._place.stopping.is_set()
            if final or attempt > task.retries.count:
                break
            wait = task.retries.wait_before(attempt)
            log.warning(
                "%s: %s; retry %d of %d in %g s",
                task.name,
                processes.name_of_exit(code),
                attempt,
                task.retries.count,
                wait,
            )
            if self._place.stopping.wait(wait):
                break
        self._events.put(_Ended(task, code, attempt, time.monotonic() - started, outputs))

    def _handle(self, event: _Ended | int | None) -> None:
        if event is None:
            log.error("stages did not end within %g s: killed", processes.GRACE_SECONDS)
            self._place.stop(signal.SIGKILL)
        elif isinstance(event, int):
            self._interrupt(event)
        else:
            self._end(event)

    def _next_event(self) -> "_Ended | int | None":
        """The next event; None when an interruption has taken longer than stages are given."""
        # A signal that arrives just before the wait, or that another thread takes, does not end the wait: Python runs
        # its handler in this thread, and only between waits.
        while not self._interrupted_by:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=_SIGNAL_SECONDS)
        try:
            return self._events.get(timeout=max(self._deadline - time.monotonic(), 1.0))
        except queue.Empty:
            return None

    def _end(self, ended: _Ended) -> None:
        task, progress = ended.task, self.progress[ended.task]
        progress.attempts, progress.seconds = ended.attempts, ended.seconds
        progress.exit_code, progress.outputs = ended.exit_code, ended.outputs
        if ended.outputs is not None:
            self._made[task] = ended.outputs
            if task in self._parts:
                self._cache.keep(task, self._parts[task], ended.outputs, self._history.number)
            self._settle(task, DONE)
            made = as_text(ended.outputs.parameters.get("summary", ""))
            log.info("%s: done in %.1f s%s", task.name, ended.seconds, f": {made}" if made else "")
        elif self._interrupted_by:
            self._settle(task, INTERRUPTED)
            log.info("%s: interrupted", task.name)
        else:
            self._fail(task, ended.exit_code)
            log.error(
                "%s: failed (%s); its log is %s",
                task.name,
                processes.name_of_exit(ended.exit_code),
                self._history.log_file(task.name),
            )

    # --- interruption -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Turns signals into events while the run lasts.

        SIGINT and SIGHUP stay ignored if they are, as under nohup, in cron and behind a script's `&`.
        """

        def note(signum: int, frame: FrameType | None) -> None:
            self._events.put(signum)

        before = {}
        for signum in _SIGNALS:
            if signum == signal.SIGTERM or signal.getsignal(signum) != signal.SIG_IGN:
                before[signum] = signal.signal(signum, note)
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)

    def _interrupt(self, signum: int) -> None:
        """The first signal asks the stages to end, the second kills them."""
        if self._interrupted_by:
            log.warning("killed")
            self._place.stop(signal.SIGKILL)
            return
        self._interrupted_by = signum
        self._deadline = time.monotonic() + processes.GRACE_SECONDS
        names = ", ".join(task.name for task in self._running())
        log.warning("%s: waiting for %s to end; once more kills", signal.Signals(signum).name, names)
        self._place.stop(signal.SIGTERM)

    def _write_state(self) -> None:
        tasks = {
            task.name: {
                "state": progress.state,
                "reason": progress.reason,
                "attempts": progress.attempts,
                "exit_code": progress.exit_code,
                "image": self._place.image(task),
                "seconds": round(progress.seconds, 3),
                "outputs": progress.outputs.parameters if progress.outputs else {},
            }
            for task, progress in self.progress.items()
        }
        self._history.write_state({"exit_code": self.exit_code, "tasks": tasks})


def skip_reason(task: Task, resolver: Resolver) -> str:
    """Why a task is skipped, in the value that its condition asks for; empty if all its conditions hold."""
    for condition in task.conditions:
        value = resolver.value(condition.source)
        if value != condition.value:
            return f"{condition.source.name} {as_text(value)}"
    return ""


def _dim(text: str) -> str:
    return f"\033[2m{text}\033[0m" if sys.stderr.isatty() else text
