"""Executes the pipeline on this machine, step by step: dependencies, conditions, retries, exit codes.

After a failure nothing new starts but the step that always runs; after an interruption nothing at all. One thread, the
caller's, decides everything; each running stage has a thread that only waits for its process.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core import errors, stages
from components.core.errors import StageError
from components.core.stage import run_notes, signals
from components.core.stage.executor import RUN_INPUTS
from components.core.storage.location import Location
from pipeline.local import cache, estimates, history, processes
from pipeline.local.containers import Executor
from pipeline.local.display import Display
from pipeline.local.history import DONE, FAILED, INTERRUPTED, NOT_RUN, RUNNING, SKIPPED, UNCHANGED, WAITING, TaskState
from pipeline.local.values import Values, executor_input, read_outputs
from pipeline.step_table import NAME, Step

log = logging.getLogger(__name__)

_GOOD = (DONE, UNCHANGED)
_CANNOT_START = 127
_SIGNAL_SECONDS = 0.5  # longest delay until a signal is noticed


class Run:
    """One execution of the steps with checked parameters; keeps results under the root of the history."""

    def __init__(
        self,
        steps: Sequence[Step],
        parameters: dict[str, Any],
        run_history: history.History,
        executor: Executor,
        jobs: int = 1,  # stages that may run at once
    ) -> None:
        self.tasks = {step.stage: TaskState(image=executor.maker(step).get("image", "")) for step in steps}
        self.exit_code = errors.OK
        self._steps, self._history, self._executor, self._jobs = steps, run_history, executor, jobs
        self._events: queue.SimpleQueue[tuple[Step, TaskState] | int] = queue.SimpleQueue()
        self._past = history.read(run_history.root)
        self._estimate = functools.partial(estimates.of, runs=self._past, parameters=parameters)
        self.interrupted_by, self._deadline = 0, math.inf  # the signal that ended the run, 0 for none
        self._values = Values(parameters, f"{NAME}-{run_history.number:04d}")
        self._display = Display(step.stage for step in steps)

    def execute(self) -> int:
        """Run what can run; return the exit code of the first failed stage, or 128 + N if signal N interrupted it."""
        # Signals become events while the run lasts.
        with signals.handled(lambda signum, _: self._events.put(signum)), self._display:
            try:
                while self._decide():
                    self._wait()
            finally:
                # Nothing runs by now, unless an error (a full disk) ended the loop.
                self._executor.stop(signal.SIGTERM)
        if self.interrupted_by:
            self.exit_code = 128 + self.interrupted_by
        self._history.write_state(self.exit_code, self.tasks)
        return self.exit_code

    def _decide(self) -> list[str]:
        """Bring every step as far as possible without waiting; return the stages that run."""
        for step in self._steps:  # in an order that respects dependencies
            states = {need: self.tasks[need].state for need in step.needs}
            if self.tasks[step.stage].state != WAITING:
                continue
            if self.interrupted_by or (self.exit_code and not step.always):
                self._settle(step, NOT_RUN)
            elif WAITING in states.values() or RUNNING in states.values():
                continue
            elif not step.always and (blocked := [need for need, state in states.items() if state not in _GOOD]):
                state = SKIPPED if states[blocked[0]] == SKIPPED else NOT_RUN
                self._settle(step, state, self.tasks[blocked[0]].reason or f"{blocked[0]} {state}")
            elif unmet := self._values.unmet_condition(step):
                self._settle(step, SKIPPED, str(unmet))
            elif len(self._running()) < self._jobs:
                self._begin(step)
        self._history.write_state(self.exit_code, self.tasks)
        return self._running()

    def _begin(self, step: Step) -> None:
        """Settle a step with the cached result of an earlier run, or start it."""
        stage, inputs, task = step.stage, self._inputs(step), self.tasks[step.stage]
        result, reason = cache.look_up(self._past, step, inputs, self._executor)
        task.parts, task.maker, task.outputs = result.parts, result.maker, result.outputs
        if task.outputs is not None:
            self._values.add(step, task.outputs)
            self._settle(step, UNCHANGED, reason)
            # A stage that is not run cannot write its note.
            note = run_notes.Note(stage=stage, state=run_notes.REUSED, outputs=task.outputs, exit_code=errors.OK)
            records, run = (str(inputs[name]) for name in RUN_INPUTS)
            run_notes.write(Location.of(records) / run, note)
            log.info("%s: reused: %s", stage, reason)
            return
        if step.cached:
            log.info("%s: runs: %s", stage, reason)
        self._settle(step, RUNNING)
        log.info("%s: starts (%s)", stage, self._display.place(stage))
        if stage == "train":
            coming = [step for step in self._steps if self.tasks[step.stage].state in (WAITING, RUNNING)]
            estimated = {step.stage: self._estimate(step.stage, self._values.inputs(step)) for step in coming}
            total = estimates.total({name: seconds for name, (seconds, _) in estimated.items()})
            log.info("train: %s", "; ".join(filter(None, [estimated[stage][1], total])))
        self._display.begin(stage)
        threading.Thread(target=self._attempt, args=(step, inputs), name=stage).start()

    def _settle(self, step: Step, state: str, reason: str = "") -> None:
        self.tasks[step.stage].state, self.tasks[step.stage].reason = state, reason

    def _inputs(self, step: Step) -> dict[str, Any]:
        """Return its inputs, with how the other steps ended if it gets that, as a `PipelineTaskFinalStatus` message."""
        inputs = self._values.inputs(step)
        if not step.row.status:
            return inputs
        others = {step.stage: self.tasks[step.stage] for step in self._steps if not step.always}
        failed = [f"{stage}: exit code {task.exit_code}" for stage, task in others.items() if task.state == FAILED]
        stopped = any(task.state in (NOT_RUN, INTERRUPTED) for task in others.values())
        inputs[step.row.status] = {
            "state": "FAILED" if failed else "CANCELLED" if stopped else "SUCCEEDED",
            "error": {"message": "; ".join(failed)} if failed else {},
        }
        return inputs

    def _running(self) -> list[str]:
        return [stage for stage, task in self.tasks.items() if task.state == RUNNING]

    def _attempt(self, step: Step, inputs: dict[str, Any]) -> None:
        """In a thread: run a stage, again where its policy says so, and report how it ended."""
        stage, started, attempt = step.stage, time.monotonic(), 0
        outputs: dict[str, Any] | None
        while True:
            attempt += 1
            code, outputs = errors.DEFECT, None
            try:
                code, outputs = run_stage(self._executor, step, inputs, self._history.folder / stage, self._display)
            except OSError as error:
                log.error("%s: cannot be started: %s", stage, errors.describe_os_error(error))
                code = _CANNOT_START
            except StageError as error:
                log.error("%s: %s", stage, error)
                code = error.exit_code
            except Exception:  # otherwise the run would wait forever for this thread's report
                log.exception("%s: a defect of this program", stage)
            final = code in (_CANNOT_START, *errors.FINAL) or self._executor.stopping.is_set()
            if final or attempt > step.retries:
                break
            wait = step.first_wait * 2 ** (attempt - 1)
            reason = processes.name_of_exit(code)
            log.warning("%s: %s; retry %d of %d in %g s", stage, reason, attempt, step.retries, wait)
            if self._executor.stopping.wait(wait):
                break
        task, seconds = self.tasks[stage], round(time.monotonic() - started, 3)
        task = dataclasses.replace(task, seconds=seconds, attempts=attempt, exit_code=code, outputs=outputs)
        self._events.put((step, task))

    def _wait(self) -> None:
        """Wait for the next event; kill stages that exceed their time to end, or at a second signal."""
        # A signal just before the wait, or one that another thread takes, does not end the wait: Python runs its
        # handler in this thread, and only between waits.
        event = None
        while event is None:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=_SIGNAL_SECONDS)
            if event is None and time.monotonic() > self._deadline:
                log.error("stages did not end within %g s", processes.GRACE_SECONDS)
                event = self.interrupted_by  # as if the user had sent it again
        if not isinstance(event, int):
            self._end(*event)
        elif not self.interrupted_by:
            self.interrupted_by, self._deadline = event, time.monotonic() + processes.GRACE_SECONDS
            names = ", ".join(self._running())
            log.info("%s: waiting for %s to end; interrupt again to kill", signal.Signals(event).name, names)
            self._executor.stop(signal.SIGTERM)
        elif self._deadline < math.inf:  # nothing is killed twice
            self._deadline = math.inf
            log.warning("killed")
            self._executor.stop(signal.SIGKILL)

    def _end(self, step: Step, task: TaskState) -> None:
        stage = step.stage
        self.tasks[stage] = task
        work = self._display.end(stage)
        if task.outputs is not None:
            self._values.add(step, task.outputs)
            if stage == "train":
                estimates.learn(self._values.inputs(step), task.outputs)
            self._settle(step, DONE)
            summary = task.outputs.get(stages.SUMMARY, "")
            log.info("%s: done in %.1f s%s", stage, task.seconds, f": {summary}" if summary else "")
        elif self.interrupted_by:
            self._settle(step, INTERRUPTED)
            saved = f"; {work.unit} {work.kept:,} of {work.total:,} is kept" if work and work.kept else ""
            log.info("%s: interrupted%s", stage, saved)
        else:
            code = task.exit_code or errors.DEFECT
            self.exit_code = self.exit_code or code
            self._settle(step, FAILED)
            file = self._history.folder / f"{stage}.log"
            log.error("%s: failed (%s); its log is %s", stage, processes.name_of_exit(code), file)


def run_stage(
    executor: Executor, step: Step, inputs: dict[str, Any], folder: Path, display: Display
) -> tuple[int, dict[str, Any] | None]:
    """Run a stage once; return its exit code, and its outputs if it succeeded. Its log is beside its folder.

    Raises what the executor raises, and `StageError` for an output that is missing or mistyped.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "parameters").mkdir(parents=True)
    command = step.command(executor_input(step, inputs, folder))
    show = functools.partial(display.show, step.stage)
    with open(folder.parent / f"{step.stage}.log", "ab", buffering=0) as file:
        code = executor.run(step, command, functools.partial(processes.copy_lines, file=file, show=show))
    return code, None if code else read_outputs(step, folder)
