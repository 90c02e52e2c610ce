"""Is docs/kubernetes/flink.yaml what the operator's published definitions allow, field by field?

    python -m tests.proofs manifests --source FOLDER

The folder has the YAML files of the definitions (kind CustomResourceDefinition), from
github.com/apache/flink-kubernetes-operator, helm/flink-kubernetes-operator/crds. What Kubernetes itself defines is
compared with its Python client.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes.client
import yaml

MANIFEST = Path(__file__).parents[2] / "docs" / "kubernetes" / "flink.yaml"
_MODELS = {"Deployment": "V1Deployment", "Service": "V1Service"}


def prove(options: argparse.Namespace) -> list[str]:
    schemas = {}
    for path in Path(options.source).glob("*.y*ml"):
        for definition in yaml.safe_load_all(path.read_text()):
            if definition and definition["kind"] == "CustomResourceDefinition":
                group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
                for version in definition["spec"]["versions"]:
                    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
                    schemas[f"{group}/{version['name']}", kind] = jsonschema.Draft202012Validator(closed(schema))
    wrong: list[str] = []
    for resource in yaml.safe_load_all(MANIFEST.read_text()):
        kind = resource["kind"]
        if kind in _MODELS:
            wrong += against_model(resource, _MODELS[kind], kind)
            continue
        errors = schemas[resource["apiVersion"], kind].iter_errors(resource["spec"])
        wrong += [f"{kind}{error.json_path.replace('$', '.spec')}: {error.message}" for error in errors]
    return wrong


def closed(schema: Any) -> Any:
    """Return a definition that refuses unknown fields, which Kubernetes would drop."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    definition = {name: closed(value) for name, value in schema.items()}
    lists_all = isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields")
    return {"additionalProperties": False, **definition} if lists_all else definition


def against_model(value: Any, model: str, where: str) -> Iterator[str]:
    """Yield the fields of a resource that Kubernetes does not know."""
    if model.startswith(("list[", "dict(")):
        inner = model[5:-1].split(", ")[-1]
        items = value.values() if model.startswith("dict(") else value
        for number, item in enumerate(items):
            yield from against_model(item, inner, f"{where}[{number}]")
        return
    kind = getattr(kubernetes.client, model, None)
    if kind is None:  # text and numbers
        return
    names = {name: field for field, name in kind.attribute_map.items()}
    for name, item in value.items():
        if name in names:
            yield from against_model(item, kind.openapi_types[names[name]], f"{where}.{name}")
        else:
            yield f"{where}.{name} is unknown"
