"""The record stage: writes the final record of a run from the notes of its stages, and a page for people."""

import base64
import contextlib
import dataclasses
import json
import logging
from typing import Any

from components.core import errors, settings, stages
from components.core.artifacts import evaluations
from components.core.artifacts.recipes import SKIP
from components.core.errors import DataError, StageError
from components.core.reporting.text import escaped
from components.core.stage import run_notes
from components.core.stage.executor import StageResult
from components.core.stage.run_notes import DONE, FAILED, REUSED, RUNNING, Note
from components.core.storage import atomic_files
from components.core.storage.json_values import typed
from components.core.storage.location import Location
from components.record.config import RecordConfig

log = logging.getLogger(__name__)

PAGE = "record.md"
SUCCEEDED, SKIPPED, CANCELED = "SUCCEEDED", "SKIPPED", "CANCELED"
_FAILED, _RUNNING = "FAILED", "RUNNING"
_LONGEST_PAGE = 390_000  # characters; Kubeflow shows the first 400,000
_PNG = b"\x89PNG\r\n\x1a\n"  # start of every PNG file
_LINKED = {"report": evaluations.REPORT, "samples": evaluations.SAMPLES}  # files of an evaluation


def run(config: RecordConfig) -> StageResult:
    """Write `record.json` from the notes of the stages. Standard library only."""
    file = _file(config)
    record = describe(config, run_notes.read(file.parent))
    write(config, record)
    summary = record["reason"] if record["state"] == SUCCEEDED else f"{record['state']}: {record['reason']}"
    return StageResult(
        parameters={"record_uri": file.uri, "state": record["state"], "summary": summary},
        files={"page": file.path.with_name(PAGE)},
    )


def update(retried: Location) -> None:
    """Rewrite the record of a retried run, because Kubeflow does not repeat an exit handler that has succeeded."""
    config = RecordConfig(records=retried.parent.uri, run=retried.name)
    if (old := _read(config)) is None:
        return
    try:
        values = {name: old[name] or "" for name in ("run_name", "created", "scheduled")}
        values |= {"source": old["data"]["source"], "registry": old["links"].get("registry", "")}
        values = typed(dict[str, str], values, "record")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{_file(config)} does not describe a record: {error!r}") from None
    config = dataclasses.replace(config, **values)
    write(config, describe(config, run_notes.read(retried), has_ended=False))


def describe(config: RecordConfig, stage_notes: list[Note], has_ended: bool = True) -> dict[str, Any]:
    server, message = "", ""
    with contextlib.suppress(ValueError, KeyError, TypeError):  # it is another value, or lacks the rest
        status = json.loads(config.status)  # a `PipelineTaskFinalStatus`
        server = str(status["state"]).replace("CANCELLED", CANCELED)
        message = str(status["error"]["message"])
    notes = {note.stage: note for note in stage_notes}
    for name, note in notes.items():
        if has_ended and note.state == RUNNING:
            problem, code = "it ended without a message: killed, out of memory, or its machine was removed", None
            if server == CANCELED:
                problem, code = "the run was canceled", errors.TERMINATED
            notes[name] = dataclasses.replace(note, state=FAILED, problems=[problem], exit_code=code)
    outcome, reason = _outcome(notes, server, message, has_ended)
    outputs = {name: note.outputs for name, note in notes.items()}
    decided, evaluated = outputs.get("decide", {}), outputs.get("evaluate", {})
    recipe: dict[str, Any] | None = None
    with contextlib.suppress(TypeError, ValueError):  # `decide` printed none
        recipe = typed(dict[str, Any], json.loads(decided.get("recipe", "")), "recipe")
    links = {"registry": config.registry} if config.registry else {}
    for stage in stages.MAKERS:
        for output, location in outputs.get(stage, {}).items():
            if output.endswith("_uri") and location:
                links[output.removesuffix("_uri")] = location
        if stage == "evaluate" and "evaluation" in links:
            links |= {name: Location.of(links["evaluation"]).file(file) for name, file in _LINKED.items()}
    stages_of_run = {name: dataclasses.asdict(note) for name, note in notes.items()}
    for value in stages_of_run.values():  # the record has these elsewhere
        del value["stage"]
        value["outputs"].pop("recipe", None)
    return {
        "schema_version": run_notes.SCHEMA_VERSION,
        "run": config.run,
        "run_name": config.run_name,
        # Older servers leave the placeholders of times.
        "created": None if config.created.startswith("{{") else config.created or None,
        "scheduled": None if config.scheduled.startswith("{{") else config.scheduled or None,
        "state": outcome,
        "reason": reason,
        "verdict": evaluated.get("verdict"),
        "version": outputs.get("publish", {}).get("version"),
        "data": {
            "source": config.source,
            "source_fingerprint": decided.get("source_fingerprint"),
            **_artifact_of(notes.get("preprocess"), "dataset_digest"),
        },
        "training": {
            **_artifact_of(notes.get("train"), "checkpoint_digest"),
            "started_from": decided.get("initial_checkpoint_digest") or None,
        },
        "recipe": recipe,
        "stages": stages_of_run,
        "seconds": round(sum(note.seconds for note in notes.values()), 3),
        "links": links,
    }


def write(config: RecordConfig, record: dict[str, Any]) -> None:
    """Write the record of a run and its page, unless they exist and are the same."""
    folder = _file(config).parent
    if record != _read(config) or folder.content(PAGE) is None:
        (folder / PAGE).write_file(_page(record).encode())
        _file(config).write_file(atomic_files.readable_json(record))


def _page(record: dict[str, Any]) -> str:
    """Return a record as Markdown: how the run ended and why, the stages, the results, parameters, and samples."""
    rows = ["| stage | state | took | |", "| --- | --- | ---: | --- |"]
    for name, stage in record["stages"].items():
        text = "; ".join(stage["problems"]) or stage["outputs"].get("summary", "")
        rows.append(f"| {name} | {stage['state']} | {stage['seconds']:,.0f} s | {escaped(text)} |")
    links = [f"- {name}: `{location}`" for name, location in record["links"].items()]
    title = [f"# {record['state']}", "", escaped(record["reason"])]
    recipe = (record["state"] != SKIPPED and record["recipe"]) or {}
    page = "\n".join([*title, "", *rows, "", *links, "", *_parameters(recipe.get("settings", {}))])
    # Last, so that the file begins with what people can read.
    return page + _samples(record["links"].get("samples", ""), _LONGEST_PAGE - len(page))


def _parameters(parameters: dict[str, str]) -> list[str]:
    """Return the parameters of each stage as a list: first, in bold, those that are not the stage's defaults."""
    lines = []
    for stage in ("decide", *stages.MAKERS):
        changed, defaults = list[str](), list[str]()
        for field in settings.fields_of(stages.config_of(stage)):
            if text := parameters.get(field.name):
                shown, is_default = escaped(f"{field.name}={text}"), False
                with contextlib.suppress(ValueError):
                    is_default = settings.parse_value(field, text) == field.default
                (defaults if is_default else changed).append(shown if is_default else f"**{shown}**")
        lines += [f"- {stage}: {', '.join(changed + defaults)}"] if changed or defaults else []
    return ["## Parameters (bold: changed)", "", *lines, ""] if lines else []


def _samples(location: str, longest: int) -> str:
    """Return the sheet of samples as a picture in Markdown; nothing if it is missing, unreadable or too large."""
    if not location:
        return ""
    file = Location.of(location)
    try:
        png = file.parent.content(file.name) or b""
    except (OSError, ValueError, StageError) as error:  # a record is written without its samples
        log.warning("record: the page has no samples: %s", errors.line_of(error))
        return ""
    # On the second line, because Kubeflow 2.16 takes a minute for a paragraph whose first line is so long.
    picture = f"\nSamples:\n![samples](data:image/png;base64,{base64.b64encode(png).decode()})\n"
    return picture if png.startswith(_PNG) and len(picture) <= longest else ""


def _file(config: RecordConfig) -> Location:
    return Location.of(config.records) / config.run / run_notes.RECORD


def _read(config: RecordConfig) -> dict[str, Any] | None:
    """Return the present record; None without one, or if it is damaged."""
    file = _file(config)
    content = file.parent.content(file.name)
    with contextlib.suppress(DataError):
        return atomic_files.parse_json(content or b"", file, "record")
    return None


def _outcome(notes: dict[str, Note], server: str, message: str, has_ended: bool) -> tuple[str, str]:
    """Return the state of a run, and one line: the failure, the reason to do nothing, or the verdict.

    Kubeflow 2.16.1 says RUNNING of most runs, however they ended, so the server's word counts only where no note
    decides, or if it is that the run was canceled.
    """
    outputs = {name: note.outputs for name, note in notes.items()}
    is_skipped = outputs.get("decide", {}).get("decision") == SKIP
    is_promoted = outputs.get("evaluate", {}).get("verdict") == evaluations.PROMOTE
    expected = ["decide"] if is_skipped else ["decide", *stages.MAKERS, *(["publish"] if is_promoted else [])]
    missing = next((name for name in expected if name not in notes), "")
    is_open = server != SUCCEEDED and bool(missing or any(note.state == RUNNING for note in notes.values()))
    failed = {name: "; ".join(note.problems) for name, note in notes.items() if note.state == FAILED}
    by_signal = [name for name, note in notes.items() if note.exit_code in (errors.TERMINATED, errors.INTERRUPTED)]
    stopped = ", ".join(by_signal)
    where = f" in {stopped}" if stopped else ""
    last = next((outputs[name] for name in ("publish", "evaluate", "decide") if name in outputs), None)
    summary = str(last.get("summary", "")) if last is not None else "no stage has run"
    if "train" in notes and notes["train"].state == REUSED:
        summary += "; nothing was trained, as the checkpoint existed"
    rows: tuple[tuple[object, str, str], ...] = (
        (server == CANCELED, CANCELED, message or f"the run was canceled{where}"),
        (failed.keys() - {*by_signal}, _FAILED, "; ".join(f"{name}: {problems}" for name, problems in failed.items())),
        (stopped, CANCELED, f"{stopped} was stopped: the run was canceled, or its node was taken away"),
        (server == _FAILED, _FAILED, message or "a stage failed before it could report a reason"),
        (is_open and not has_ended, _RUNNING, "the run was retried and continues"),
        (is_open, _FAILED, f"{missing} did not begin: the run was canceled, or no machine could start it"),
        (is_skipped, SKIPPED, summary),
        (True, SUCCEEDED, summary),
    )
    return next((state, reason) for applies, state, reason in rows if applies)


def _artifact_of(note: Note | None, digest: str) -> dict[str, Any]:
    """Return the artifact of a stage, and whether this run made it."""
    outputs = note.outputs if note else {}
    is_made = note is not None and note.state == DONE
    return {"made": is_made, digest: outputs.get(digest), "summary": outputs.get("summary")}
