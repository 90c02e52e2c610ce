"""The record stage: the notes of a run's stages become its final record."""

import dataclasses
import json
from typing import Any

from components import evaluations, places, run_records, storage
from components.executor import RunOf, StageResult
from components.recipes import SKIP
from components.record.config import RecordConfig
from components.run_records import DONE, FAILED, KEPT, RUNNING, Note

SUCCEEDED, SKIPPED, CANCELED = "SUCCEEDED", "SKIPPED", "CANCELED"
_FAILED = "FAILED"
# Links by their name in the record: the stage and the output that say where, and the file there.
_LINKS = {
    "dataset": ("preprocess", "dataset_uri", ""),
    "checkpoint": ("train", "checkpoint_uri", ""),
    "embedding": ("embed", "embedding_uri", ""),
    "evaluation": ("evaluate", "evaluation_uri", ""),
    "report": ("evaluate", "evaluation_uri", evaluations.REPORT),
    "samples": ("evaluate", "evaluation_uri", evaluations.SAMPLES),
    "model": ("export", "model_uri", ""),
}
_UNRESOLVED = "{{"


def run(config: RecordConfig) -> StageResult:
    """Writes `record.json` from what the stages noted. Light: standard library only.

    Returns:
        record_uri: Where it is.
        state: `SUCCEEDED`, `SKIPPED`, `FAILED` or `CANCELED`.
    """
    of_run = RunOf(config.records, config.run)
    notes = {note.stage: _as_it_ended(note) for note in run_records.read(of_run)}
    status = _status(config.status)
    state = _state(notes, status)
    outputs = {name: note.outputs for name, note in notes.items()}
    path = run_records.folder_of(of_run) / run_records.RECORD
    reason = _reason(state, notes, status)
    storage.write_json(
        path,
        {
            "schema_version": run_records.SCHEMA_VERSION,
            "run": config.run,
            "run_name": config.run_name,
            "created": _resolved(config.created),
            "scheduled": _resolved(config.scheduled),
            "state": state,
            "reason": reason,
            "verdict": outputs.get("evaluate", {}).get("verdict"),
            "version": outputs.get("publish", {}).get("version"),
            "data": {
                "source": config.source,
                "source_fingerprint": outputs.get("fingerprint", {}).get("source_fingerprint"),
                **_made(notes.get("preprocess"), "dataset_digest"),
            },
            "training": {
                **_made(notes.get("train"), "checkpoint_digest"),
                "started_from": outputs.get("decide", {}).get("initial_checkpoint_digest") or None,
                "judged_checkpoint_digest": outputs.get("evaluate", {}).get("judged_checkpoint_digest"),
            },
            "recipe": json.loads(outputs.get("decide", {}).get("recipe", "null")),
            "stages": {name: _of_stage(note) for name, note in notes.items()},
            "seconds": round(sum(note.seconds for note in notes.values()), 3),
            "links": _links(outputs, config.registry),
        },
    )
    places.send_file(path)
    return StageResult(parameters={"record_uri": places.given(path), "state": state, "summary": f"{state}: {reason}"})


def _as_it_ended(note: Note) -> Note:
    """A stage that still runs by its own word was killed: nothing else ends one without a word."""
    if note.state != RUNNING:
        return note
    said = "it ended without a word: killed, out of memory, or its machine was taken away"
    return dataclasses.replace(note, state=FAILED, problems=[said])


def _status(text: str) -> tuple[str, str]:
    """State and message of a `PipelineTaskFinalStatus`, whose keys are in camel or in snake case."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = {}
    value = value if isinstance(value, dict) else {}
    error = value.get("error")
    return str(value.get("state", "")), str(error.get("message", "")) if isinstance(error, dict) else ""


def _state(notes: dict[str, Note], status: tuple[str, str]) -> str:
    if any(note.state == FAILED for note in notes.values()) or status[0] == "FAILED":
        return _FAILED
    if status[0] in ("CANCELLED", "CANCELED"):
        return CANCELED
    decided = notes.get("decide")
    return SKIPPED if decided and decided.outputs.get("decision") == SKIP else SUCCEEDED


def _reason(state: str, notes: dict[str, Note], status: tuple[str, str]) -> str:
    """One line: what failed, why nothing was done, or what was decided."""
    if state == _FAILED:
        broken = [f"{name}: {'; '.join(note.problems)}" for name, note in notes.items() if note.state == FAILED]
        return "; ".join(broken) or status[1] or "a stage failed before it could say why"
    if state == CANCELED:
        return status[1] or "the run was canceled"
    last = next((name for name in ("publish", "evaluate", "decide") if name in notes), "")
    said = str(notes[last].outputs.get("summary", "")) if last else "no stage has run"
    trained = notes.get("train")
    return said + ("; nothing was trained: the checkpoint was there already" if _is_kept(trained) else "")


def _is_kept(note: Note | None) -> bool:
    return note is not None and note.state == KEPT


def _made(note: Note | None, digest: str) -> dict[str, Any]:
    """Whether a stage made what it names in this run, and what it is."""
    if note is None:
        return {"made": False, digest: None, "summary": None}
    return {
        "made": note.state == DONE,
        digest: note.outputs.get(digest),
        "summary": note.outputs.get("summary"),
    }


def _of_stage(note: Note) -> dict[str, Any]:
    """A note without what the record says elsewhere: the stage's name, and the recipe."""
    said = dataclasses.asdict(note)
    del said["stage"]
    said["outputs"].pop("recipe", None)
    return said


def _links(outputs: dict[str, dict[str, Any]], registry: str) -> dict[str, str]:
    found = {"registry": registry} if registry else {}
    for name, (stage, output, file) in _LINKS.items():
        place = outputs.get(stage, {}).get(output)
        if place:
            found[name] = places.file_of(place, file) if file else place
    return found


def _resolved(text: str) -> str | None:
    """A time of the run; None from a server that is too old to tell it."""
    return None if not text or text.startswith(_UNRESOLVED) else text
