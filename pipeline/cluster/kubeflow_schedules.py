"""Schedules on a Kubeflow server: its recurring runs.

They can be made, paused, resumed and deleted, not changed. Names do not identify them, and anybody may make some: what
is ours says so in its description, with the digest of what it was made from.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from components import digests
from components.errors import ConfigError
from pipeline.cluster import cron, runs, schedule_file
from pipeline.cluster.kubeflow_connection import KubeflowConnection
from pipeline.cluster.kubeflow_runs import KubeflowRuns
from pipeline.cluster.schedules import LiveSchedule, Schedule

# Servers on MySQL keep 255 characters of a description.
_MARK = re.compile(
    r"Made by wgan schedule apply, time zone (\S+)(, default account)?: content ([0-9a-f]{64}), name ([0-9a-f]{8})"
)
_PAGE = 100
_GONE = 404


class KubeflowSchedules:
    """The schedules of one Kubeflow server (see `pipeline.cluster.schedules.Schedules`)."""

    def __init__(
        self, connection: KubeflowConnection, places: KubeflowRuns, controller_time_zone: str = schedule_file.UTC
    ) -> None:
        """Makes it; nothing is sent yet.

        Args:
            connection: The way to the server.
            places: The runs of the same server, which uploads packages and makes experiments.
            controller_time_zone: Of the server's controller, as IANA names it.
        """
        self._connection, self._runs = connection, places
        self._controller_time_zone = controller_time_zone
        self._names = _Names()

    def require_expressible(self, schedule: Schedule) -> None:
        """Refuses, before anything is sent, what the server cannot express."""
        problems = []
        try:
            schedule_file.require_zone_of_controller(schedule.time_zone, self._controller_time_zone)
        except ValueError as error:
            problems.append(f"time_zone {error}")
        try:
            cron.for_kubeflow(schedule.cron)
        except ValueError as error:
            problems.append(f"cron {error}")
        if not 1 <= schedule.concurrency <= schedule_file.MOST_RUNS:
            problems.append(f"concurrency must be from 1 to {schedule_file.MOST_RUNS}, got {schedule.concurrency}")
        if problems:
            raise ConfigError(*(f"schedule {schedule.name}: {problem}" for problem in problems))

    def live(self) -> list[LiveSchedule]:
        """Those that this program made, of every name, with all of their runs that are at work."""
        client = self._connection.client
        with self._connection.explained("list schedules"):
            found = [each for each in _all(client.list_recurring_runs, "recurring_runs", client) if _marked(each)]
            at_work = _runs_at_work(client, {each.experiment_id for each in found})
            return [_told(each, self._names, client, at_work.get(each.recurring_run_id, ())) for each in found]

    def create(self, schedule: Schedule) -> LiveSchedule:
        """Makes one, paused, of the very version of the pipeline; uploads it unless it is there already."""
        wanted = schedule.submission
        experiment_id = self._runs.experiment_id(wanted.experiment)
        pipeline_id, version_id = self._runs.upload(wanted.package)
        with self._connection.explained(f"create schedule {schedule.name}"):
            made = self._connection.client.create_recurring_run(
                experiment_id,
                schedule.name,
                description=_mark(schedule),
                cron_expression=cron.for_kubeflow(schedule.cron),
                max_concurrency=schedule.concurrency,
                no_catchup=not schedule.catch_up,
                params=wanted.parameters,
                pipeline_id=pipeline_id,
                version_id=version_id,
                enabled=False,
                pipeline_root=wanted.pipeline_root or None,
                service_account=wanted.service_account or wanted.package.service_account or None,
            )
        return LiveSchedule(
            schedule_id=made.recurring_run_id,
            name=schedule.name,
            enabled=False,
            digest=digests.digest_of(schedule.content()),
            content=schedule.content(),
        )

    def pause(self, schedule_id: str) -> None:
        """Lets it start no more runs; those at work go on."""
        with self._connection.explained(f"pause schedule {schedule_id}"):
            self._connection.client.disable_recurring_run(schedule_id)

    def resume(self, schedule_id: str) -> None:
        """Lets it start runs: one at once if it missed any, and all that it missed if it is to catch up."""
        with self._connection.explained(f"resume schedule {schedule_id}"):
            self._connection.client.enable_recurring_run(schedule_id)

    def delete(self, schedule_id: str) -> None:
        """Removes it. Its runs at work would be ended: the caller has seen that there are none."""
        import kfp_server_api

        with self._connection.explained(f"delete schedule {schedule_id}"):
            try:
                self._connection.client.delete_recurring_run(schedule_id)
            except kfp_server_api.ApiException as error:
                if error.status != _GONE:
                    raise


class _Names:
    """The names that ids stand for, each asked for once; empty for what is no longer there."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], str] = {}

    def of(self, ask: Callable[..., Any], *ids: str) -> str:
        """The name of what a method of the client finds by ids."""
        import kfp_server_api

        if ids not in self._known:
            try:
                self._known[ids] = (ask(*ids).display_name or "") if all(ids) else ""
            except kfp_server_api.ApiException as error:
                if error.status != _GONE:
                    raise
                self._known[ids] = ""
        return self._known[ids]


def _all(ask: Callable[..., Any], what: str, client: Any, **more: Any) -> Iterator[Any]:
    """Everything that a server lists, page by page."""
    token = ""
    while True:
        page = ask(page_token=token, page_size=_PAGE, namespace=client.namespace or None, **more)
        yield from getattr(page, what) or ()
        token = page.next_page_token or ""
        if not token:
            return


def _runs_at_work(client: Any, experiment_ids: set[str]) -> dict[str, tuple[str, ...]]:
    """The runs that have not ended, by the id of the recurring run that started them.

    All runs of the experiments are looked through: of a fresh one, no state is there to ask for.
    """
    import kfp_server_api

    found: dict[str, tuple[str, ...]] = {}
    for experiment_id in sorted(experiment_ids):
        try:
            listed = list(_all(client.list_runs, "runs", client, experiment_id=experiment_id))
        except kfp_server_api.ApiException as error:
            if error.status != _GONE:
                raise
            # The experiment was deleted, which its runs outlive.
            listed = list(_all(client.list_runs, "runs", client))
        for run in listed:
            if run.recurring_run_id and run.state not in runs.ENDED and run.experiment_id == experiment_id:
                found[run.recurring_run_id] = (*found.get(run.recurring_run_id, ()), run.run_id)
    return found


def _mark(schedule: Schedule) -> str:
    """What the description of a recurring run of ours says."""
    account = "" if schedule.submission.service_account else ", default account"
    digest = digests.digest_of(schedule.content())
    check = _check(schedule.name, digest)
    return f"Made by wgan schedule apply, time zone {schedule.time_zone}{account}: content {digest}, name {check}"


def _check(name: str, digest: str) -> str:
    """Tells ours from copies that were made under another name, description and all."""
    return digests.digest_of([name, digest])[:8]


def _marked(found: Any) -> bool:
    mark = _MARK.fullmatch(found.description or "")
    return mark is not None and mark[4] == _check(found.display_name, mark[3])


def _told(found: Any, names: _Names, client: Any, active_runs: tuple[str, ...]) -> LiveSchedule:
    """A recurring run of ours, in our words."""
    mark = _MARK.fullmatch(found.description)
    if mark is None:
        raise ValueError("not one of ours")
    reference = found.pipeline_version_reference
    pipeline_id = (reference.pipeline_id or "") if reference else ""
    version_id = (reference.pipeline_version_id or "") if reference else ""
    trigger = found.trigger.cron_schedule if found.trigger else None
    configuration = found.runtime_config
    content = {
        "cron": ((trigger.cron or "") if trigger else "").removeprefix("0 "),
        "time_zone": mark[1],
        "pipeline": names.of(client.get_pipeline, pipeline_id),
        "version": names.of(client.get_pipeline_version, pipeline_id, version_id),
        "parameters": (configuration.parameters or {}) if configuration else {},
        "experiment": names.of(client.get_experiment, found.experiment_id),
        "pipeline_root": (configuration.pipeline_root or "") if configuration else "",
        "service_account": "" if mark[2] else found.service_account or "",
        "concurrency": int(found.max_concurrency or 0),
        "catch_up": not found.no_catchup,
    }
    # It cannot be changed; but what it would run, or where, can be gone.
    whole = content["pipeline"] and content["version"] and content["experiment"]
    return LiveSchedule(
        schedule_id=found.recurring_run_id,
        name=found.display_name,
        enabled=(found.status or found.mode or "").startswith("ENABLE"),
        digest=mark[3] if whole else digests.digest_of(content),
        content=content,
        active_runs=active_runs,
    )
