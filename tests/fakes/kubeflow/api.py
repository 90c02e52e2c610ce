"""The operations of Kubeflow's v2beta1 API that our client uses."""

import dataclasses
import email.parser
import email.policy
import json
import re
from collections.abc import Callable, Mapping
from email.message import Message
from typing import NamedTuple

from tests.fakes.kubeflow import cron, pipelines, requests, store
from tests.fakes.kubeflow.requests import Item, Refusal
from tests.fakes.kubeflow.store import Store

_LONGEST_NAME, _LONGEST_COLUMN = 128, 191  # of a pipeline, and of a run in the database
_MOST_CONCURRENT = 10


class Call(NamedTuple):
    ids: tuple[str, ...]  # names in its path
    query: Mapping[str, str]
    headers: Message
    body: bytes


@dataclasses.dataclass
class Access:
    token: str  # required bearer token; empty for none
    cookie: str  # required cookie, as `name=value`; empty for none
    multi_user: bool  # whether namespaces are separate

    def require_entry(self, headers: Message) -> None:
        """Refuse requests that the proxy before a cluster, or the server itself, rejects."""
        authorization = headers.get("Authorization", "")
        if self.token and authorization != f"Bearer {self.token}":
            raise Refusal(401, 16, "Unauthenticated: the request has no valid bearer token")
        cookies = [part.strip() for part in headers.get("Cookie", "").split(";")]
        if self.cookie and self.cookie not in cookies:
            raise Refusal(401, 16, "Unauthenticated: the request has no valid session cookie")

    def namespace(self, name: str | None) -> str:
        """Return the namespace of a request; empty for a single user."""
        if not self.multi_user:
            return ""
        if name != "team-a":
            message = f"User 'user@example.com' is not authorized with reason:  (request: Namespace:{name})"
            raise Refusal(403, 7, f"PermissionDenied: {message}: Unauthorized access", message)
        return name


@dataclasses.dataclass
class Api:
    """The operations on the server's state."""

    store: Store
    access: Access
    version: tuple[int, int]  # the emulated server's

    def _item(self, kind: str, item_id: str) -> Item:
        items: dict[str, Item] = getattr(self.store, f"{kind}s")
        if item_id not in items:
            raise requests.not_found(kind, item_id)
        return items[item_id]

    def _visible(self, items: dict[str, Item], call: Call) -> list[Item]:
        namespace = self.access.namespace(call.query.get("namespace"))
        return [item for item in items.values() if item["namespace"] == namespace]

    def upload_pipeline(self, call: Call) -> Item:
        name, spec = self._uploaded(call)
        if any(item["name"] == name for item in self._visible(self.store.pipelines, call)):
            raise requests.conflict(6, "Failed to create a pipeline and a pipeline version")
        namespace = self.access.namespace(call.query.get("namespace"))
        pipeline = self.store.add("pipeline", {"display_name": name, "name": name, "namespace": namespace})
        self._add_version(pipeline["pipeline_id"], name, spec)
        return pipeline

    def upload_version(self, call: Call) -> Item:
        (name, spec), pipeline_id = self._uploaded(call), call.query.get("pipelineid", "")
        if pipeline_id not in self.store.pipelines:
            raise requests.invalid("Failed to create a pipeline version")
        if any(item["name"] == name for item in self._versions_of(pipeline_id)):
            raise requests.conflict(6, "Failed to create a pipeline version")
        return self._add_version(pipeline_id, name, spec)

    def _uploaded(self, call: Call) -> tuple[str, pipelines.Spec]:
        """Return the name of an upload, and its pipeline."""
        head = f"Content-Type: {call.headers.get('Content-Type', '')}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + call.body)
        parts = {str(part.get_param("name", header="content-disposition")): part for part in form.iter_parts()}
        part = parts.get("uploadfile")
        if part is None:
            raise requests.invalid("Failed to read pipeline from file")
        filename, text = part.get_filename("") or "", part.get_payload(decode=True)
        name = call.query.get("name") or filename
        if len(name) > _LONGEST_NAME:
            raise requests.invalid(f"Name length cannot exceed {_LONGEST_NAME}")
        return name, pipelines.read(filename, text if isinstance(text, bytes) else b"")

    def _add_version(self, pipeline_id: str, name: str, spec: Item) -> Item:
        fields = {"pipeline_id": pipeline_id, "display_name": name, "name": name, "pipeline_spec": spec}
        return self.store.add("version", fields)

    def _versions_of(self, pipeline_id: str) -> list[Item]:
        return [item for item in self.store.versions.values() if item["pipeline_id"] == pipeline_id]

    def list_pipelines(self, call: Call) -> Item:
        return _listed("pipelines", "pipeline_id", self._visible(self.store.pipelines, call), call)

    def get_version(self, call: Call) -> Item:
        return self._item("version", call.ids[1])

    def list_versions(self, call: Call) -> Item:
        versions = self._versions_of(self._item("pipeline", call.ids[0])["pipeline_id"])
        return _listed("pipeline_versions", "pipeline_version_id", versions, call)

    def create_experiment(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1Experiment")
        name, namespace = body.get("display_name", ""), self.access.namespace(body.get("namespace"))
        if not name:
            raise requests.internal("Experiment must have a non-empty name")
        if (name, namespace) in [(item["display_name"], item["namespace"]) for item in self.store.experiments.values()]:
            raise requests.conflict(6, f"The name {name} already exists. Please specify a new name")
        return self.store.add("experiment", {"display_name": name, "namespace": namespace})

    def get_experiment(self, call: Call) -> Item:
        experiment = self._item("experiment", call.ids[0])
        self.access.namespace(experiment["namespace"])
        return experiment

    def list_experiments(self, call: Call) -> Item:
        return _listed("experiments", "experiment_id", self._visible(self.store.experiments, call), call)

    def create_run(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1Run")
        fields = self._started(body)
        if len(body["display_name"]) > _LONGEST_COLUMN:
            raise requests.internal("Failed to store run: Data too long for column 'DisplayName'")
        return self.store.add_run(fields, store.PENDING)

    def _started(self, body: Item) -> Item:
        """Return the fields that a run and a recurring run keep of a checked request."""
        if not body.get("display_name"):
            raise requests.internal("Run name cannot be empty")
        experiment = self._item("experiment", body.get("experiment_id", ""))
        self.access.namespace(experiment["namespace"])
        reference = body.get("pipeline_version_reference", {})
        version = self.store.versions.get(reference.get("pipeline_version_id", ""))
        if version is None:
            raise requests.internal("Failed to create a run due to error fetching manifest: no such version")
        runtime = {key: value for key, value in body.get("runtime_config", {}).items() if value}
        usual = "default-editor" if self.access.multi_user else "pipeline-runner"
        pipelines.check_run(version["pipeline_spec"], runtime.get("parameters", {}), self.version)
        return {
            "display_name": body["display_name"],
            "description": body.get("description", ""),
            "experiment_id": experiment["experiment_id"],
            "pipeline_version_reference": reference,
            "runtime_config": runtime,
            "service_account": body.get("service_account") or usual,
        }

    def get_run(self, call: Call) -> Item:
        return self.store.run_as_listed(self._item("run", call.ids[0])["run_id"])

    def list_runs(self, call: Call) -> Item:
        runs = self._chosen(self.store.runs, call)
        listed = [{key: value for key, value in run.items() if key != "run_details"} for run in runs]  # without tasks
        return _listed("runs", "run_id", listed, call)

    def _chosen(self, items: dict[str, Item], call: Call) -> list[Item]:
        """Return runs or recurring runs of the requested experiment or namespace."""
        if experiment_id := call.query.get("experiment_id", ""):
            chosen = {self._item("experiment", experiment_id)["experiment_id"]}
        elif self.access.multi_user:
            chosen = {item["experiment_id"] for item in self._visible(self.store.experiments, call)}
        else:  # those of deleted experiments, too
            return list(items.values())
        return [item for item in items.values() if item["experiment_id"] in chosen]

    def terminate_run(self, call: Call) -> Item:
        run = self._item("run", call.ids[0])
        if run["state"] in store.ENDED or run["run_id"] in self.store.terminated:
            raise requests.invalid(f"Failed to terminate a run {run['run_id']}. Row not found")
        self.store.terminated.add(run["run_id"])
        run["state"] = store.CANCELING
        return {}

    def retry_run(self, call: Call) -> Item:
        run = self._item("run", call.ids[0])
        if run["state"] != store.FAILED:
            raise requests.conflict(10, "BadRequestError: Workflow must be Failed/Error to retry")
        self.store.retry(run["run_id"])
        return {}

    def create_recurring_run(self, call: Call) -> Item:
        body = requests.body(call.body, "V2beta1RecurringRun")
        if not 1 <= int(body.get("max_concurrency", "0")) <= _MOST_CONCURRENT:
            raise requests.invalid(f"Max concurrency of a recurring run must be from 1 to {_MOST_CONCURRENT}")
        if body.get("namespace") and not self.access.multi_user:
            raise requests.invalid(f"Experiment belongs to namespace '' instead of '{body['namespace']}'")
        cron.fields(body.get("trigger", {}).get("cron_schedule", {}).get("cron", ""))
        mode = "ENABLE" if body.get("mode") == "ENABLE" else "DISABLE"
        fields = self._started(body)
        fields["namespace"] = self.store.experiments[fields["experiment_id"]]["namespace"] or "kubeflow"
        fields |= {name: body[name] for name in ("max_concurrency", "trigger", "no_catchup") if body.get(name)}
        return self.store.add("recurring_run", {**fields, "mode": mode, "status": f"{mode}D"})

    def list_recurring_runs(self, call: Call) -> Item:
        return _listed("recurringRuns", "recurring_run_id", self._chosen(self.store.recurring_runs, call), call)

    def switch_recurring_run(self, call: Call) -> Item:
        mode = call.ids[1].upper()
        self._item("recurring_run", call.ids[0]).update(mode=mode, status=f"{mode}D")
        return {}

    def delete_recurring_run(self, call: Call) -> Item:
        self.store.delete_recurring_run(self._item("recurring_run", call.ids[0])["recurring_run_id"])
        return {}


def _listed(field: str, key: str, items: list[Item], call: Call) -> Item:
    try:
        shown, token = requests.page(items, key, call.query)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise requests.invalid(f"Failed to list: {error}") from None
    return {field: shown, "total_size": len(items), "next_page_token": token} if shown else {}


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
