"""The operations of Kubeflow's v2beta1 API that our client uses."""

import dataclasses
import email.parser
import email.policy
import json
import re
from collections.abc import Callable, Collection, Mapping
from email.message import Message

from tests.fakes.kubeflow import cron, pipelines, requests, store
from tests.fakes.kubeflow.requests import Item, Refusal
from tests.fakes.kubeflow.store import Store

_LONGEST_NAME = 128  # of a pipeline
_LONGEST_COLUMN = 191  # of a run's name in the database
_MOST_CONCURRENT = 10


@dataclasses.dataclass(frozen=True)
class Call:
    """One request: what its path names, its query, headers and body."""

    ids: tuple[str, ...]
    query: Mapping[str, str]
    headers: Message
    body: bytes


@dataclasses.dataclass
class Access:
    """What is asked of a request."""

    token: str  # bearer token that every request must have; empty to ask none
    cookie: str  # likewise the cookie, as `name=value`
    multi_user: bool  # whether namespaces are kept apart

    def require_entry(self, headers: Message) -> None:
        """Refuses whom the proxy in front of a cluster, or the server itself, does not let in."""
        given = headers.get("Authorization", "")
        if self.token and given != f"Bearer {self.token}":
            raise Refusal(401, 16, "Unauthenticated: the request has no valid bearer token")
        cookies = [part.strip() for part in headers.get("Cookie", "").split(";")]
        if self.cookie and self.cookie not in cookies:
            raise Refusal(401, 16, "Unauthenticated: the request has no valid session cookie")
        if self.multi_user and not given and not headers.get("Cookie"):
            raise Refusal(401, 16, "Request header error: there is no user identity header.")

    def namespace(self, given: str | None) -> str:
        """Returns the namespace of what is asked for; empty for a single user, who has but one."""
        if not self.multi_user:
            return ""
        if not given:
            raise requests.invalid("Namespace cannot be empty in the multi-user mode")
        if given != "team-a":
            message = f"User 'user@example.com' is not authorized with reason:  (request: Namespace:{given})"
            raise Refusal(403, 7, f"PermissionDenied: {message}: Unauthorized access", message)
        return given


@dataclasses.dataclass
class Api:
    """The operations on what a server holds."""

    store: Store
    access: Access
    version: tuple[int, int]  # of the server that it stands for
    hangs: list[str]  # requests that the real server would never answer

    def upload_pipeline(self, call: Call) -> Item:
        filename, spec = self._uploaded(call)
        name = _name_of(call, filename)
        namespace = self.access.namespace(call.query.get("namespace"))
        if any((item["name"], item["namespace"]) == (name, namespace) for item in self.store.pipelines.values()):
            raise requests.conflict(6, "Failed to create a pipeline and a pipeline version")
        pipeline = self.store.add("pipeline", {"display_name": name, "name": name, "namespace": namespace})
        self._add_version(pipeline["pipeline_id"], name, spec)
        return pipeline

    def upload_version(self, call: Call) -> Item:
        filename, spec = self._uploaded(call)
        name, pipeline_id = _name_of(call, filename), call.query.get("pipelineid", "")
        if pipeline_id not in self.store.pipelines:
            raise requests.invalid("Failed to create a pipeline version")
        versions = self.store.versions.values()
        if any((item["pipeline_id"], item["name"]) == (pipeline_id, name) for item in versions):
            raise requests.conflict(6, "Failed to create a pipeline version")
        return self._add_version(pipeline_id, name, spec)

    def _uploaded(self, call: Call) -> tuple[str, pipelines.Spec]:
        """The name of the uploaded file and the pipeline in it."""
        head = f"Content-Type: {call.headers.get('Content-Type', '')}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + call.body)
        parts = {str(part.get_param("name", header="content-disposition")): part for part in form.iter_parts()}
        part = parts.get("uploadfile")
        if part is None:
            raise requests.invalid("Failed to read pipeline from file")
        filename, text = part.get_filename("") or "", part.get_payload(decode=True)
        try:
            return filename, pipelines.read(filename, text if isinstance(text, bytes) else b"")
        except pipelines.SyntaxNeverAnsweredError:
            self.hangs.append(f"upload of {filename}, which is no YAML")
            raise requests.internal("the real server never answers this") from None

    def _add_version(self, pipeline_id: str, name: str, spec: Item) -> Item:
        fields = {"pipeline_id": pipeline_id, "display_name": name, "name": name, "pipeline_spec": spec}
        return self.store.add("version", fields)

    def list_pipelines(self, call: Call) -> Item:
        namespace = self.access.namespace(call.query.get("namespace"))
        found = [item for item in self.store.pipelines.values() if item["namespace"] == namespace]
        return _listed("pipelines", "pipeline_id", found, call)

    def get_version(self, call: Call) -> Item:
        pipeline_id, version_id = call.ids
        version = self.store.versions.get(version_id)
        if version is None or version["pipeline_id"] != pipeline_id:
            raise requests.not_found("PipelineVersion", version_id)
        return version

    def list_versions(self, call: Call) -> Item:
        (pipeline_id,) = call.ids
        if pipeline_id not in self.store.pipelines:
            raise requests.not_found("Pipeline", pipeline_id)
        found = [item for item in self.store.versions.values() if item["pipeline_id"] == pipeline_id]
        return _listed("pipeline_versions", "pipeline_version_id", found, call)

    def create_experiment(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1Experiment")
        name, namespace = body.get("display_name", ""), self.access.namespace(body.get("namespace"))
        if not name:
            raise requests.internal("Experiment must have a non-empty name")
        taken = [(item["display_name"], item["namespace"]) for item in self.store.experiments.values()]
        if (name, namespace) in taken:
            raise requests.conflict(6, f"The name {name} already exists. Please specify a new name")
        return self.store.add("experiment", {"display_name": name, "namespace": namespace})

    def get_experiment(self, call: Call) -> Item:
        if call.ids[0] not in self.store.experiments:
            raise requests.not_found("Experiment", call.ids[0])
        experiment = self.store.experiments[call.ids[0]]
        self.access.namespace(experiment["namespace"])
        return experiment

    def list_experiments(self, call: Call) -> Item:
        namespace = self.access.namespace(call.query.get("namespace"))
        found = [item for item in self.store.experiments.values() if item["namespace"] == namespace]
        return _listed("experiments", "experiment_id", found, call)

    def create_run(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1Run")
        fields = self._started(body)
        if len(body["display_name"]) > _LONGEST_COLUMN:
            raise requests.internal("Failed to store run: Data too long for column 'DisplayName'")
        return self.store.add_run(fields, store.PENDING)

    def _started(self, body: Item) -> Item:
        """What a run and a recurring run keep of what was sent, after it was checked."""
        if not body.get("display_name"):
            raise requests.internal("Run name cannot be empty")
        experiment_id = body.get("experiment_id", "")
        if experiment_id not in self.store.experiments:
            raise requests.not_found("Experiment", experiment_id)
        self.access.namespace(self.store.experiments[experiment_id]["namespace"])
        reference = body.get("pipeline_version_reference", {})
        version = self.store.versions.get(reference.get("pipeline_version_id", ""))
        if version is None:
            raise requests.internal("Failed to create a run due to error fetching manifest: no such version")
        runtime = {key: value for key, value in body.get("runtime_config", {}).items() if value}
        pipelines.check_run(version["pipeline_spec"], runtime.get("parameters", {}), self.version)
        return {
            "display_name": body["display_name"],
            "description": body.get("description", ""),
            "experiment_id": experiment_id,
            "pipeline_version_reference": reference,
            "runtime_config": runtime,
            "service_account": body.get("service_account")
            or ("default-editor" if self.access.multi_user else "pipeline-runner"),
        }

    def get_run(self, call: Call) -> Item:
        if call.ids[0] not in self.store.runs:
            raise requests.not_found("Run", call.ids[0])
        return self.store.runs[call.ids[0]]

    def list_runs(self, call: Call) -> Item:
        chosen = self._chosen(call)
        # A list has no tasks: one asks for a run to see them.
        found = [
            {key: value for key, value in run.items() if key != "run_details"}
            for run in self.store.runs.values()
            if run["experiment_id"] in chosen
        ]
        return _listed("runs", "run_id", found, call)

    def _chosen(self, call: Call) -> Collection[str]:
        """Ids of the experiments whose runs or recurring runs are asked for."""
        experiment_id = call.query.get("experiment_id", "")
        if experiment_id:
            if experiment_id not in self.store.experiments:
                raise requests.not_found("Experiment", experiment_id)
            return {experiment_id}
        if not self.access.multi_user:  # those of experiments that were deleted as well
            return {item["experiment_id"] for item in (*self.store.runs.values(), *self.store.recurring_runs.values())}
        namespace = self.access.namespace(call.query.get("namespace"))
        return {key for key, item in self.store.experiments.items() if item["namespace"] == namespace}

    def terminate_run(self, call: Call) -> Item:
        run = self.get_run(call)
        if run["state"] in store.ENDED or run["run_id"] in self.store.terminated:
            raise requests.invalid(f"Failed to terminate a run {run['run_id']}. Row not found")
        self.store.terminated.add(run["run_id"])
        run["state"] = store.CANCELING
        return {}

    def retry_run(self, call: Call) -> Item:
        run = self.get_run(call)
        if run["state"] != store.FAILED:
            raise requests.conflict(10, "BadRequestError: Workflow must be Failed/Error to retry")
        self.store.retry(run["run_id"])
        return {}

    def create_recurring_run(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1RecurringRun")
        most = int(body.get("max_concurrency", "0"))
        if not 1 <= most <= _MOST_CONCURRENT:
            raise requests.invalid(
                f"Max concurrency of a recurring run must be from 1 to {_MOST_CONCURRENT}, got {most}"
            )
        if body.get("namespace") and not self.access.multi_user:
            raise requests.invalid(f"Experiment belongs to namespace '' instead of '{body['namespace']}'")
        cron.fields(body.get("trigger", {}).get("cron_schedule", {}).get("cron", ""))
        mode = "ENABLE" if body.get("mode") == "ENABLE" else "DISABLE"
        fields = self._started(body)
        return self.store.add(
            "recurring_run",
            {
                **fields,
                "max_concurrency": body["max_concurrency"],
                "trigger": body["trigger"],
                "mode": mode,
                "status": f"{mode}D",
                **({"no_catchup": True} if body.get("no_catchup") else {}),
                "namespace": self.store.experiments[fields["experiment_id"]]["namespace"] or "kubeflow",
            },
        )

    def list_recurring_runs(self, call: Call) -> Item:
        chosen = self._chosen(call)
        found = [item for item in self.store.recurring_runs.values() if item["experiment_id"] in chosen]
        return _listed("recurringRuns", "recurring_run_id", found, call)

    def _recurring_run(self, call: Call) -> Item:
        if call.ids[0] not in self.store.recurring_runs:
            raise requests.not_found("Job", call.ids[0])
        return self.store.recurring_runs[call.ids[0]]

    def switch_recurring_run(self, call: Call) -> Item:
        mode = call.ids[1].upper()
        self._recurring_run(call).update(mode=mode, status=f"{mode}D")
        return {}

    def delete_recurring_run(self, call: Call) -> Item:
        self.store.delete_recurring_run(self._recurring_run(call)["recurring_run_id"])
        return {}


def _name_of(call: Call, filename: str) -> str:
    name = call.query.get("name") or filename
    if len(name) > _LONGEST_NAME:
        raise requests.invalid(f"Name length cannot exceed {_LONGEST_NAME}")
    return name


def _listed(what: str, key: str, items: list[Item], call: Call) -> Item:
    try:
        shown, token = requests.page(items, key, call.query)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise requests.invalid(f"Failed to list: {error}") from None
    return {what: shown, "total_size": len(items), "next_page_token": token} if shown else {}


Operation = Callable[[Api, Call], Item]
_ID = "([^/:]+)"
ROUTES: tuple[tuple[str, re.Pattern[str], Operation], ...] = tuple(
    (method, re.compile(pattern), operation)
    for method, pattern, operation in (
        ("POST", "/pipelines/upload", Api.upload_pipeline),
        ("POST", "/pipelines/upload_version", Api.upload_version),
        ("GET", "/pipelines", Api.list_pipelines),
        ("GET", f"/pipelines/{_ID}/versions", Api.list_versions),
        ("GET", f"/pipelines/{_ID}/versions/{_ID}", Api.get_version),
        ("POST", "/experiments", Api.create_experiment),
        ("GET", "/experiments", Api.list_experiments),
        ("GET", f"/experiments/{_ID}", Api.get_experiment),
        ("POST", "/runs", Api.create_run),
        ("GET", "/runs", Api.list_runs),
        ("GET", f"/runs/{_ID}", Api.get_run),
        ("POST", f"/runs/{_ID}:terminate", Api.terminate_run),
        ("POST", f"/runs/{_ID}:retry", Api.retry_run),
        ("POST", "/recurringruns", Api.create_recurring_run),
        ("GET", "/recurringruns", Api.list_recurring_runs),
        ("DELETE", f"/recurringruns/{_ID}", Api.delete_recurring_run),
        ("POST", f"/recurringruns/{_ID}:(enable|disable)", Api.switch_recurring_run),
    )
)
