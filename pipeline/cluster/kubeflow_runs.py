"""Runs on a Kubeflow server: what `wgan submit`, `status`, `cancel` and `retry` do there.

Names do not identify anything there but pipelines and their versions: runs are told apart by their ids.
"""

import datetime
import json
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import ConfigError, TransientError
from pipeline.cluster import kubeflow_logs, runs
from pipeline.cluster.canceled_runs import CanceledRuns
from pipeline.cluster.kubeflow_connection import KubeflowConnection
from pipeline.cluster.runs import RunStatus, StageStatus
from pipeline.cluster.submission import ClusterPackage, Submission

if TYPE_CHECKING:
    from pipeline.cluster.kubeflow_client import Client

_STATES = (runs.PENDING, runs.RUNNING, runs.PAUSED, runs.CANCELING, *runs.ENDED)
_CONFLICT = 409
# A run that has not ended says that it ended in 1970.
_NEVER = datetime.datetime(1971, 1, 1, tzinfo=datetime.UTC)


class KubeflowRuns:
    """The runs of one Kubeflow server (see `pipeline.cluster.runs.Runs`)."""

    def __init__(self, connection: KubeflowConnection, canceled: CanceledRuns | None = None) -> None:
        """Makes it; nothing is sent yet.

        Args:
            connection: The way to the server.
            canceled: What was cancelled from this machine; the user's own note if it is None.
        """
        self.connection = connection
        self.canceled = canceled or CanceledRuns()
        self.stages_of: dict[str, set[str]] = {}

    @property
    def client(self) -> "Client":
        return self.connection.client

    def submit(self, submission: Submission) -> RunStatus:
        """Starts a run; uploads the package unless it is there already."""
        import kfp_server_api

        client = self.client
        pipeline_id, version_id = self.upload(submission.package)
        experiment_id = self.experiment_id(submission.experiment)
        mark = f"Submitted by wgan, {uuid.uuid4()}."
        body = kfp_server_api.V2beta1Run(
            experiment_id=experiment_id,
            display_name=submission.run_name,
            description=mark,
            pipeline_version_reference=kfp_server_api.V2beta1PipelineVersionReference(
                pipeline_id=pipeline_id, pipeline_version_id=version_id
            ),
            runtime_config=kfp_server_api.V2beta1RuntimeConfig(
                parameters=submission.parameters, pipeline_root=submission.pipeline_root or None
            ),
            service_account=submission.service_account or submission.package.service_account or None,
        )
        try:
            with self.connection.explained(f"submit the run {submission.run_name}"):
                run = client._run_api.run_service_create_run(run=body)
        except TransientError as error:
            run = self._started(experiment_id, mark, error)
        return self._status(run, with_stages=False)

    def _started(self, experiment_id: str, mark: str, error: TransientError) -> Any:
        """The run that was started although its answer did not reach us.

        Raises:
            TransientError: There is none; or nobody knows.
        """
        try:
            with self.connection.explained("list runs"):
                found = self.client._run_api.run_service_list_runs(
                    experiment_id=experiment_id,
                    namespace=self.client.namespace or None,
                    page_size=50,
                    sort_by="created_at desc",
                )
        except TransientError:
            raise TransientError(f"{error}; whether it was started is not known: `wgan status` tells") from None
        for run in found.runs or []:
            if run.description == mark:
                return run
        raise TransientError(f"{error}; it was not started") from None

    def experiment_id(self, name: str) -> str:
        """The id of an experiment, which is made if there is none of that name."""
        import kfp_server_api

        api = self.client._experiment_api
        with self.connection.explained(f"make the experiment {name}"):
            found = self._experiment(name)
            if found is None:
                body = kfp_server_api.V2beta1Experiment(display_name=name, namespace=self.client.namespace or None)
                try:
                    found = api.experiment_service_create_experiment(experiment=body).experiment_id
                except kfp_server_api.ApiException as error:
                    # Somebody else has made it meanwhile.
                    found = self._experiment(name) if error.status == _CONFLICT else None
                    if found is None:
                        raise
        return str(found)

    def _experiment(self, name: str) -> str | None:
        found = self.client._experiment_api.experiment_service_list_experiments(
            filter=_named(name), namespace=self.client.namespace or None
        )
        return next((each.experiment_id for each in found.experiments or [] if each.display_name == name), None)

    def upload(self, package: ClusterPackage) -> tuple[str, str]:
        """The ids of a package's pipeline and version; what is not there yet is uploaded.

        Versions are named by content, so that one package is uploaded once, by however many at once.
        """
        import kfp_server_api

        client = self.client
        with tempfile.TemporaryDirectory() as folder, self.connection.explained(f"upload {package.path}"):
            # The very bytes that were looked through, by a name that servers take.
            path = Path(folder, "pipeline.yaml")
            path.write_bytes(package.text)
            pipeline_id = self._pipeline(package.name)
            if pipeline_id is None:
                try:
                    pipeline_id = client._upload_api.upload_pipeline(
                        str(path), name=package.name, namespace=client.namespace or None
                    ).pipeline_id
                except kfp_server_api.ApiException as error:
                    pipeline_id = self._pipeline(package.name) if error.status == _CONFLICT else None
                    if pipeline_id is None:
                        raise
            version_id = self._version(pipeline_id, package.version)
            if version_id is None:
                try:
                    version_id = client._upload_api.upload_pipeline_version(
                        str(path), name=package.version, pipelineid=pipeline_id
                    ).pipeline_version_id
                except kfp_server_api.ApiException as error:
                    version_id = self._version(pipeline_id, package.version) if error.status == _CONFLICT else None
                    if version_id is None:
                        raise
        return pipeline_id, version_id

    def _pipeline(self, name: str) -> str | None:
        found = self.client._pipelines_api.pipeline_service_list_pipelines(
            filter=_named(name), namespace=self.client.namespace or None
        )
        return next((each.pipeline_id for each in found.pipelines or [] if each.display_name == name), None)

    def _version(self, pipeline_id: str, name: str) -> str | None:
        found = self.client._pipelines_api.pipeline_service_list_pipeline_versions(
            pipeline_id=pipeline_id, filter=_named(name)
        )
        versions = found.pipeline_versions or []
        return next((each.pipeline_version_id for each in versions if each.display_name == name), None)

    def status(self, run_id: str) -> RunStatus:
        """How far a run is, with its stages."""
        with self.connection.explained(f"ask for run {run_id}"):
            return self._status(self.client._run_api.run_service_get_run(run_id), with_stages=True)

    def recent(self, count: int) -> list[RunStatus]:
        """The newest runs, newest first, without their stages."""
        with self.connection.explained("list runs"):
            found = self.client._run_api.run_service_list_runs(
                namespace=self.client.namespace or None, page_size=count, sort_by="created_at desc"
            )
        return [self._status(run, with_stages=False) for run in found.runs or []]

    def cancel(self, run_id: str) -> None:
        """Ends a run that has not ended. Once is enough: the server refuses a second time."""
        with self.connection.explained(f"cancel run {run_id}"):
            run = self.client._run_api.run_service_get_run(run_id)
            state = self._state(run)
            if state in runs.ENDED:
                raise ConfigError(f"cannot cancel run {run_id}: it has ended already ({state})")
            if state != runs.CANCELING:
                self.client._run_api.run_service_terminate_run(run_id)
        # Such a run ends FAILED there.
        self.canceled.add(run_id, _began(run))

    def retry(self, run_id: str) -> RunStatus:
        """Starts a failed run again, from what failed."""
        with self.connection.explained(f"retry run {run_id}"):
            state = self._state(self.client._run_api.run_service_get_run(run_id))
            if state not in (runs.FAILED, runs.CANCELED):
                what = "it has not ended" if state not in runs.ENDED else f"it has not failed ({state})"
                raise ConfigError(f"cannot retry run {run_id}: {what}")
            self.client._run_api.run_service_retry_run(run_id)
        self.canceled.remove(run_id)
        return self.status(run_id)

    def logs(self, run_id: str, stage: str, follow: bool = False) -> Iterator[str]:
        """The lines that a stage has logged, and with `follow` those that it logs until it ends."""
        with self.connection.explained(f"ask for run {run_id}"):
            run = self.client._run_api.run_service_get_run(run_id)
            begun = [each.name for each in self._stages(run, self._state(run))]
        if stage not in begun:
            known = f"; those that have begun are {', '.join(begun)}" if begun else ": none has begun"
            raise ConfigError(f"run {run_id} has no logs of {stage}{known}")
        return kubeflow_logs.from_pods(self.connection, run_id, stage, follow)

    def _status(self, run: Any, with_stages: bool) -> RunStatus:
        state = self._state(run)
        return RunStatus(
            run_id=run.run_id,
            name=run.display_name or "",
            state=state,
            stages=tuple(self._stages(run, state)) if with_stages else (),
            link=self.connection.run_link(run.run_id),
            created=_time(run.created_at),
            finished=_time(run.finished_at) if state in runs.ENDED else None,
            message=_message(run) if state == runs.FAILED else "",
        )

    def _state(self, run: Any) -> str:
        """The state of a run; absent until its workflow has one."""
        state = run.state if run.state in _STATES else runs.PENDING
        if state != runs.FAILED:
            return state
        history = [each.state for each in run.state_history or []]
        canceled = runs.CANCELING in history or self.canceled.has(run.run_id, _began(run))
        return runs.CANCELED if canceled else state

    def _stages(self, run: Any, state: str) -> Iterator[StageStatus]:
        """The stages that the server knows of, by start; without what it does around and between them."""
        tasks = (run.run_details.task_details if run.run_details else None) or []
        names = self._stage_names(run)
        latest: dict[str, Any] = {}
        for task in sorted(tasks, key=_begun):
            name = (task.display_name or "").partition("(")[0]
            if name in names if names else _is_stage(name):
                latest[name] = task
        for name, task in latest.items():
            at = task.state if task.state in _STATES else runs.PENDING
            if state in runs.ENDED and at not in runs.ENDED:
                # Nothing is reported after the end of the run.
                at = runs.SKIPPED if at == runs.PENDING else runs.CANCELED
            yield StageStatus(
                name=name,
                state=at,
                started=_time(task.start_time),
                finished=_time(task.end_time) if at in runs.ENDED else None,
                message=_message(task) if at == runs.FAILED else "",
            )

    def _stage_names(self, run: Any) -> set[str]:
        """The stages in the run's package; none if the server does not tell its package."""
        found = run.pipeline_version_reference
        if found is None or not found.pipeline_version_id:
            return _leaves(run.pipeline_spec)
        key = str(found.pipeline_version_id)
        if key not in self.stages_of:
            import kfp_server_api

            try:
                version = self.client._pipelines_api.pipeline_service_get_pipeline_version(
                    found.pipeline_id, found.pipeline_version_id
                )
                self.stages_of[key] = _leaves(version.pipeline_spec)
            except kfp_server_api.ApiException as error:
                # The version of an old run may be gone, which is no reason not to tell how far it is.
                if error.status not in (400, 404):
                    raise
                self.stages_of[key] = set()
        return self.stages_of[key]


def _named(name: str) -> str:
    """A filter for what has exactly that name, as servers take it."""
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]})


def _leaves(spec: Any) -> set[str]:
    """The tasks of a package that run a container, as a server hands the package back."""
    if not isinstance(spec, dict):
        return set()
    spec = spec.get("pipeline_spec", spec)
    components = spec.get("components", {})
    return {
        name
        for component in (spec.get("root", {}), *components.values())
        for name, task in component.get("dag", {}).get("tasks", {}).items()
        if "dag" not in components.get(task.get("componentRef", {}).get("name", ""), {})
    }


def _is_stage(name: str) -> bool:
    """Whether a task is a stage, where only its name can tell: not a driver, nor what holds other tasks."""
    around = ("condition-", "exit-handler-", "for-loop-")
    return (
        bool(name) and not name.endswith("-driver") and name not in ("root", "executor") and not name.startswith(around)
    )


def _began(run: Any) -> str:
    """When the run's present attempt began, as the server says; to retry a run wipes what it says."""
    history = run.state_history or []
    return history[0].update_time.isoformat() if history and history[0].update_time else ""


def _begun(task: Any) -> datetime.datetime:
    return task.start_time or task.create_time or _NEVER


def _time(found: datetime.datetime | None) -> datetime.datetime | None:
    return found.astimezone(datetime.UTC) if found is not None and found > _NEVER else None


def _message(found: Any) -> str:
    """What the server says of a failure, if it does."""
    history = [each.error for each in found.state_history or []]
    for error in (found.error, *reversed(history)):
        if error is not None and error.message:
            return " ".join(str(error.message).split())
    return ""
