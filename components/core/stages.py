"""The stages of the pipeline: each is a folder in `components`. Standard library only.

A new stage needs its folder, its name here, and its wires in `pipeline/graph.py`; tests name what was forgotten.
"""

import importlib

# Stages whose code decides what is published.
MAKERS = ("preprocess", "train", "embed", "evaluate", "export")
VARIANTS = {"evaluate": "all_checkpoints"}  # by a flag of its name, a stage runs another module with other settings
ALL = ("decide", *MAKERS, "publish", "record")


def config_of(stage: str, variant: str = "") -> type:
    """Return the class of the settings of a stage, or of a variant of it."""
    name = (variant or stage).title().replace("_", "")
    found: type = getattr(importlib.import_module(f"components.{stage}.config"), f"{name}Config")
    return found
