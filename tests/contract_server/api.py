"""The operations of Kubeflow's v2beta1 API: what is asked, checked in the real server's order and words."""

import dataclasses
import email.parser
import email.policy
import re
from collections.abc import Callable, Mapping
from email.message import Message

from tests.contract_server import cron, json_check, listing, pipelines, refusals, store
from tests.contract_server.access import Access
from tests.contract_server.refusals import Refusal, during
from tests.contract_server.store import Item, Store

_LIST = "Failed to list {0} due to error parsing the listing options"
_LIST_PIPELINES = (
    "Failed to list pipelines due invalid list options: pageToken: {page_token}, pageSize: {page_size}, "
    "sortBy: {sort_by}, filter: {filter}"
)
_LONGEST_NAME = 128  # of a pipeline
_LONGEST_COLUMN = 191  # of a run's name in the database
_MOST_CONCURRENT = 10


@dataclasses.dataclass(frozen=True)
class Call:
    """One request, past the gate.

    Attributes:
        ids: What the path names.
        query: Of the URL.
        headers: Of HTTP, whatever the case of their names.
        body: As it came.
        user: Who asks; empty for a single user.
    """

    ids: tuple[str, ...]
    query: Mapping[str, str]
    headers: Message
    body: bytes
    user: str = ""


@dataclasses.dataclass(frozen=True)
class PlainText:
    """An answer that is no JSON."""

    status: int
    text: str


class UploadRefusal(Exception):
    """An upload's own kind of error, whose reason only the server's log would have."""

    def __init__(self, status: int, message: str, details: str) -> None:
        super().__init__(details)
        self.status, self.message, self.details = status, message, details


@dataclasses.dataclass
class Api:
    """The operations on what a server holds.

    Attributes:
        store: What it holds.
        access: Who may do what.
        version: Of the server that it stands for.
        hangs: Requests that the real server would never answer.
    """

    store: Store
    access: Access
    version: tuple[int, int]
    hangs: list[str]

    # Pipelines

    def upload_pipeline(self, call: Call) -> Item | PlainText:
        what = "Failed to create a pipeline and a pipeline version"
        filename, spec = self._uploaded(call, what)
        name = call.query.get("name") or filename
        namespace = call.query.get("namespace", "") if self.access.multi_user else ""
        self.access.require(call.user, namespace or ("kubeflow" if call.user else ""), "create", "pipelines")
        if len(name) > _LONGEST_NAME:
            return PlainText(400, f"Invalid input error: Pipeline.Name length cannot exceed {_LONGEST_NAME}\n")
        if any((item["name"], item["namespace"]) == (name, namespace) for item in self.store.pipelines.values()):
            raise UploadRefusal(409, what, f"The name {name} already exist. Please specify a new name.")
        description = call.query.get("description", "")
        pipeline = {
            "pipeline_id": self.store.new_id(),
            "display_name": call.query.get("display_name") or name,
            "name": name,
            "description": description,
            "created_at": self.store.now(),
            "namespace": namespace,
        }
        self.store.pipelines[pipeline["pipeline_id"]] = pipeline
        self._add_version(pipeline["pipeline_id"], name, pipeline["display_name"], description, spec)
        return pipeline

    def upload_version(self, call: Call) -> Item | PlainText:
        what = "Failed to create a pipeline version"
        filename, spec = self._uploaded(call, what)
        name, pipeline_id = call.query.get("name") or filename, call.query.get("pipelineid", "")
        if pipeline_id not in self.store.pipelines:
            raise UploadRefusal(400, what, f"Pipeline {pipeline_id} not found")
        namespace = self.store.pipelines[pipeline_id]["namespace"]
        self.access.require(call.user, namespace or ("kubeflow" if call.user else ""), "create", "pipelines")
        if len(name) > _LONGEST_NAME:
            return PlainText(400, f"Invalid input error: PipelineVersion.Name length cannot exceed {_LONGEST_NAME}\n")
        versions = self.store.versions.values()
        if any((item["pipeline_id"], item["name"]) == (pipeline_id, name) for item in versions):
            raise UploadRefusal(409, what, f"The name {name} already exist. Specify a new name.")
        display_name = call.query.get("display_name") or name
        return self._add_version(pipeline_id, name, display_name, call.query.get("description", ""), spec)

    def _uploaded(self, call: Call, what: str) -> tuple[str, pipelines.Spec]:
        """The name of the uploaded file and the pipeline in it."""
        head = f"Content-Type: {call.headers.get('Content-Type', '')}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + call.body)
        parts = {str(part.get_param("name", header="content-disposition")): part for part in form.iter_parts()}
        part = parts.get("uploadfile")
        if part is None:
            raise UploadRefusal(400, "Failed to read pipeline from file", "http: no such file")
        filename, text = part.get_filename("") or "", part.get_payload(decode=True)
        try:
            return filename, pipelines.read(filename, text if isinstance(text, bytes) else b"")
        except pipelines.SyntaxNeverAnsweredError:
            self.hangs.append(f"upload of {filename}, which is no YAML")
            raise UploadRefusal(500, what, "the real server never answers this") from None
        except Refusal as refusal:
            kind = "Failed to read a pipeline spec file" if refusal.status == 400 else what
            raise UploadRefusal(refusal.status, kind, refusal.message) from None

    def _add_version(self, pipeline_id: str, name: str, display_name: str, description: str, spec: Item) -> Item:
        version: Item = {
            "pipeline_id": pipeline_id,
            "pipeline_version_id": self.store.new_id(),
            "display_name": display_name,
            "name": name,
            "description": description,
            "created_at": self.store.now(),
            "pipeline_spec": spec,
        }
        self.store.versions[version["pipeline_version_id"]] = version
        return version

    def get_pipeline(self, call: Call) -> Item:
        (pipeline_id,) = call.ids
        with during(f"Failed to get a pipeline {pipeline_id}. Check error stack"):
            return self._pipeline(call, pipeline_id, "get")

    def get_pipeline_by_name(self, call: Call) -> Item:
        (name,) = call.ids
        namespace = call.query.get("namespace", "") if self.access.multi_user else ""
        for pipeline in self.store.pipelines.values():
            if (pipeline["name"], pipeline["namespace"]) == (name, namespace):
                return self._pipeline(call, pipeline["pipeline_id"], "get")
        with during(f"Failed to get a pipeline with name {name} and namespace {namespace}. Check error stack"):
            raise refusals.not_found("Namespace/Pipeline", f"{namespace}/{name}")

    def _pipeline(self, call: Call, pipeline_id: str, verb: str) -> Item:
        if pipeline_id not in self.store.pipelines:
            with during(f"Failed to get a pipeline with id {pipeline_id}"):
                raise refusals.not_found("Pipeline", pipeline_id)
        pipeline = self.store.pipelines[pipeline_id]
        if pipeline["namespace"]:  # one without belongs to all
            self.access.require(call.user, pipeline["namespace"], verb, "pipelines")
        return pipeline

    def list_pipelines(self, call: Call) -> Item:
        namespace = call.query.get("namespace", "") if self.access.multi_user else ""
        if namespace:
            with during("Failed to list pipelines"):
                self.access.require(call.user, namespace, "list", "pipelines")
        found = [item for item in self.store.pipelines.values() if item["namespace"] == namespace]
        return _listed("pipelines", listing.PIPELINES, found, call, _LIST_PIPELINES)

    def delete_pipeline(self, call: Call) -> Item:
        (pipeline_id,) = call.ids
        with during(f"Failed to delete pipeline {pipeline_id}. Check error stack"):
            if pipeline_id not in self.store.pipelines:
                with during(f"Failed to delete pipeline with id {pipeline_id} as it was not found"):
                    raise refusals.not_found("Pipeline", pipeline_id)
            self._pipeline(call, pipeline_id, "delete")
            versions = [key for key, item in self.store.versions.items() if item["pipeline_id"] == pipeline_id]
            if versions and call.query.get("cascade") != "true":
                raise refusals.invalid(
                    f"Failed to delete pipeline with id {pipeline_id} as it has existing pipeline versions "
                    f"(e.g. {versions[-1]}). Set cascade=true to delete all versions"
                )
        for version_id in versions:
            del self.store.versions[version_id]
        del self.store.pipelines[pipeline_id]
        return {}

    def get_version(self, call: Call) -> Item:
        pipeline_id, version_id = call.ids
        with during(f"Failed to get a pipeline version {version_id}"):
            return self._version(call, pipeline_id, version_id, "get")

    def _version(self, call: Call, pipeline_id: str, version_id: str, verb: str) -> Item:
        version = self.store.versions.get(version_id)
        if version is None or version["pipeline_id"] != pipeline_id:
            with during(f"Failed to get a pipeline version with id {version_id}"):
                raise refusals.not_found("PipelineVersion", version_id)
        self._pipeline(call, pipeline_id, verb)
        return version

    def list_versions(self, call: Call) -> Item:
        (pipeline_id,) = call.ids
        with during("Failed to list pipeline versions"):
            self._pipeline(call, pipeline_id, "list")
        found = [item for item in self.store.versions.values() if item["pipeline_id"] == pipeline_id]
        return _listed("pipeline_versions", listing.VERSIONS, found, call, _LIST.format("pipeline versions"))

    def delete_version(self, call: Call) -> Item:
        pipeline_id, version_id = call.ids
        with during(f"Failed to delete a pipeline version {version_id}"):
            self._version(call, pipeline_id, version_id, "delete")
        del self.store.versions[version_id]
        return {}

    # Experiments

    def create_experiment(self, call: Call) -> Item:
        body = json_check.body(call.body, "V2beta1Experiment")
        name = body.get("display_name", "")
        if not name:
            with (
                during("[ExperimentServer]: Failed to create a experiment due to conversion error"),
                refusals.failing_at("Failed to convert API experiment to model experiment"),
            ):
                raise refusals.invalid("Experiment must have a non-empty name")
        namespace = body.get("namespace", "") if self.access.multi_user else ""
        with during("Failed to create a experiment"):
            self.access.require(call.user, namespace, "create", "experiments")
            taken = [(item["display_name"], item["namespace"]) for item in self.store.experiments.values()]
            if (name, namespace) in taken:
                raise refusals.already_exists(
                    f"Failed to create a new experiment. The name {name} already exists. Please specify a new name"
                )
        return self.store.add_experiment(name, body.get("description", ""), namespace)

    def get_experiment(self, call: Call) -> Item:
        with during("Failed to fetch experiment"):
            return self._experiment(call, call.ids[0], "get")

    def _experiment(self, call: Call, experiment_id: str, verb: str) -> Item:
        if experiment_id not in self.store.experiments:
            raise refusals.not_found("Experiment", experiment_id)
        experiment = self.store.experiments[experiment_id]
        self.access.require(call.user, experiment["namespace"], verb, "experiments")
        return experiment

    def list_experiments(self, call: Call) -> Item:
        namespace = call.query.get("namespace", "") if self.access.multi_user else ""
        with during("Failed to list experiments due to authorization error"):
            self.access.require(call.user, namespace, "list", "experiments")
        found = [item for item in self.store.experiments.values() if item["namespace"] == namespace]
        return _listed("experiments", listing.EXPERIMENTS, found, call, _LIST.format("experiments"))

    def archive_experiment(self, call: Call) -> Item:
        with during("Failed to archive an experiment"):
            experiment = self._experiment(call, call.ids[0], "archive")
        experiment["storage_state"] = store.ARCHIVED
        for run in self.store.runs.values():
            if run["experiment_id"] == call.ids[0]:
                run["storage_state"] = store.ARCHIVED
        for recurring in self.store.recurring_runs.values():
            if recurring["experiment_id"] == call.ids[0]:
                recurring.update(mode="DISABLE", status="DISABLED")
        return {}

    def unarchive_experiment(self, call: Call) -> Item:
        with during("Failed to unarchive an experiment"):
            self._experiment(call, call.ids[0], "unarchive")["storage_state"] = store.AVAILABLE
        return {}

    def delete_experiment(self, call: Call) -> Item:
        with during("Failed to delete an experiment"):
            self._experiment(call, call.ids[0], "delete")
        del self.store.experiments[call.ids[0]]
        return {}

    # Runs

    def create_run(self, call: Call) -> Item:
        body = json_check.body(call.body, "V2beta1Run")
        if not body.get("display_name"):
            with (
                during("CreateJob(job.ToV2())Failed to create a run due to conversion error"),
                refusals.failing_at("Failed to convert a API run detail to its internal representation"),
            ):
                raise refusals.invalid("Run name cannot be empty")
        with during("Failed to create a new run"):
            experiment = self._owner(call, body, "a run", "create", "runs")
            spec = self._manifest(body, "a run")
            with during("Failed to generate the ExecutionSpec"):
                self._compile(spec, body)
            name = body["display_name"]
            if len(name) > _LONGEST_COLUMN:
                with during("Failed to create a run"):
                    raise refusals.internal(f"Failed to store run {name}", "Data too long for column 'DisplayName'")
        account = body.get("service_account") or self._account()
        fields = {**_copied(body, self._source(body, pinned=True)), "service_account": account}
        return self.store.add_run({**fields, "experiment_id": experiment["experiment_id"]}, store.PENDING)

    def _account(self) -> str:
        return "default-editor" if self.access.multi_user else "pipeline-runner"

    def _owner(self, call: Call, body: Item, what: str, verb: str, resource: str) -> Item:
        """The experiment that a new run or recurring run belongs to."""
        experiment_id, namespace = body.get("experiment_id", ""), body.get("namespace", "")
        step = f"Failed to create {what} due to invalid experimentId and namespace combination"
        if not experiment_id:
            self.access.require(call.user, namespace, verb, resource)
            return self.store.default_experiment(namespace if self.access.multi_user else "")
        with during(step):
            experiment = self._experiment_for_namespace(experiment_id, "Failed to fetch namespace for experiment")
            if namespace and namespace != experiment["namespace"]:
                raise refusals.invalid(
                    f"Experiment {experiment_id} belongs to namespace '{experiment['namespace']}' "
                    f"instead of '{namespace}'"
                )
        self.access.require(call.user, experiment["namespace"], verb, resource)
        return experiment

    def _experiment_for_namespace(self, experiment_id: str, step: str) -> Item:
        steps = (step + f" {experiment_id}", f"Failed to fetch namespace from experiment {experiment_id}")
        if experiment_id not in self.store.experiments:
            with during(*steps):
                raise refusals.not_found("Experiment", experiment_id)
        return self.store.experiments[experiment_id]

    def _manifest(self, body: Item, what: str) -> pipelines.Spec:
        """The pipeline that a run is of: its own, or that of a version."""
        step = "due to error fetching manifest" if what == "a run" else "with an invalid pipeline spec manifest"
        with refusals.failing_at(f"Failed to create {what} {step}"):
            if "pipeline_spec" in body:
                try:
                    pipelines.check(body["pipeline_spec"])
                except Refusal:
                    raise Refusal(
                        400,
                        3,
                        "Failed to fetch a template with an invalid pipeline spec manifest: "
                        "InvalidInputError: unknown template format: pipeline spec is invalid",
                    ) from None
                return dict(body["pipeline_spec"])
            reference = body.get("pipeline_version_reference", {})
            pipeline_id, version_id = reference.get("pipeline_id", ""), reference.get("pipeline_version_id", "")
            if not pipeline_id and not version_id:
                raise refusals.invalid("Failed to fetch a template with an empty pipeline spec manifest")
            steps = ["Failed to fetch a template due to error retrieving pipeline version"]
            if version_id:
                version = self.store.versions.get(version_id)
                steps.append(f"Failed to fetch a pipeline version and its manifest from pipeline version {version_id}")
                steps.append(f"Failed to get a pipeline version with id {version_id}")
                missing = refusals.not_found("PipelineVersion", version_id)
            else:
                version = self.store.latest_version(pipeline_id)
                steps.append(f"Failed to fetch a pipeline version and its manifest from pipeline {pipeline_id}")
                steps.append(f"Failed to get the latest pipeline version for a pipeline with id {pipeline_id}")
                missing = refusals.not_found("PipelineVersion", pipeline_id)
            if version is None:
                with during(*steps):
                    raise missing
        return dict(version["pipeline_spec"])

    def _compile(self, spec: pipelines.Spec, body: Item) -> None:
        with during("invalid pipeline job inputs"):
            pipelines.check_parameters(spec, body.get("runtime_config", {}).get("parameters", {}))
        pipelines.compile_for_run(spec, self.version)

    def _source(self, body: Item, pinned: bool) -> Item:
        """What a run says of its pipeline: the spec, or the version."""
        if "pipeline_spec" in body:
            return {"pipeline_spec": pipelines.plain(body["pipeline_spec"])}
        reference = dict(body["pipeline_version_reference"])
        if pinned and not reference.get("pipeline_version_id"):
            latest = self.store.latest_version(reference["pipeline_id"])
            assert latest is not None  # it was compiled
            reference["pipeline_version_id"] = latest["pipeline_version_id"]
        return {"pipeline_version_reference": reference}

    def get_run(self, call: Call) -> Item:
        with during("Failed to get a run"):
            return self._run(call, call.ids[0], "get")

    def _run(self, call: Call, run_id: str, verb: str) -> Item:
        if run_id not in self.store.runs:
            with during(f"Failed to fetch run {run_id}"):
                raise refusals.not_found("Run", run_id)
        run = self.store.runs[run_id]
        experiment = self.store.experiments.get(run["experiment_id"])
        if experiment is not None:
            self.access.require(call.user, experiment["namespace"], verb, "runs")
        return run

    def list_runs(self, call: Call) -> Item:
        chosen = self._chosen(call, "Failed to list runs", "runs")
        # A list has no tasks: one asks for a run to see them.
        found = [
            {key: value for key, value in run.items() if key != "run_details"}
            for run in self.store.runs.values()
            if run["experiment_id"] in chosen
        ]
        return _listed("runs", listing.RUNS, found, call, _LIST.format("runs"))

    def _chosen(self, call: Call, what: str, resource: str) -> set[str]:
        """Ids of the experiments whose runs or recurring runs are asked for."""
        experiment_id = call.query.get("experiment_id", "")
        noun = "runs" if resource == "runs" else "recurring runs"
        with during(what):
            if experiment_id:
                step = f"Failed to list {noun} due to error fetching namespace for experiment {experiment_id}"
                if experiment_id not in self.store.experiments:
                    with during(
                        f"{step}. Try filtering based on namespace",
                        f"Failed to fetch namespace from experiment {experiment_id}",
                    ):
                        raise refusals.not_found("Experiment", experiment_id)
                namespace = self.store.experiments[experiment_id]["namespace"]
            else:
                namespace = call.query.get("namespace", "") if self.access.multi_user else ""
            with during(
                f"Failed to list {noun} due to authorization error. "
                f"Check if you have permission to access namespace {namespace}"
            ):
                self.access.require(call.user, namespace, "list", resource)
        if experiment_id:
            return {experiment_id}
        if not self.access.multi_user:  # runs of experiments that were deleted as well
            owners = [*self.store.runs.values(), *self.store.recurring_runs.values()]
            return {item["experiment_id"] for item in owners}
        return {key for key, item in self.store.experiments.items() if item["namespace"] == namespace}

    def terminate_run(self, call: Call) -> Item:
        (run_id,) = call.ids
        with during("Failed to terminate a run"):
            with during(f"Failed to terminate run {run_id} due to error fetching the run"):
                run = self._run(call, run_id, "terminate")
            if run["state"] in store.ENDED or run_id in self.store.terminated:
                with during(f"Failed to terminate run {run_id}"):
                    raise refusals.invalid(f"Failed to terminate a run {run_id}. Row not found")
        self.store.terminated.add(run_id)
        run["state"] = store.CANCELING
        return {}

    def retry_run(self, call: Call) -> Item:
        (run_id,) = call.ids
        with during("Failed to retry a run"):
            with during(f"Failed to retry run {run_id} due to error fetching the run"):
                run = self._run(call, run_id, "retry")
            if run_id not in self.store.reported:
                raise refusals.bad_request(
                    f"Failed to retry run {run_id} due to error fetching workflow manifest",
                    "Invalid input error: Workflow manifest cannot be empty",
                )
            if run["state"] != store.FAILED:
                raise refusals.bad_request(
                    f"Failed to retry run {run_id} as it does not allow reties",
                    "Workflow must be Failed/Error to retry",
                )
        self.store.retry(run_id)
        return {}

    def archive_run(self, call: Call) -> Item:
        with during("Failed to archive a run", f"Failed to archive run {call.ids[0]} as it failed to be retrieved"):
            self._run(call, call.ids[0], "archive")["storage_state"] = store.ARCHIVED
        return {}

    def unarchive_run(self, call: Call) -> Item:
        with during("Failed to unarchive a run", f"Failed to unarchive run {call.ids[0]} as it does not exist"):
            self._run(call, call.ids[0], "unarchive")["storage_state"] = store.AVAILABLE
        return {}

    def delete_run(self, call: Call) -> Item:
        with during("Failed to delete a run", f"Failed to delete run {call.ids[0]} as it does not exist"):
            self._run(call, call.ids[0], "delete")
        del self.store.runs[call.ids[0]]
        return {}

    # Recurring runs

    def create_recurring_run(self, call: Call) -> Item:
        body = json_check.body(call.body, "V2beta1RecurringRun")
        what = "Failed to create a recurring run"
        if not body.get("display_name"):
            with (
                during(f"{what} due to conversion error"),
                refusals.failing_at("Failed to convert a API recurring run to its internal representation"),
            ):
                raise refusals.invalid("Recurring run's name cannot be empty")
        with during(f"{what} due to conversion error"):
            _check_schedule(body)
        with during(what):
            experiment = self._owner(call, body, "a recurring run", "create", "jobs")
            spec = self._manifest(body, "a recurring run")
            with during(f"{what} during scheduled workflow creation"):
                self._compile(spec, body)
        now = self.store.now()
        # One without a version follows the newest, and has no account of its own.
        account = body.get("service_account", "") or (self._account() if self._pinned(body) else "")
        mode = "ENABLE" if body.get("mode") == "ENABLE" else "DISABLE"
        recurring = {
            "recurring_run_id": self.store.new_id(),
            **_copied(body, self._source(body, pinned=False)),
            "service_account": account,
            "max_concurrency": body["max_concurrency"],
            "trigger": body.get("trigger", {}),
            "mode": mode,
            "created_at": now,
            "updated_at": now,
            "status": f"{mode}D",
            **({"no_catchup": True} if body.get("no_catchup") else {}),
            "namespace": experiment["namespace"] or "kubeflow",
            "experiment_id": experiment["experiment_id"],
        }
        self.store.recurring_runs[recurring["recurring_run_id"]] = recurring
        return recurring

    def _pinned(self, body: Item) -> bool:
        return "pipeline_spec" in body or bool(body["pipeline_version_reference"].get("pipeline_version_id"))

    def get_recurring_run(self, call: Call) -> Item:
        with during("Failed to fetch a recurring run"):
            return self._recurring_run(call, "get")

    def _recurring_run(self, call: Call, verb: str) -> Item:
        (recurring_run_id,) = call.ids
        if recurring_run_id not in self.store.recurring_runs:
            raise refusals.not_found("Job", recurring_run_id)
        recurring = self.store.recurring_runs[recurring_run_id]
        self.access.require(call.user, recurring["namespace"], verb, "jobs")
        return recurring

    def list_recurring_runs(self, call: Call) -> Item:
        chosen = self._chosen(call, "Failed to list jobs", "jobs")
        found = [item for item in self.store.recurring_runs.values() if item["experiment_id"] in chosen]
        return _listed("recurringRuns", listing.RECURRING_RUNS, found, call, _LIST.format("recurring runs"))

    def enable_recurring_run(self, call: Call) -> Item:
        return self._switch(call, "ENABLE", "true")

    def disable_recurring_run(self, call: Call) -> Item:
        return self._switch(call, "DISABLE", "false")

    def _switch(self, call: Call, mode: str, word: str) -> Item:
        step = f"Failed to change recurring run's mode to enable:{word}. Check if recurring run {call.ids[0]} exists"
        with during(f"Failed to {mode.lower()} a recurring run", step):
            recurring = self._recurring_run(call, mode.lower())
        recurring.update(mode=mode, status=f"{mode}D", updated_at=self.store.now())
        return {}

    def delete_recurring_run(self, call: Call) -> Item:
        step = f"Failed to delete recurring run {call.ids[0]}. Check if exists"
        with during("Failed to delete a recurring run", step):
            self._recurring_run(call, "delete")
        self.store.delete_recurring_run(call.ids[0])
        return {}


def _copied(body: Item, source: Item) -> Item:
    """What a run and a recurring run keep of what was sent; of the runtime's configuration, what is set."""
    runtime = {key: value for key, value in body.get("runtime_config", {}).items() if value}
    copied = {"display_name": body["display_name"], "description": body.get("description", ""), **source}
    return {**copied, "runtime_config": runtime} if runtime else copied


def _check_schedule(body: Item) -> None:
    """Refuses a trigger that never was one, and too many runs at once."""
    most = int(body.get("max_concurrency", "0"))
    if not 1 <= most <= _MOST_CONCURRENT:
        raise refusals.invalid(
            f"Max concurrency of a recurring run must be at least 1 and at most {_MOST_CONCURRENT}. Received {most}"
        )
    trigger = body.get("trigger", {})
    if "cron_schedule" in trigger:
        cron.check(trigger["cron_schedule"].get("cron", ""))
    if "periodic_schedule" in trigger:
        interval = int(trigger["periodic_schedule"].get("interval_second", "0"))
        if interval < 1:
            raise refusals.invalid(
                f"Found invalid period schedule interval {interval}. Set at interval to least 1 second"
            )


def _listed(key: str, kind: listing.Kind, items: list[Item], call: Call, complaint: str) -> Item:
    shown, count, token = listing.page(kind, items, call.query, complaint)
    return {key: shown, "total_size": count, "next_page_token": token} if count else {}


Operation = Callable[[Api, Call], Item | PlainText]
_ID = "([^/:]+)"
ROUTES: tuple[tuple[str, re.Pattern[str], Operation], ...] = tuple(
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("POST", "/pipelines/upload", Api.upload_pipeline),
        ("POST", "/pipelines/upload_version", Api.upload_version),
        ("GET", f"/pipelines/names/{_ID}", Api.get_pipeline_by_name),
        ("GET", "/pipelines", Api.list_pipelines),
        ("GET", f"/pipelines/{_ID}", Api.get_pipeline),
        ("DELETE", f"/pipelines/{_ID}", Api.delete_pipeline),
        ("GET", f"/pipelines/{_ID}/versions", Api.list_versions),
        ("GET", f"/pipelines/{_ID}/versions/{_ID}", Api.get_version),
        ("DELETE", f"/pipelines/{_ID}/versions/{_ID}", Api.delete_version),
        ("POST", "/experiments", Api.create_experiment),
        ("GET", "/experiments", Api.list_experiments),
        ("GET", f"/experiments/{_ID}", Api.get_experiment),
        ("DELETE", f"/experiments/{_ID}", Api.delete_experiment),
        ("POST", f"/experiments/{_ID}:archive", Api.archive_experiment),
        ("POST", f"/experiments/{_ID}:unarchive", Api.unarchive_experiment),
        ("POST", "/runs", Api.create_run),
        ("GET", "/runs", Api.list_runs),
        ("GET", f"/runs/{_ID}", Api.get_run),
        ("DELETE", f"/runs/{_ID}", Api.delete_run),
        ("POST", f"/runs/{_ID}:terminate", Api.terminate_run),
        ("POST", f"/runs/{_ID}:retry", Api.retry_run),
        ("POST", f"/runs/{_ID}:archive", Api.archive_run),
        ("POST", f"/runs/{_ID}:unarchive", Api.unarchive_run),
        ("POST", "/recurringruns", Api.create_recurring_run),
        ("GET", "/recurringruns", Api.list_recurring_runs),
        ("GET", f"/recurringruns/{_ID}", Api.get_recurring_run),
        ("DELETE", f"/recurringruns/{_ID}", Api.delete_recurring_run),
        ("POST", f"/recurringruns/{_ID}:enable", Api.enable_recurring_run),
        ("POST", f"/recurringruns/{_ID}:disable", Api.disable_recurring_run),
    )
)
