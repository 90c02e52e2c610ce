"""Are docs/kubernetes/*.yaml what the operators' published definitions allow, field by field?

    python -m tests.proofs.manifests FOLDER

The folder has the YAML files of the definitions (kind CustomResourceDefinition): of Flink's operator, from
github.com/apache/flink-kubernetes-operator, helm/flink-kubernetes-operator/crds; of Spark's, from
github.com/apache/spark-kubernetes-operator, build-tools/helm/spark-kubernetes-operator/crds. What Kubernetes itself
defines is compared with its Python client.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes.client
import yaml

MANIFESTS = Path(__file__).parents[2] / "docs" / "kubernetes"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_MODELS = {"Deployment": "V1Deployment", "Service": "V1Service"}


def main(folder: Path) -> int:
    """Print what is wrong; return the number of resources."""
    schemas = {}
    for path in folder.glob("*.y*ml"):
        for definition in yaml.safe_load_all(path.read_text()):
            if definition and definition["kind"] == "CustomResourceDefinition":
                group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
                for version in definition["spec"]["versions"]:
                    schemas[f"{group}/{version['name']}", kind] = version["schema"]["openAPIV3Schema"]
    wrong = 0
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for resource in yaml.safe_load_all(path.read_text()):
            kind = resource["kind"]
            key = resource["apiVersion"], kind
            if key in schemas:
                problems = [*against_schema(resource, schemas[key], kind)]
            elif kind in _MODELS:
                problems = [*against_model(resource, _MODELS[kind], kind)]
            else:
                problems = [f"no definition of {key}"]
            wrong += bool(problems)
            print(f"{path.name}: {kind} {resource['metadata']['name']}: {'; '.join(problems) or 'as defined'}")
    return wrong


def against_schema(value: Any, schema: dict[str, Any], where: str) -> Iterator[str]:
    """Yield the violations of a definition; unknown fields are violations, because Kubernetes would drop them."""
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield f"{where} is {value!r}, expected a number or text"
        return
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{where} is {value!r}, expected {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, expected one of {schema['enum']}"
    if kind == "array":
        for number, item in enumerate(value):
            yield from against_schema(item, schema["items"], f"{where}[{number}]")
    if kind == "object":
        yield from (f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value)
        fields = schema.get("properties", {})
        any_field = schema.get("additionalProperties")
        for name, item in value.items():
            if name in fields:
                yield from against_schema(item, fields[name], f"{where}.{name}")
            elif isinstance(any_field, dict):
                yield from against_schema(item, any_field, f"{where}.{name}")
            elif where.count(".") and not schema.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{where}.{name} is unknown"


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
        raise SystemExit("usage: python -m tests.proofs.manifests FOLDER, of the operators' definitions")
    sys.exit(1 if main(Path(sys.argv[1])) else 0)
