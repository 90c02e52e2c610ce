"""Digests: of a value, of a file, of a stage's source; and the key under which a stage's result is kept."""

import hashlib
import json
from pathlib import Path
from typing import Any

from components import settings
from components.errors import naming

KEY_PLACE = "{key}"
MADE_WITH = "made_with"
SEAL = "sha256"  # of a manifest, within it
_CHUNK_BYTES = 1 << 20


def canonical_json(value: Any) -> bytes:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8, no NaN or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(value: Any) -> str:
    """sha256 (64 hexadecimal digits) of a value's canonical JSON. The value must not hold times or places."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest_of_record(record: dict[str, Any]) -> str:
    """Digest of what an artefact says of itself, but for `made_with`, which is for the record alone, and its seal."""
    return digest_of({name: value for name, value in record.items() if name not in (MADE_WITH, SEAL)})


def sha256_of_file(path: Path) -> str:
    """sha256 (64 hexadecimal digits) of a file's bytes."""
    found = hashlib.sha256()
    with naming(path), open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def source_digest(stage: str) -> str:
    """Digest of the code that a stage runs: its own folder and the files that stages share.

    Args:
        stage: The name of a folder in `components`.
    """
    components = Path(__file__).parent
    files = [*components.glob("*.py"), *(path for path in (components / stage).rglob("*") if _is_source(path))]
    return digest_of({path.relative_to(components).as_posix(): sha256_of_file(path) for path in sorted(files)})


def _is_source(path: Path) -> bool:
    """Code and what it reads beside it, such as a template; not what Python compiled."""
    return path.is_file() and "__pycache__" not in path.parts


def stage_key(stage: str, config: Any, inputs: dict[str, str]) -> str:
    """The key (16 hexadecimal digits) of what a stage makes: its code, its settings, its inputs' content.

    Args:
        stage: The name of a folder in `components`.
        config: The stage's configuration; fields marked `in_key=False` do not count.
        inputs: The digest of each input artefact, by name.
    """
    parts = {"stage": stage, "code": source_digest(stage), "settings": settings.values_in_key(config), "inputs": inputs}
    return digest_of(parts)[:16]


def fill_key(place: str, stage: str, config: Any, inputs: dict[str, str]) -> str:
    """The place with `{key}` replaced by the stage's key; a place without it is returned as it is."""
    return place.replace(KEY_PLACE, stage_key(stage, config, inputs)) if KEY_PLACE in place else place
