"""Runs on a Kubeflow server, identified by id, because names identify only pipelines and their versions."""

import contextlib
import dataclasses
import datetime
import functools
import json
import logging
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from components.core import errors, stages
from components.core.errors import StageError, TransientError
from components.core.storage import atomic_files
from pipeline.cluster import backend, refusals
from pipeline.cluster.backend import RunStatus, Server, StageStatus, Submission
from pipeline.cluster.kubeflow import pods
from pipeline.cluster.kubeflow.connection import KubeflowConnection
from pipeline.package.reader import Package

log = logging.getLogger("pipeline")

_STATES = (backend.PENDING, backend.RUNNING, backend.PAUSED, backend.CANCELING, *backend.ENDED)
_CONFLICT = 409
_NEVER = datetime.datetime(1971, 1, 1, tzinfo=datetime.UTC)  # an active run has an end in 1970


class KubeflowRuns(Server):
    connection: KubeflowConnection
    _warned = False  # of Kubernetes, which does not answer

    def submit(self, submission: Submission) -> RunStatus:
        """Start a run; upload the package unless the server has it."""
        mark = f"Submitted by wgan, {uuid.uuid4()}."
        body = {"display_name": submission.run_name, "description": mark, **self.start_of(submission)}
        look = f"look for its name in `{self.command('status')}` before you submit again"
        try:
            with self.connection.explained(f"submit the run {submission.run_name}", f"it may have started: {look}"):
                run = self.connection.client.runs.run_service_create_run(run=body)
        except TransientError:
            # The server chose the id, and starts the workflow before it lists the run.
            with contextlib.suppress(StageError):
                newest = self._newest(50, experiment_id=body["experiment_id"])
                if marked := [run for run in newest if run.description == mark]:
                    return self._status(marked[0])
            raise
        return self._status(run)

    def _newest(self, count: int, **scope: str) -> list[Any]:
        client = self.connection.client
        query = {"namespace": client.namespace or None, "page_size": count, "sort_by": "created_at desc", **scope}
        with self.connection.explained("list runs"):
            return client.runs.run_service_list_runs(**query).runs or []

    def start_of(self, submission: Submission) -> dict[str, Any]:
        """Return the common fields of a run and a schedule; make the experiment and upload the package if needed."""
        pipeline_id, version_id = self.upload(submission.package)
        api, namespace = self.connection.client.experiments, self.connection.client.namespace
        body = {"display_name": submission.experiment, "namespace": namespace}
        listed = functools.partial(api.experiment_service_list_experiments, namespace=namespace or None)
        create = functools.partial(api.experiment_service_create_experiment, experiment=body)
        with self.connection.explained(f"make the experiment {submission.experiment}"):
            experiment_id = _find_or_make("experiment", submission.experiment, listed, create)
        return {
            "experiment_id": experiment_id,
            "pipeline_version_reference": {"pipeline_id": pipeline_id, "pipeline_version_id": version_id},
            "runtime_config": {"parameters": submission.parameters, "pipeline_root": submission.pipeline_root},
            "service_account": submission.service_account or submission.package.origin.service_account,
        }

    def upload(self, package: Package) -> tuple[str, str]:
        """Return the ids of a package's pipeline and version, named by content; upload once what the server lacks."""
        client = self.connection.client
        api, uploads, namespace = client.pipelines, client.uploads, client.namespace or None
        with tempfile.TemporaryDirectory() as folder, self.connection.explained(f"upload {package.path}"):
            path = Path(folder, "pipeline.yaml")  # a name that servers accept
            path.write_bytes(package.text)
            listed = functools.partial(api.pipeline_service_list_pipelines, namespace=namespace)
            create = functools.partial(uploads.upload_pipeline, str(path), name=package.name, namespace=namespace)
            pipeline_id = _find_or_make("pipeline", package.name, listed, create)
            listed = functools.partial(api.pipeline_service_list_pipeline_versions, pipeline_id=pipeline_id)
            named = {"name": package.version, "pipelineid": pipeline_id}
            create = functools.partial(uploads.upload_pipeline_version, str(path), **named)
            return pipeline_id, _find_or_make("pipeline_version", package.version, listed, create)

    def status(self, run_id: str) -> RunStatus:
        """Return the state of a run, with the reasons that only Kubernetes knows, if there is a context."""
        status = self._status(self._run(run_id))
        if self.connection.kube_context:
            try:
                return dataclasses.replace(status, stages=pods.with_reasons(self.connection, run_id, status.stages))
            except StageError as error:
                if not self._warned:
                    log.warning("%s", error)
                self._warned = True
        return status

    def hint_for_waiting(self, run_id: str) -> str:
        if self.connection.kube_context:
            return ""
        get_pods = f"kubectl get pods -n {self.connection.pod_namespace} -l {pods.RUN_LABEL}={run_id}"
        other_ways = f"give --kube-context NAME to see why, or run `{get_pods}`"
        return f"Kubeflow calls a stage running, too, whose pod has not started: {other_ways}"

    def recent(self, count: int) -> list[RunStatus]:
        return [self._status(run) for run in self._newest(count)]

    def cancel(self, run_id: str) -> None:
        run = self._run(run_id)
        if _state(run) != backend.CANCELING:  # the server refuses a second time
            self._change(run_id, "cancel", self.connection.client.runs.run_service_terminate_run, [backend.CANCELING])
        with contextlib.suppress(OSError):  # without the note, the run is shown as failed
            atomic_files.write_file(_cancel_note(run_id), _began(run).encode())

    def retry(self, run_id: str) -> RunStatus:
        retry = self.connection.client.runs.run_service_retry_run
        self._change(run_id, "retry", retry, [state for state in _STATES if state not in backend.ENDED])
        with contextlib.suppress(OSError):
            _cancel_note(run_id).unlink()
        log.info("run %s continues from its failed stages", run_id)
        return self.status(run_id)

    def _change(self, run_id: str, verb: str, send: Callable[[str], Any], states_after: Sequence[str]) -> None:
        """Send a request about a run; if its answer is lost, find out from the run's state whether it was executed."""
        try:
            with self.connection.explained(f"{verb} run {run_id}", self.perhaps_changed(run_id)):
                send(run_id)
        except TransientError:
            with contextlib.suppress(StageError):
                if _state(self._run(run_id)) in states_after:
                    return
            raise

    def logs(self, run_id: str, stage: str, follow: bool = False) -> Iterator[str]:
        return pods.logs(self.connection, run_id, stage, follow)

    def command(self, verb: str, *words: str) -> str:
        """Return a command to copy: for logs, which are read from Kubernetes, kubectl's if there is no context."""
        if verb == "logs" and not self.connection.kube_context and not errors.in_pod():
            return pods.kubectl_logs(self.connection, words[0])
        return super().command(verb, *words)

    def _run(self, run_id: str) -> Any:
        with self.connection.explained(f"ask for run {run_id}"):
            return self.connection.client.runs.run_service_get_run(run_id)

    def _status(self, run: Any) -> RunStatus:
        state = _state(run)
        tasks = (run.run_details.task_details if run.run_details else None) or []
        tasks = sorted(tasks, key=lambda task: task.start_time or task.create_time or _NEVER)
        latest = {(task.display_name or "").partition("(")[0]: task for task in tasks}
        statuses = []
        for name in (name for name in stages.ALL if name in latest):
            task = latest[name]
            stage_state = backend.settled(task.state if task.state in _STATES else backend.PENDING, state)
            statuses.append(
                StageStatus(
                    name=name,
                    state=stage_state,
                    started=_time(task.start_time),
                    finished=_time(task.end_time) if stage_state in backend.ENDED else None,
                    message=_message(task) if stage_state == backend.FAILED else "",
                )
            )
        return RunStatus(
            run_id=run.run_id,
            name=run.display_name or "",
            state=state,
            stages=tuple(statuses),
            link=f"{self.connection.ui}/#/runs/details/{run.run_id}" if self.connection.ui else "",
            created=_time(run.created_at),
            scheduled=_time(run.scheduled_at),
            finished=_time(run.finished_at) if state in backend.ENDED else None,
            message=_message(run) if state == backend.FAILED else "",
            parameters=dict((run.runtime_config.parameters if run.runtime_config else None) or {}),
        )


def _find_or_make(kind: str, name: str, listed: Callable[..., Any], create: Callable[[], Any]) -> str:
    """Return the id of the object of a name, or of a new one, made by us or by another process."""
    import kfp_server_api

    query = json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]})

    def find() -> str | None:
        items = getattr(listed(filter=query), f"{kind}s") or []
        return next((getattr(item, f"{kind}_id") for item in items if item.display_name == name), None)

    if object_id := find():
        return object_id
    try:
        return str(getattr(create(), f"{kind}_id"))
    except kfp_server_api.ApiException as error:
        if error.status == _CONFLICT and (object_id := find()):
            return object_id
        raise


def _state(run: Any) -> str:
    """Return the state of a run; without a workflow it is pending, and a canceled one is FAILED at the server."""
    state: str = run.state if run.state in _STATES else backend.PENDING
    if state == backend.FAILED:
        if backend.CANCELING in [entry.state for entry in run.state_history or []]:
            return backend.CANCELED
        with contextlib.suppress(OSError):
            canceled, began = _cancel_note(run.run_id).read_text(), _began(run)
            if not began or canceled in ("", began):
                return backend.CANCELED
    return state


def _cancel_note(run_id: str) -> Path:
    """Return the note that this machine canceled a run, with the attempt's begin: a server may show it as FAILED."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state", "wgan", "canceled", run_id)


def _began(run: Any) -> str:
    """Return the start of the run's present attempt by the server's clock; a retry resets it."""
    history = run.state_history or []
    return history[0].update_time.isoformat() if history and history[0].update_time else ""


def _time(time: datetime.datetime | None) -> datetime.datetime | None:
    return time.astimezone(datetime.UTC) if time is not None and time > _NEVER else None


def _message(run_or_task: Any) -> str:
    """Return the server's message about a failure as one line; empty if there is none."""
    return refusals.one_line(run_or_task.error.message or "") if run_or_task.error else ""
