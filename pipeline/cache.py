"""What earlier runs made, kept under what decided it: a stage whose inputs, settings and code are unchanged is not run.

`cache/TASK/KEY.json` under the root is one result. The key is a digest of the parts, and the parts are kept beside the
outputs, so that it can be told which of them changed. An artefact counts by the digest of its content, which travels
beside its location, not by where it lies.
"""

import dataclasses
from pathlib import Path
from typing import Any

from components import buckets, digests, places, storage
from components.errors import DataError
from components.executor import OF_THE_RUN
from pipeline.package import Task
from pipeline.resolve import Outputs, as_text

_STAGES = "components."
_SHA256 = "sha256"  # of an entry, within it


def stage_of(task: Task) -> str:
    """The folder in `components` whose program a task runs; empty for a program that is not ours."""
    command = task.container["command"]
    if len(command) == 3 and command[0].startswith("python") and command[1] == "-m" and command[2].startswith(_STAGES):
        return str(command[2].removeprefix(_STAGES))
    return ""


def key_parts(task: Task, inputs: dict[str, Any], identity: dict[str, Any]) -> dict[str, Any]:
    """What decides the result of a task: command, inputs, and what runs it.

    Args:
        task: The task.
        inputs: The values of its inputs.
        identity: What runs it: code and libraries of a process, image of a container.
    """
    command = {name: task.container.get(name, []) for name in ("command", "args", "env")}
    return {"command": command, "inputs": _content(inputs) if stage_of(task) else inputs, **identity}


def _content(inputs: dict[str, Any]) -> dict[str, Any]:
    """A stage's inputs without the locations of artefacts whose content is named beside them, and without the run."""
    return {
        name: value for name, value in inputs.items() if not inputs.get(f"{name}_digest") and name not in OF_THE_RUN
    }


@dataclasses.dataclass(frozen=True)
class Found:
    """What the cache says of a task: its outputs if it need not run, else why it must."""

    outputs: Outputs | None
    reason: str


class Cache:
    """The kept results under one root."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "cache"

    def look_up(self, task: Task, parts: dict[str, Any]) -> Found:
        """Finds the kept result of a task, if all artefacts that it names are still there."""
        entry = self._read(self._place(task, parts))
        if entry is None:
            return Found(None, self._difference(task, parts))
        outputs = Outputs(entry["outputs"]["parameters"], entry["outputs"]["artifacts"])
        gone = [place for place in entry["places"] if not _exists(place)]
        if gone:
            return Found(None, f"its artefact is gone: {gone[0]}")
        return Found(outputs, "unchanged")

    def keep(self, task: Task, parts: dict[str, Any], outputs: Outputs, run: int) -> None:
        """Keeps a result, whole or not at all.

        Args:
            task: The task.
            parts: Its `key_parts`.
            outputs: What it made.
            run: The number of the run; the entry of the latest run is the one that differences are told against.
        """
        kept_at = [*map(str, local_artifacts(outputs)), *filter(buckets.is_uri, artifact_uris(outputs))]
        entry = {"run": run, "parts": parts, "outputs": dataclasses.asdict(outputs), "places": kept_at}
        storage.write_json(self._place(task, parts), {**entry, _SHA256: digests.digest_of(entry)})

    def _place(self, task: Task, parts: dict[str, Any]) -> Path:
        return self._folder / task.name / f"{digests.digest_of(parts)[:16]}.json"

    def _difference(self, task: Task, parts: dict[str, Any]) -> str:
        entries = [self._read(path) for path in sorted((self._folder / task.name).glob("*.json"))]
        known = [entry for entry in entries if entry is not None]
        if not known:
            return "it has not been run yet"
        newest = max(known, key=lambda entry: int(entry["run"]))
        return "; ".join(differences(newest["parts"], parts)) or "it has not been run yet"

    @staticmethod
    def _read(path: Path) -> dict[str, Any] | None:
        """An entry; None if there is none, or none that can be read, which only means running the stage again."""
        try:
            entry = storage.read_json(path, "kept result")
            whole = isinstance(entry, dict) and entry.pop(_SHA256, None) == digests.digest_of(entry)
        except (DataError, OSError, ValueError):  # ValueError: numbers that are none
            return None
        return entry if whole else None


def local_artifacts(outputs: Outputs) -> list[Path]:
    """Where the artefacts that outputs name lie on this machine: artefacts, and parameters called `..._uri`."""
    return [Path(uri) for uri in artifact_uris(outputs) if "://" not in uri and Path(uri).exists()]


def artifact_uris(outputs: Outputs) -> list[str]:
    """Where the artefacts that outputs name lie: artefacts, and parameters called `..._uri`."""
    uris = [value for name, value in outputs.parameters.items() if name.endswith("_uri") and isinstance(value, str)]
    return uris + [artifact["uri"] for artifact in outputs.artifacts.values()]


def _exists(place: str) -> bool:
    if not buckets.is_uri(place):
        return Path(place).exists()
    return buckets.stat(f"{place}/{places.COMMITTED}") is not None


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What changed from one `key_parts` to another: `steps: 2000 -> 3000`."""
    return [
        *_changed(old["inputs"], new["inputs"]),
        *_changed_identity(old, new),
        *(["its command changed"] if old["command"] != new["command"] else []),
    ]


def _changed_identity(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    if ("image" in old) != ("image" in new):
        return ["it ran as a process then" if "image" in new else "it ran in a container then"]
    return [
        *_changed(old["libraries"], new["libraries"]),
        *(["its code changed"] if old["code"] != new["code"] else []),
        *(["its image changed"] if old.get("image") != new.get("image") else []),
    ]


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name}: {_short(old.get(name))} -> {_short(new.get(name))}" for name in names]


def _short(value: Any) -> str:
    text = "none" if value is None else as_text(value)
    if len(text) == 64 and all(character in "0123456789abcdef" for character in text):
        return text[:8]
    return text if len(text) <= 40 else f"...{text[-37:]}"
