"""The key of what a stage makes: the code that it can reach, its settings, and the content of its inputs.

Standard library only.
"""

import ast
import functools
import hashlib
import re
from pathlib import Path
from typing import Any

from components import settings
from components.digests import digest_of

KEY_PLACE = "{key}"
_COMPONENTS = Path(__file__).parent
# Describes a stage to kfp's compiler; no stage imports it.
_COMPILED = "component.py"
_TEMPLATE_NAME = re.compile(rb'"([\w.]+\.j2)"')


def source_digest(stage: str) -> str:
    """Digest of the code that a stage can reach (`source_files`).

    Args:
        stage: The name of a folder in `components`.
    """
    return digest_of({place: hashlib.sha256(content).hexdigest() for place, content in source_files(stage).items()})


def source_files(stage: str) -> dict[str, bytes]:
    """The files of a stage's folder, all that they import, within functions too, and the templates that they extend.

    Returns:
        The content of each, by its path within `components`.
    """
    folder = _COMPONENTS / stage
    ahead = {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    ahead -= {folder / _COMPILED}
    found: dict[Path, bytes] = {}
    while ahead:
        path = ahead.pop()
        found[path] = path.read_bytes()
        named = _imported(found[path]) if path.suffix == ".py" else _extended(found[path])
        ahead |= {_COMPONENTS / name for name in named if (_COMPONENTS / name).is_file()} - found.keys()
    return {path.relative_to(_COMPONENTS).as_posix(): content for path, content in found.items()}


@functools.cache
def _imported(source: bytes) -> frozenset[str]:
    """Where modules of ours that a module imports may lie in `components`; not every place exists."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    places: set[str] = set()
    for module in modules:
        package, *rest = module.split(".")
        if package == _COMPONENTS.name:
            # Python runs every package on the way.
            places |= {"/".join([*rest[:depth], "__init__.py"]) for depth in range(len(rest) + 1)}
            places.add("/".join(rest) + ".py")
    return frozenset(places)


@functools.cache
def _extended(template: bytes) -> frozenset[str]:
    return frozenset(name.decode() for name in _TEMPLATE_NAME.findall(template))


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
