"""Digests of a value, of a record and of a file. Standard library only."""

import hashlib
import json
from pathlib import Path
from typing import Any

from components.core.errors import naming

MADE_WITH = "made_with"
SEAL = "sha256"  # field of a manifest with its digest


def canonical_json(value: Any) -> bytes:
    """Return the canonical JSON of a value: sorted keys, no spaces, UTF-8, no NaN or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest_of(value: Any) -> str:
    """Return the sha256 (64 hexadecimal digits) of a value's canonical JSON; the value must not hold times or paths."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def digest_of_record(record: dict[str, Any]) -> str:
    """Return the digest of an artifact's manifest, without `made_with` and its seal."""
    return digest_of({name: value for name, value in record.items() if name not in (MADE_WITH, SEAL)})


def sha256_of_file(path: Path) -> str:
    """Return the sha256 (64 hexadecimal digits) of a file."""
    with naming(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
