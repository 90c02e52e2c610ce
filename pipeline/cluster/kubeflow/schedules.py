"""Schedules on a Kubeflow server: its recurring runs, which cannot be changed, and which names do not identify.

Anybody may make some: the description of ours has a mark, with the digest of their origin.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from components.core.storage import digests
from pipeline.cluster.backend import ENDED, PERHAPS_CREATED, LiveSchedule, Schedule
from pipeline.cluster.kubeflow.runs import KubeflowRuns

# In a description, of which servers on MySQL keep 255 characters.
_MARK = re.compile(r"Made by wgan schedule apply, time zone (\S+): content ([0-9a-f]{64}), name ")
_SECONDS = "0 "  # come first in Kubeflow's cron
_PAGE = 200  # the server's longest
_GONE = 404


class KubeflowBackend(KubeflowRuns):
    @property
    def _api(self) -> Any:
        return self.connection.client.recurring_runs

    def live(self) -> list[LiveSchedule]:
        client = self.connection.client
        active: dict[str, list[str]] = {}
        with self.connection.explained("list schedules"):
            ask = functools.partial(_items, namespace=client.namespace or None)
            marked = []
            for recurring_run in ask(self._api.recurring_run_service_list_recurring_runs, "recurring_runs"):
                mark = _MARK.match(recurring_run.description or "")
                # Not a copy of ours under another name.
                if mark and recurring_run.description == mark_for(recurring_run.display_name, mark[1], mark[2]):
                    marked.append((recurring_run, mark))
            # All runs are read, because a fresh run has no state to filter by, and its experiment may be gone.
            for run in ask(client.runs.run_service_list_runs, "runs") if marked else ():
                if run.recurring_run_id and run.state not in ENDED:
                    active.setdefault(run.recurring_run_id, []).append(run.run_id)
            live, has = [], functools.cache(_reaches)
            for recurring_run, mark in marked:
                trigger = recurring_run.trigger.cron_schedule if recurring_run.trigger else None
                cron = ((trigger.cron or "") if trigger else "").removeprefix(_SECONDS)
                # A schedule whose pipeline version or experiment is gone starts no run.
                reference, experiment = recurring_run.pipeline_version_reference, recurring_run.experiment_id
                version = (reference.pipeline_id, reference.pipeline_version_id) if reference else ("",)
                is_whole = has(client.pipelines.pipeline_service_get_pipeline_version, *version)
                is_whole = is_whole and has(client.experiments.experiment_service_get_experiment, experiment)
                live.append(
                    LiveSchedule(
                        schedule_id=recurring_run.recurring_run_id,
                        name=recurring_run.display_name,
                        enabled=(recurring_run.status or recurring_run.mode or "").startswith("ENABLE"),
                        digest=mark[2] if is_whole else "",
                        cron=f"{cron} {mark[1]}",
                        active_runs=tuple(active.get(recurring_run.recurring_run_id, ())),
                    )
                )
            return live

    def create(self, schedule: Schedule) -> str:
        """Create a paused schedule of this version of the pipeline, and upload it unless the server has it."""
        body = {
            "display_name": schedule.name,
            "description": mark_for(schedule.name, schedule.time_zone, schedule.digest()),
            "mode": "DISABLE",
            "trigger": {"cron_schedule": {"cron": f"{_SECONDS}{schedule.cron}"}},
            "max_concurrency": schedule.concurrency,
            "no_catchup": not schedule.catch_up,
            **self.start_of(schedule.submission),
        }
        with self.connection.explained(f"create schedule {schedule.name}", PERHAPS_CREATED):
            return str(self._api.recurring_run_service_create_recurring_run(recurring_run=body).recurring_run_id)

    def pause(self, schedule_id: str) -> None:
        with self.connection.explained(f"pause schedule {schedule_id}"):
            self._api.recurring_run_service_disable_recurring_run(schedule_id)

    def resume(self, schedule_id: str) -> None:
        """Let a schedule start runs: one at once if it missed any, and all missed ones if it is to catch up."""
        with self.connection.explained(f"resume schedule {schedule_id}"):
            self._api.recurring_run_service_enable_recurring_run(schedule_id)

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule. That would end its active runs: the caller has checked that there are none."""
        with self.connection.explained(f"delete schedule {schedule_id}"):
            _reaches(self._api.recurring_run_service_delete_recurring_run, schedule_id)


def _reaches(ask: Callable[..., Any], *ids: str | None) -> bool:
    """Send a request about an object, and return whether the server has it."""
    import kfp_server_api

    if not all(ids):
        return False
    try:
        ask(*ids)
    except kfp_server_api.ApiException as error:
        if error.status != _GONE:
            raise
        return False
    return True


def _items(ask: Callable[..., Any], field: str, **scope: Any) -> Iterator[Any]:
    """Yield all items of a list, page by page."""
    token: str | None = ""
    while token is not None:
        page = ask(page_token=token, page_size=_PAGE, **scope)
        yield from getattr(page, field) or ()
        token = page.next_page_token or None


def mark_for(name: str, time_zone: str, digest: str) -> str:
    """Return the description of a schedule of ours."""
    check = digests.digest_of([name, digest])[:8]
    return f"Made by wgan schedule apply, time zone {time_zone}: content {digest}, name {check}"
