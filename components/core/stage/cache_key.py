"""The key of a stage's artifact, which decides whether the stage runs again.

It covers the code that the stage can reach, the settings that decide the result, and the digests of the inputs. Stages,
`wgan run` and `wgan plan` compare keys; `decide` compares the parts of the keys. Standard library only.
"""

import functools
import hashlib
import re
from pathlib import Path
from typing import Any

from components.core import settings
from components.core.storage.digests import digest_of

_COMPONENTS = Path(__file__).parents[2]
_TEMPLATES = "core/reporting"
# For ruff's formatting. It reads all files of a stage in a millisecond; Python's parser takes 60.
_IMPORT = re.compile(r"^ *(?:from (components[\w.]*) import (\([^)]*\)|.*)|import (components[\w.]*))", re.MULTILINE)
_TEMPLATE_NAME = re.compile(rb'"([\w.]+\.j2)"')  # in a module that renders it, or a template that extends it


def source_digest(stage: str) -> str:
    """Return the digest of the code that a stage, given by its folder in `components`, can reach."""
    return digest_of({path: hashlib.sha256(content).hexdigest() for path, content in source_files(stage).items()})


def source_files(stage: str) -> dict[str, bytes]:
    """Return a stage's files and `__main__.py`, all their imports, in functions too, and their templates, by path."""
    pending = {_COMPONENTS / "__main__.py"}
    pending |= {path for path in (_COMPONENTS / stage).rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    files: dict[Path, bytes] = {}
    while pending:
        path = pending.pop()
        files[path] = path.read_bytes()
        names = _named(files[path], path.suffix == ".py")
        pending |= {_COMPONENTS / name for name in names if (_COMPONENTS / name).is_file()} - files.keys()
    return {path.relative_to(_COMPONENTS).as_posix(): content for path, content in files.items()}


@functools.cache
def _named(source: bytes, is_module: bool) -> frozenset[str]:
    """Return the paths in `components` where the templates and modules that a file names may be; not all exist."""
    paths = {f"{_TEMPLATES}/{name.decode()}" for name in _TEMPLATE_NAME.findall(source)}
    modules: set[str] = set()
    for package, names, module in _IMPORT.findall(source.decode()) if is_module else ():
        modules |= {package or module, *(f"{package}.{name}" for name in re.findall(r"\w+", names))}
    for module in modules:
        rest = module.split(".")[1:]
        # Python runs every package on the path.
        paths |= {"/".join([*rest[:depth], "__init__.py"]) for depth in range(len(rest) + 1)}
        paths.add("/".join(rest) + ".py")
    return frozenset(paths)


def key_parts(stage: str, config: Any, code: str = "", **inputs: str) -> dict[str, Any]:
    """Return everything that decides the result of a stage, for `key_of` and `differences`.

    `code` is the digest of its code where it runs, this program's when empty; `inputs` are digests that the
    configuration leaves empty or does not name.
    """
    named = {field.name: getattr(config, field.name) for field in settings.fields_of(config) if field.setting.digest}
    return {
        "stage": stage,
        "code": code or source_digest(stage),
        "settings": settings.values_in_key(config),
        "inputs": {name: digest for name, digest in {**named, **inputs}.items() if digest},
    }


def key_of(parts: dict[str, Any]) -> str:
    """Return the key, 16 hexadecimal digits: the name of the artifact's folder."""
    return digest_of(parts)[:16]


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the changes from one `key_parts` to another, such as `steps: 2000 -> 3000`."""
    changed = changes({**old["settings"], **old["inputs"]}, {**new["settings"], **new["inputs"]})
    return [*changed, *(["its code changed"] if old["code"] != new["code"] else [])]


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the changed values, by name; digests are shortened."""
    names = sorted(name for name in old.keys() | new.keys() if old.get(name, "none") != new.get(name, "none"))
    return [f"{name}: {_short(old.get(name))} -> {_short(new.get(name))}" for name in names]


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return text[:8]
    return text if len(text) <= 40 else f"...{text[-37:]}"
