"""Draws from a SavedModel with TensorFlow alone. Run by path in a new process; imports nothing of ours.

    python -I draw.py MODEL_FOLDER INPUTS.npz SEED COUNT IMAGES.npz

Writes `served` (serving_default of the inputs: latents, and labels if the model takes them), `sampled` (sample),
`decoded` (the files of png, decoded), and with labels `asked` (sample_labels).
"""

import sys

# The model must do without these, even if they are installed.
for name in ("components", "pipeline", "keras"):
    sys.modules[name] = None  # type: ignore[assignment]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402


def main(model: str, inputs: str, seed: str, count: str, images: str) -> None:
    signatures = tf.saved_model.load(model).signatures
    arguments = {"seed": tf.constant(int(seed), tf.int64), "count": tf.constant(int(count), tf.int64)}
    with np.load(inputs) as arrays:
        tensors = {name: tf.constant(array) for name, array in arrays.items()}
    served = signatures["serving_default"](**tensors)["images"]
    sampled = signatures["sample"](**arguments)["images"]
    files = signatures["png"](**arguments)["files"]
    decoded = np.stack([tf.io.decode_png(file, channels=sampled.shape[-1]).numpy() for file in files])
    drawn = {"served": served, "sampled": sampled, "decoded": decoded}
    if "labels" in tensors:
        drawn["asked"] = signatures["sample_labels"](seed=arguments["seed"], labels=tensors["labels"])["images"]
    np.savez(images, **drawn)


if __name__ == "__main__":
    main(*sys.argv[1:])
