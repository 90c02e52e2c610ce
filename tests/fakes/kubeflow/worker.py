"""Runs what the contract server holds: each stage as a process or a container here, where a cluster would start a pod.

One run at a time, one stage at a time. As on a real Kubeflow 2.16.1, stages start with a umask of 0, every exit code
counts alike for retries, canceling sends SIGTERM, and a retried run keeps what has succeeded, the exit handler too.
"""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from pipeline.local.processes import process_command
from tests.fakes.kubeflow import interpreter, store
from tests.fakes.kubeflow.interpreter import Resolver, Task
from tests.fakes.kubeflow.requests import Item
from tests.fakes.kubeflow.server import Server

_SECONDS_BETWEEN_LOOKS = 0.2


class Worker:
    """Executes the runs of a server until `stop`; the stages' outputs and logs are in a folder.

    With a command of Docker's, `docker run OPTIONS`, stages are containers of their images, and see of this machine
    their outputs alone.
    """

    def __init__(self, server: Server, folder: Path, docker_run: Sequence[str] = ()) -> None:
        self._server, self._folder, self._docker_run = server, folder, docker_run
        self._outputs: dict[str, dict[str, dict[str, Any]]] = {}  # by run and task, kept for retries
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.wait(_SECONDS_BETWEEN_LOOKS):
            self._server.tick()
            active = [run for run in [*self._server.store.runs.values()] if run["state"] not in store.ENDED]
            if active:
                self._execute(active[0])

    def _execute(self, run: Item) -> None:
        """Execute a run, or what is left of it."""
        run_id = run["run_id"]
        version = self._server.store.versions[run["pipeline_version_reference"]["pipeline_version_id"]]
        spec = version["pipeline_spec"]
        package = interpreter.read(yaml.safe_dump(spec.get("pipeline_spec", spec)))
        outputs_by_task = self._outputs.setdefault(run_id, {})
        values = package.defaults | run["runtime_config"]["parameters"]
        resolver = Resolver(values, outputs_by_task, {"$.pipeline_job_uuid": run_id})
        states: dict[str, str] = dict.fromkeys(outputs_by_task, store.SUCCEEDED)
        for task in package.tasks:
            if task.exit_handler or task.name in outputs_by_task:
                continue
            before = {states.get(need, store.SKIPPED) for need in task.needs}
            if before & {store.SKIPPED, store.FAILED} or not resolver.is_met(task):
                states[task.name] = store.SKIPPED
                continue
            if store.FAILED in states.values() or run_id in self._server.store.terminated:
                break
            self._server.set_run(run_id, store.RUNNING, {**states, task.name: store.RUNNING})
            outputs = self._run_task(run_id, task, resolver.inputs(task))
            states[task.name] = store.FAILED if outputs is None else store.SUCCEEDED
            if outputs is not None:
                outputs_by_task[task.name] = outputs
        failed = store.FAILED in states.values() or run_id in self._server.store.terminated
        if run_id not in self._server.store.terminated:
            self._server.set_run(run_id, store.RUNNING, states)
        inputs = self._server.store.inputs_of_exit_handler(run_id)
        if inputs is not None:
            handler = next(task for task in package.tasks if task.exit_handler)
            self._server.store.terminated.discard(run_id)
            done = self._run_task(run_id, handler, resolver.inputs(handler) | inputs) is not None
            states[handler.name] = store.SUCCEEDED if done else store.FAILED
        self._server.set_run(run_id, store.FAILED if failed else store.SUCCEEDED, states)

    def _run_task(self, run_id: str, task: Task, inputs: dict[str, Any]) -> dict[str, Any] | None:
        """Run a task, again if it fails; return its outputs, or None if it failed or was canceled."""
        folder = self._folder / run_id / task.name
        for _ in range(task.retries + 1):
            message = interpreter.executor_input(task, inputs, folder)
            words = interpreter.command(task, message)
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / "log", "ab") as log, tempfile.TemporaryDirectory(dir=folder) as temporary:
                variables = {variable["name"]: variable["value"] for variable in task.container.get("env", [])}
                variables |= {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
                if self._docker_run:  # a container, to which signals are passed on
                    folder.chmod(0o777)
                    shared = (f"--volume={folder}:{folder}", *(f"--env={name}={variables[name]}" for name in variables))
                    image = ("--entrypoint", words[0], task.container["image"])
                    words = [*self._docker_run, *shared, *image, *words[1:]]
                else:
                    words = process_command(words)
                    variables |= {"TMPDIR": temporary}  # a pod has its own
                process = subprocess.Popen(
                    words, env={**os.environ, **variables}, umask=0, stdout=log, stderr=subprocess.STDOUT
                )
                if self._wait(run_id, process) == 0:
                    return interpreter.read_outputs(task, folder)
            if run_id in self._server.store.terminated or self._stopping.is_set():
                break
        return None

    def _wait(self, run_id: str, process: subprocess.Popen[bytes]) -> int:
        """Wait for a process, which gets SIGTERM when its run is canceled."""
        signaled = False
        while True:
            try:
                return process.wait(_SECONDS_BETWEEN_LOOKS)
            except subprocess.TimeoutExpired:
                if not signaled and (run_id in self._server.store.terminated or self._stopping.is_set()):
                    process.send_signal(signal.SIGTERM)
                    signaled = True
