"""The server's state, and changes without requests: reported runs, and scheduled ones."""

import dataclasses
import datetime
import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from tests.fakes.kubeflow.requests import Item

PENDING, RUNNING, CANCELING = "PENDING", "RUNNING", "CANCELING"
SUCCEEDED, FAILED, CANCELED, SKIPPED = "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"
ENDED = (SUCCEEDED, FAILED, CANCELED, SKIPPED)
EXIT_HANDLER = "record"
NEVER = "1970-01-01T00:00:00Z"


@dataclasses.dataclass
class Store:
    """The server's objects, each kind by id, as it answers them."""

    pipelines: dict[str, Item] = dataclasses.field(default_factory=dict)
    versions: dict[str, Item] = dataclasses.field(default_factory=dict)
    experiments: dict[str, Item] = dataclasses.field(default_factory=dict)
    runs: dict[str, Item] = dataclasses.field(default_factory=dict)
    recurring_runs: dict[str, Item] = dataclasses.field(default_factory=dict)
    killed_runs: list[str] = dataclasses.field(default_factory=list)  # active when their schedule was deleted
    terminated: set[str] = dataclasses.field(default_factory=set)  # runs with a request to terminate
    unsettled: dict[str, str] = dataclasses.field(default_factory=dict)  # by run that just succeeded: its last task
    _ids: int = 0
    _ticks: dict[str, int] = dataclasses.field(default_factory=dict)

    def new_id(self) -> str:
        """Return an id: unordered like real ones, but the same each time."""
        self._ids += 1
        digest = hashlib.md5(str(self._ids).encode(), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    def now(self) -> str:
        """Return the time in whole seconds, as the server stores it."""
        return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def add(self, kind: str, fields: Item) -> Item:
        """Keep a new item of a kind: `pipeline`, `version`, `experiment` or `recurring_run`."""
        key = "pipeline_version_id" if kind == "version" else f"{kind}_id"
        item = {key: self.new_id(), **fields, "created_at": self.now()}
        getattr(self, f"{kind}s")[item[key]] = item
        return item

    def add_run(self, fields: Item, state: str) -> Item:
        """Start a run; `state` is empty if nobody has reported it yet."""
        run_id, now = self.new_id(), self.now()
        history = [{"update_time": now, "state": state}] if state else []
        times = {"created_at": now, "scheduled_at": now, "finished_at": NEVER}
        self.runs[run_id] = {**fields, **times, "run_id": run_id, "state": state, "state_history": history}
        return self.runs[run_id]

    def report(self, run_id: str, state: str, stages: Mapping[str, Any]) -> None:
        """Report a run's workflow as the persistence agent does.

        `stages` holds the state of each task that has one, optionally with a message.
        """
        run, now = self.runs[run_id], self.now()
        if run.get("state") != state:
            run["state_history"] = [*run.get("state_history", []), {"update_time": now, "state": state}]
        run["state"], run["finished_at"] = state, now if state in ENDED else NEVER
        if stages or "run_details" not in run:
            run["run_details"] = {"task_details": self._tasks(run, stages)}
        if state == SUCCEEDED and stages:
            self.unsettled[run_id] = list(stages)[-1]

    def run_as_listed(self, run_id: str) -> Item:
        """Return a run; the first answer after it has succeeded has its last task as CANCELED."""
        run, last = self.runs[run_id], self.unsettled.pop(run_id, "")
        tasks = run.get("run_details", {}).get("task_details", [])
        listed = [task | {"state": CANCELED} if task["display_name"] == last else task for task in tasks]
        return run | {"run_details": {"task_details": listed}} if last else run

    def inputs_of_exit_handler(self, run_id: str) -> Item | None:
        """Return what the exit handler of an ended run gets; None if it has succeeded before, as it is not repeated."""
        tasks = self.runs[run_id]["run_details"]["task_details"]
        states = {task["display_name"]: task["state"] for task in tasks}
        if states.get(EXIT_HANDLER) == SUCCEEDED:
            return None
        first = states.get("decide") == FAILED
        status = {"state": FAILED if first else RUNNING, "error": {}, "pipeline_task_name": "exit-handler-1"}
        workflow = f"wgan-gp-{run_id[:5]}"
        return {"run": run_id, "run_name": workflow, "created": "", "scheduled": "", "status": json.dumps(status)}

    def _tasks(self, run: Item, stages: Mapping[str, Any]) -> list[Item]:
        """Return tasks as Argo's nodes become them: each stage is a node, with a driver beside it and a pod within."""
        before = {task["display_name"]: task for task in run.get("run_details", {}).get("task_details", [])}
        tasks = [self._task(before, "root", run["state"]), self._task(before, "root-driver", SUCCEEDED)]
        if EXIT_HANDLER in before and EXIT_HANDLER not in stages:
            tasks.append(before[EXIT_HANDLER])
        for name, expected in stages.items():
            state, message = (expected, "") if isinstance(expected, str) else expected
            tasks += [self._task(before, f"{name}-driver", SUCCEEDED), self._task(before, name, state, message)]
            if state != SKIPPED:
                tasks.append(self._task({}, "executor", state, message))
        return tasks

    def _task(self, before: Mapping[str, Item], name: str, state: str, message: str = "") -> Item:
        old, now = before.get(name, {}), self.now()
        same = old.get("state") == state
        started = old.get("start_time", NEVER)
        return {
            "display_name": name,
            "create_time": old.get("create_time", now),
            "start_time": now if started == NEVER and state != PENDING else started,
            "end_time": (old["end_time"] if same else now) if state in ENDED else NEVER,
            "state": state,
            **({"error": {"code": 13, "message": message}} if message else {}),
        }

    def retry(self, run_id: str) -> None:
        """Resume a failed run; its earlier state is forgotten."""
        run = self.runs[run_id]
        run["state"], run["state_history"], run["finished_at"] = RUNNING, [], NEVER
        tasks = run.get("run_details", {}).get("task_details", [])
        run["run_details"] = {"task_details": [task for task in tasks if task["state"] in (SUCCEEDED, SKIPPED)]}
        self.terminated.discard(run_id)

    def active_runs_of(self, recurring_run_id: str) -> list[Item]:
        runs = [run for run in self.runs.values() if run.get("recurring_run_id") == recurring_run_id]
        return [run for run in runs if run["state"] not in ENDED]

    def delete_recurring_run(self, recurring_run_id: str) -> None:
        """Remove a recurring run with the owner of its runs' workflows, so that Kubernetes collects them."""
        for run in self.active_runs_of(recurring_run_id):
            self.killed_runs.append(run["run_id"])
            self.report(run["run_id"], FAILED, {})
        del self.recurring_runs[recurring_run_id]

    def tick(self) -> list[str]:
        """Start one run of every enabled recurring run that may have another, like the controller; return their ids."""
        started = []
        for recurring_run_id, recurring in list(self.recurring_runs.items()):
            busy = len(self.active_runs_of(recurring_run_id)) >= int(recurring["max_concurrency"])
            if recurring["mode"] != "ENABLE" or busy:
                continue
            count = self._ticks[recurring_run_id] = self._ticks.get(recurring_run_id, 0) + 1
            names = ("experiment_id", "pipeline_version_reference", "runtime_config", "service_account")
            fields = {name: recurring[name] for name in names}
            # Kubernetes makes the name of the recurring run's, random letters and a number.
            fields["display_name"] = f"{recurring['display_name'].lower()}{recurring_run_id[:5]}-{count}"
            run = self.add_run(fields | {"recurring_run_id": recurring_run_id}, state="")
            started.append(run["run_id"])
        return started
