"""The stages of the pipeline: each is a folder in `components`. Standard library only.

A new stage needs its folder, its name here, and its wires in `pipeline/graph.py`; tests name what was forgotten.
"""

import importlib

# Stages whose code decides what is published.
MAKERS = ("preprocess", "train", "embed", "evaluate", "export")
ALL = ("decide", *MAKERS, "publish", "record")


def config_of(stage: str) -> type:
    """Return the class of the settings of a stage."""
    found: type = getattr(importlib.import_module(f"components.{stage}.config"), f"{stage.title()}Config")
    return found
