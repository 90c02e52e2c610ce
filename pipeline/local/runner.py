"""Executes a package on this machine, stage by stage: dependencies, conditions, exit handlers, retries, exit codes.

After a failure nothing new starts but exit handlers; after an interruption nothing at all.

One thread, the caller's, decides everything; each running stage has a thread that only waits for its process:

    until nothing runs and nothing can start:
        decide every task whose dependencies have ended: skip it, take its cached result, or start it
        wait for a stage to end, or for a signal
"""

import contextlib
import dataclasses
import functools
import logging
import math
import queue
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core import errors
from components.core.errors import StageError
from components.core.stage import logs, run_notes
from components.core.stage.executor import OF_THE_RUN, RunOf
from components.core.stage.run_notes import Note
from pipeline.local import estimates, processes
from pipeline.local.cache import Cache, key_parts
from pipeline.local.containers import Containers
from pipeline.local.display import Display
from pipeline.local.estimates import Estimates
from pipeline.local.history import History
from pipeline.local.processes import Call, Processes
from pipeline.local.progress import DONE, FAILED, INTERRUPTED, NOT_RUN, RUNNING, SKIPPED, UNCHANGED, WAITING, Progress
from pipeline.package.reader import FinalStatus, Package, Task
from pipeline.package.values import Resolver, Unknown, as_text, executor_input, placeholders_of, read_outputs

log = logging.getLogger(__name__)

_GOOD = (DONE, UNCHANGED)
_CANNOT_START = 127
_SIGNAL_SECONDS = 0.5  # longest delay until a signal is noticed


class Run:
    """One execution of a package with checked parameters; keeps results under the root."""

    def __init__(
        self,
        package: Package,
        parameters: dict[str, Any],
        root: Path,
        history: History,
        executor: Processes | Containers,
        jobs: int = 1,  # stages that may run at once
    ) -> None:
        self.tasks = package.tasks
        self.progress = {task: Progress() for task in self.tasks}
        self.exit_code = errors.OK
        self._history, self._executor, self._jobs, self._cache = history, executor, jobs, Cache(root)
        self._events: queue.SimpleQueue[tuple[Task, Progress] | int] = queue.SimpleQueue()
        self._parts: dict[Task, dict[str, Any]] = {}
        self._made: dict[Task, dict[str, Any]] = {}
        self._interrupted_by, self._deadline = 0, math.inf
        self._name = f"{package.name}-{history.number:04d}"
        placeholders = placeholders_of(self._name, str(history.folder))
        self._estimates = Estimates(root, parameters)
        self._resolver = Resolver(parameters, self._made, placeholders, self._final_status)
        self._display = Display(task.name for task in self.tasks)

    @property
    def interrupted(self) -> bool:
        """True if a signal ended the run."""
        return self._interrupted_by > 0

    def execute(self) -> int:
        """Run everything that can run and return the exit code.

        That is the code of the first stage that failed, or 128 + N if signal N interrupted the run.
        """
        # Signals become events while the run lasts.
        with processes.handling_signals(lambda signum, _: self._events.put(signum)), self._display:
            try:
                self._decide()
                while self._running():
                    self._wait()
                    self._decide()
            finally:
                # Nothing runs by now, unless an error (a full disk) ended the loop.
                self._executor.stop(signal.SIGTERM)
        if self._interrupted_by:
            self.exit_code = 128 + self._interrupted_by
        self._write_state()
        return self.exit_code

    # --- deciding ---------------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        """Bring every task as far as possible without waiting."""
        for task in self.tasks:  # in an order that respects dependencies
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
        held_back = unmet_condition(task, self._resolver)
        if held_back:
            self._settle(task, SKIPPED, str(held_back))
        elif len(self._running()) < self._jobs and not self._take_kept(task):
            self._start(task)

    def _take_kept(self, task: Task) -> bool:
        """Settle a task with the cached result of an earlier run; return whether there is one."""
        inputs = self._resolver.inputs(task)
        parts = key_parts(task, inputs, self._executor.code)
        if parts is None:
            return False
        self._parts[task] = parts
        found = self._cache.look_up(task.name, parts, self._executor.maker(task))
        if found.outputs is None:
            log.info("%s: runs: %s", task.name, found.reason)
            return False
        self._made[task] = self.progress[task].outputs = found.outputs
        self._settle(task, UNCHANGED, unchanged(found.reason))
        if inputs.keys() >= set(OF_THE_RUN):  # a stage that is not run cannot write its note
            note = Note(stage=task.stage, state=run_notes.REUSED, outputs=found.outputs, exit_code=errors.OK)
            run_notes.write(RunOf(*(str(inputs[name]) for name in OF_THE_RUN)), note)
        log.info("%s: reused: %s", task.name, unchanged(found.reason))
        return True

    def _settle(self, task: Task, state: str, reason: str = "") -> None:
        self.progress[task].state, self.progress[task].reason = state, reason

    def _final_status(self, status: FinalStatus) -> dict[str, Any]:
        """Return how the tasks of a graph ended, as a `PipelineTaskFinalStatus` message."""
        states = [self.progress[task].state for task in status.tasks]
        broken = [task for task in status.tasks if self.progress[task].state == FAILED]
        message = "; ".join(f"{task.name}: exit code {self.progress[task].exit_code}" for task in broken)
        stopped = NOT_RUN in states or INTERRUPTED in states
        return {
            "state": "FAILED" if broken else "CANCELLED" if stopped else "SUCCEEDED",
            "pipelineJobResourceName": self._name,
            "pipelineTaskName": status.graph,
            # 9 is FAILED_PRECONDITION of google.rpc.Code, which Kubeflow reports for a failed task.
            "error": {"code": 9, "message": message} if message else {},
        }

    # --- running ----------------------------------------------------------------------------------------------------

    def _running(self) -> list[Task]:
        return [task for task in self.tasks if self.progress[task].state == RUNNING]

    def _start(self, task: Task) -> None:
        inputs = self._resolver.inputs(task)
        show = functools.partial(self._display.show, task.name)
        call = call_of(task, self._resolver, inputs, self._history.folder / task.name, show)
        self.progress[task].state = RUNNING
        log.info("%s: starts (%s)", task.name, self._display.place(task.name))
        if task.stage == "train":
            self._log_estimate(task, inputs)
        self._display.begin(task.name)
        threading.Thread(target=self._attempt, args=(call,), name=task.name).start()

    def _log_estimate(self, training: Task, inputs: dict[str, Any]) -> None:
        left = [task for task in self.tasks if self.progress[task].state in (WAITING, RUNNING)]
        seconds = {task.name: self._estimates.of(task.stage, self._resolver.inputs(task)) for task in left}
        words = [self._estimates.advice(inputs), estimates.total(seconds)]
        log.info("%s: %s", training.name, "; ".join(filter(None, words)))

    def _attempt(self, call: Call) -> None:
        """In a thread: run a stage, again where its policy says so, and report how it ended."""
        task, started, attempt = call.task, time.monotonic(), 0
        while True:
            attempt += 1
            code, outputs = self._run_once(call)
            final = code in (_CANNOT_START, *errors.FINAL) or self._executor.stopping.is_set()
            if final or attempt > task.retries.count:
                break
            wait = task.retries.wait_before(attempt)
            reason = processes.name_of_exit(code)
            log.warning("%s: %s; retry %d of %d in %g s", task.name, reason, attempt, task.retries.count, wait)
            if self._executor.stopping.wait(wait):
                break
        ended = Progress(RUNNING, "", time.monotonic() - started, attempt, code, outputs)
        self._events.put((task, ended))

    def _run_once(self, call: Call) -> tuple[int, dict[str, Any] | None]:
        """Run a stage; return its exit code, and its outputs if it succeeded."""
        try:
            shutil.rmtree(call.folder, ignore_errors=True)
            (call.folder / "parameters").mkdir(parents=True)
            code = self._executor.run(call)
        except OSError as error:
            log.error("%s: cannot be started: %s", call.task.name, errors.describe_os_error(error))
            return _CANNOT_START, None
        except StageError as error:
            log.error("%s: %s", call.task.name, error)
            return error.exit_code, None
        except Exception:  # otherwise the run would wait forever for this thread's report
            log.exception("%s: a defect of this program", call.task.name)
            return errors.DEFECT, None
        if code:
            return code, None
        try:
            return code, read_outputs(call.task, call.folder)
        except (OSError, ValueError) as error:
            log.error("%s: succeeded, but %s", call.task.name, error)
            return errors.DEFECT, None

    def _wait(self) -> None:
        """Wait for the next event; kill stages that exceed their time to end."""
        # A signal just before the wait, or one that another thread takes, does not end the wait: Python runs its
        # handler in this thread, and only between waits.
        event = None
        while event is None:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=_SIGNAL_SECONDS)
            if event is None and time.monotonic() > self._deadline:
                log.error("stages did not end within %g s", processes.GRACE_SECONDS)
                self._kill()
        if isinstance(event, int):
            self._interrupt(event)
        else:
            self._end(*event)

    def _end(self, task: Task, ended: Progress) -> None:
        self.progress[task] = ended
        work = self._display.end(task.name)
        if ended.outputs is not None:
            self._made[task] = ended.outputs
            if task in self._parts:
                maker, number = self._executor.maker(task), self._history.number
                self._cache.keep(task.name, self._parts[task], maker, ended.outputs, number)
            if task.stage == "train":
                estimates.learn(self._resolver.inputs(task), ended.outputs)
            self._settle(task, DONE)
            made = as_text(ended.outputs.get("summary", ""))
            log.info("%s: done in %.1f s%s", task.name, ended.seconds, f": {made}" if made else "")
        elif self._interrupted_by:
            self._settle(task, INTERRUPTED)
            kept = f"; {work.unit} {work.kept:,} of {work.of:,} is kept" if work and work.kept else ""
            log.info("%s: interrupted%s", task.name, kept)
        else:
            code = ended.exit_code or errors.DEFECT
            self.exit_code = self.exit_code or code
            self._settle(task, FAILED)
            file = self._history.folder / f"{task.name}.log"
            log.error("%s: failed (%s); its log is %s", task.name, processes.name_of_exit(code), file)

    # --- interruption -----------------------------------------------------------------------------------------------

    def _interrupt(self, signum: int) -> None:
        """Ask the stages to end; at the second signal, kill them."""
        if self._interrupted_by:
            self._kill()
            return
        self._interrupted_by = signum
        self._deadline = time.monotonic() + processes.GRACE_SECONDS
        names = ", ".join(task.name for task in self._running())
        log.info("%s: waiting for %s to end; interrupt again to kill", signal.Signals(signum).name, names)
        self._executor.stop(signal.SIGTERM)

    def _kill(self) -> None:
        if self._deadline < math.inf:
            self._deadline = math.inf
            log.warning("killed")
            self._executor.stop(signal.SIGKILL)

    def _write_state(self) -> None:
        tasks = {
            task.name: {
                **dataclasses.asdict(progress),
                "image": self._executor.image(task),
                "seconds": round(progress.seconds, 3),
                "outputs": progress.outputs or {},
            }
            for task, progress in self.progress.items()
        }
        self._history.write_state({"exit_code": self.exit_code, "tasks": tasks})


def call_of(
    task: Task, resolver: Resolver, inputs: dict[str, Any], folder: Path, show: Callable[[str | logs.Record], None]
) -> Call:
    """Return how to start a task; its log is beside its folder."""
    words = resolver.command(task, executor_input(task, inputs, folder))
    return Call(task, words, folder, folder.parent / f"{task.name}.log", show)


def unmet_condition(task: Task, resolver: Resolver) -> str | Unknown:
    """Return the first unmet condition, as `NAME VALUE`, or whose value is unknown; empty for none."""
    for condition in task.conditions:
        value = resolver.value(condition.source)
        if value != condition.value:
            return value if isinstance(value, Unknown) else f"{condition.source.name} {as_text(value)}"
    return ""


def unchanged(differing: str) -> str:
    """Return why a stage is not run; name changed libraries and images."""
    return "its inputs, settings and code are unchanged" + (f" (decides nothing: {differing})" if differing else "")
