"""SavedModels whose bytes follow from weights and code, not the history of the process; the generator of a checkpoint.

TensorFlow numbers functions and custom gradients by counters of the process, stores functions and map entries in no
fixed order, and adds a `fingerprint.pb` with a random part, which nothing needs.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from components.core.artifacts import checkpoints
from components.core.errors import DataError, lines_of
from components.core.networks import gan

AVERAGE = "average/"  # begins the names of variables of the averaged generator, which ships
_NUMBERED = re.compile(r"(.*_)(\d+)")
_GRADIENT = "_gradient_op_type"  # the attribute that names an operation's custom gradient
_CAPTURE_NAME = "_user_specified_name"  # of a captured variable: the number of a tensor in this process


def save(module: tf.Module, folder: Path, signatures: Mapping[str, Any] | None = None) -> None:
    """Write `module` as a SavedModel into `folder`, which may exist."""
    tf.saved_model.save(module, str(folder), signatures=signatures)
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    graph = folder / "saved_model.pb"
    graph.write_bytes(canonical(graph.read_bytes()))


def plain_variables(variables: Iterable[keras.Variable]) -> list[tf.Variable]:
    """Copy Keras' variables into ones that a SavedModel can hold, so that it loads without Keras."""
    return [tf.Variable(variable.numpy(), trainable=False) for variable in variables]


def load(folder: Path, kind: str) -> Any:
    """Load a SavedModel; `kind` names it in the `DataError` if TensorFlow cannot load it."""
    try:
        return tf.saved_model.load(str(folder))
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = lines_of(error)[0]
        raise DataError(f"{kind} {folder} cannot be loaded by TensorFlow {tf.__version__}: {reason}") from None


def load_averaged(checkpoint: Path, expected_digest: str = "") -> keras.Model:
    """Load a checkpoint's averaged generator; call it with `training=False`, and with `gan.with_labels` if conditional.

    It takes float32 latents [n, latent_size] to float32 images [n, height, width, channels] in [-1, 1].
    """
    manifest = checkpoints.Manifest.of(checkpoint, expected_digest)
    model = gan.build_generator(gan.NetworkConfig.from_json(manifest.network))
    arrays = checkpoints.load_state(checkpoint, AVERAGE)
    wanted = {AVERAGE + variable.path: np.asarray(variable) for variable in model.variables}
    if wrong := checkpoints.differences(wanted, arrays):
        raise DataError(f"checkpoint {checkpoint} does not fit this version's {model.name}: {'; '.join(wrong)}")
    for variable in model.variables:
        variable.assign(arrays[AVERAGE + variable.path])
    return model


def canonical(saved_model: bytes) -> bytes:
    """Number functions and custom gradients of a SavedModel from 0 in order of creation, and sort everything."""
    model = saved_model_pb2.SavedModel.FromString(saved_model)
    for meta_graph in model.meta_graphs:
        rename = _renaming([function.signature.name for function in meta_graph.graph_def.library.function])
        # In JSON, as names of functions stand in texts of many messages; bytes are base64, which looks like no name.
        as_json = rename(json_format.MessageToJson(meta_graph, indent=None, ensure_ascii=False))
        meta_graph.Clear()
        json_format.ParseDict(json.loads(as_json, object_hook=_without_capture_number), meta_graph)
        functions, gradients = meta_graph.graph_def.library.function, meta_graph.graph_def.library.registered_gradients
        types = {gradient.registered_op_type: f"CustomGradient-{rank}" for rank, gradient in enumerate(gradients)}
        for gradient in gradients:
            gradient.registered_op_type = types[gradient.registered_op_type]
        for node in (node for function in functions for node in function.node_def if _GRADIENT in node.attr):
            name = node.attr[_GRADIENT].s.decode()
            node.attr[_GRADIENT].s = types.get(name, name).encode()
        ordered = sorted(functions, key=lambda function: function.signature.name)
        parts = [function.SerializeToString(deterministic=True) for function in ordered]
        del functions[:]
        for part in parts:
            functions.add().ParseFromString(part)
    return bytes(model.SerializeToString(deterministic=True))


def _renaming(names: list[str]) -> Callable[[str], str]:
    """Return a function that replaces, in a text, the number of each function by its rank; every model has some."""
    numbered = {name: match for name in names if (match := _NUMBERED.fullmatch(name))}
    ranks = {number: rank for rank, number in enumerate(sorted({int(match[2]) for match in numbered.values()}))}
    new_names = {name: f"{match[1]}{ranks[int(match[2])]}" for name, match in numbered.items()}
    longest_first = sorted(new_names, key=len, reverse=True)
    pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})(?!\\d)")
    return lambda text: pattern.sub(lambda match: new_names[match[0]], text)


def _without_capture_number(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of an operation without the number of the tensor that it captured, if they have it."""
    number = base64.b64decode(attributes.get(_CAPTURE_NAME, {}).get("s", ""))
    return {name: value for name, value in attributes.items() if name != _CAPTURE_NAME or not number.isdigit()}
