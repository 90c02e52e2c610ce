"""What the stages of a run noted under its root, and the record of a run that `wgan` completes."""

import dataclasses
import json
import logging

from components.core import errors
from components.core.errors import StageError
from components.core.stage import run_notes
from components.core.storage.location import Location
from components.record import run as record
from components.record.config import RecordConfig
from pipeline.cluster import backend
from pipeline.cluster.backend import RunStatus

log = logging.getLogger("pipeline")


def with_notes(run: RunStatus) -> RunStatus:
    """Add what the stages noted, if this machine can reach the root; complete the record of a run that has ended.

    The exit handler knows neither the run's name nor its times, and it may never have started.
    """
    # Servers give the reason with the stage: of the run Vertex says only that tasks failed, and Kubeflow nothing.
    failed = [stage for stage in run.stages if stage.state == backend.FAILED and stage.message]
    if run.state == backend.FAILED and failed:
        run = dataclasses.replace(run, message="; ".join(f"{stage.name}: {stage.message}" for stage in failed))
    root = run.parameters.get("root", "")
    folder = Location.of(f"{root}/records") / run.run_id
    try:
        if not root or not folder.is_folder:
            return run
        notes = run_notes.read(folder)
    except (OSError, StageError) as error:
        log.warning("the notes of the run cannot be read: %s", errors.line_of(error))
        return run
    # The stage's own reason or summary; the server's stays for a stage that never began.
    own = {note.stage: "; ".join(note.problems) for note in notes if note.state == run_notes.FAILED}
    own |= {note.stage: str(note.outputs.get("summary", "")) for note in notes if note.stage not in own}
    with_messages = [dataclasses.replace(stage, message=own.get(stage.name) or stage.message) for stage in run.stages]
    run = dataclasses.replace(run, stages=tuple(with_messages))
    if run.state not in backend.ENDED:
        return run
    times = {"created": run.created, "scheduled": run.scheduled}
    config = RecordConfig(
        records=folder.parent.uri,
        run=run.run_id,
        run_name=run.name,
        **{name: f"{time:%Y-%m-%dT%H:%M:%SZ}" if time else "" for name, time in times.items()},
        source=run.parameters.get("source", ""),
        registry=f"{root}/registry",
        status=json.dumps({"state": run.state, "error": {"message": run.message}}),
    )
    content = record.describe(config, notes)
    try:
        record.write(config, content)
    except (OSError, StageError) as error:
        log.warning("the record of the run cannot be completed: %s", errors.line_of(error))
    return dataclasses.replace(run, state=content["state"], message=content["reason"])
