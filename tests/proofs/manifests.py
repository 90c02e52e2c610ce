"""Is docs/kubernetes/flink.yaml what the operator's published definitions allow, field by field?

    python -m tests.proofs.manifests FOLDER

The folder has the YAML files of the definitions (kind CustomResourceDefinition), from
github.com/apache/flink-kubernetes-operator, helm/flink-kubernetes-operator/crds. What Kubernetes itself defines is
compared with its Python client.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes.client
import yaml

MANIFEST = Path(__file__).parents[2] / "docs" / "kubernetes" / "flink.yaml"
_MODELS = {"Deployment": "V1Deployment", "Service": "V1Service"}


def main(folder: Path) -> int:
    """Print what is wrong; return the number of resources."""
    schemas = {}
    for path in folder.glob("*.y*ml"):
        for definition in yaml.safe_load_all(path.read_text()):
            if definition and definition["kind"] == "CustomResourceDefinition":
                group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
                for version in definition["spec"]["versions"]:
                    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
                    schemas[f"{group}/{version['name']}", kind] = jsonschema.Draft202012Validator(closed(schema))
    wrong = 0
    for resource in yaml.safe_load_all(MANIFEST.read_text()):
        kind = resource["kind"]
        key = resource["apiVersion"], kind
        if key in schemas:
            errors = schemas[key].iter_errors(resource["spec"])
            problems = [f"{error.json_path.replace('$', 'spec')}: {error.message}" for error in errors]
        elif kind in _MODELS:
            problems = [*against_model(resource, _MODELS[kind], kind)]
        else:
            problems = [f"no definition of {key}"]
        wrong += bool(problems)
        print(f"{kind} {resource['metadata']['name']}: {'; '.join(problems) or 'as defined'}")
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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.proofs.manifests FOLDER, of the operator's definitions")
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
