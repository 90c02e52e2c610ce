"""The pipeline: eight steps, each a stage and the values that it gets. Needs neither kfp nor what stages import.

`pipeline/kfp_graph.py` writes the table for Kubeflow, and `pipeline/local` executes it on this machine.

A wire is a template: `{source}` is a parameter of the pipeline, `{train.checkpoint_uri}` an output of a step, and
`{run.id}` a fact of the run. A template that is one of these alone keeps the type of its value. An output is wired to
the settings of its name in all steps. A setting that no step wires, and that is no digest of an input, is a parameter
of the pipeline by the same name.
"""

import dataclasses
import json
import string
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from components.core import container_images, settings, stages
from components.core.artifacts.recipes import RUN
from components.core.settings import Field, Setting

NAME = "wgan-gp"
# Stages whose settings are parameters, with titles. Of two settings with one name, the first gives the default.
USER_STAGES = {
    "preprocess": "images",
    "train": "training",
    "embed": "the classifier that judges",
    "evaluate": "the verdict",
    "decide": "when to train",
}
# The run is among the inputs of each stage, so Kubeflow's own cache never applies: a stage itself looks for its
# artifact under the root, and notes whether it made or found it.
_RUN_WIRES = {"records": "{root}/records", "run": "{run.id}"}


@dataclasses.dataclass(frozen=True)
class Condition:
    """An output of a step, and the value without which others are skipped."""

    stage: str
    output: str
    value: str
    name: str  # for people

    @property
    def wire(self) -> str:
        return f"{{{self.stage}.{self.output}}}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    stage: str
    wires: Mapping[str, Any]  # the template, or the number, of each setting that is no parameter
    conditions: tuple[Condition, ...] = ()
    # Whether equal inputs mean equal outputs: not where the source's present content or the present champion decides.
    cached: bool = True
    always: bool = False  # comes last, although something has failed
    image: str = ""  # in `container_images.NAMES`; `steps` sets it
    # On this machine, as in our profiles: how often it runs again after a failure, and the seconds before the first
    # time, which double.
    retries: int = 2
    first_wait: float = 10.0

    @property
    def inputs(self) -> dict[str, Any]:
        """The template, or the number, of each input."""
        chosen = {field.name: f"{{{field.name}}}" for field in self.fields() if field.name in PARAMETERS}
        return {**chosen, **_RUN_WIRES, **self.wires}

    @property
    def needs(self) -> list[str]:
        """The stages that come before it: those whose outputs it gets or waits for; all of them if it comes last."""
        wires = [*self.inputs.values(), *(condition.wire for condition in self.conditions)]
        sources = {name.partition(".")[0] for wire in wires for name in names_in(wire)}
        return [step.stage for step in STEPS if step.stage in sources or (self.always and not step.always)]

    @property
    def row(self) -> stages.Stage:
        return stages.TABLE[self.stage]

    @property
    def outputs(self) -> dict[str, type]:
        return {**self.row.outputs, stages.SUMMARY: str}

    @property
    def config(self) -> type:
        return stages.config_of(self.stage)

    def fields(self) -> list[Field]:
        return settings.fields_of(self.config)

    def command(self, executor_input: Mapping[str, Any]) -> list[str]:
        """Return the command that runs the stage with Kubeflow's message."""
        return [*stages.command(self.stage), "--executor-input", json.dumps(executor_input)]


_ANYTHING_NEW = Condition("decide", "decision", RUN, "anything new")
_PROMOTED = Condition("evaluate", "verdict", "PROMOTE", "promoted")
# What a setting of this name gets unless its step says otherwise: an output, named without `_uri`, or a folder.
_SHARED_WIRES = {
    **{name.removesuffix("_uri"): f"{{{stage}.{name}}}" for stage, row in stages.TABLE.items() for name in row.outputs},
    **{"registry": "{root}/registry", "source_index": "{root}/fingerprints", "results": "{root}"},
    **{"previous_datasets": "{root}/datasets", "downloads": "{root}/downloads"},
}


def _step(stage: str, wires: Mapping[str, str], *conditions: Condition, **more: Any) -> Step:
    """Return a step with its own wires, and the shared ones of its settings."""
    names = [field.name for field in settings.fields_of(stages.config_of(stage))]
    shared = {name: _SHARED_WIRES[name] for name in names if name in _SHARED_WIRES}
    return Step(stage=stage, wires={**shared, **wires}, conditions=conditions, **more)


_RUN_NAMES = {"run_name": "{run.name}", "created": "{run.created}", "scheduled": "{run.scheduled}"}
# In an order that respects dependencies; conditions only become more.
STEPS = (
    _step("decide", {"settings": "{deciding}"}, cached=False),
    _step("preprocess", {"dataset": "{root}/datasets"}, _ANYTHING_NEW),
    _step("embed", {"embedding": "{root}/embeddings"}, _ANYTHING_NEW),
    _step("train", {"checkpoints": "{root}/checkpoints"}, _ANYTHING_NEW),
    _step("evaluate", {"evaluation": "{root}/evaluations", "samples": "", "against": ""}, _ANYTHING_NEW, cached=False),
    _step("export", {"model": "{root}/models"}, _ANYTHING_NEW),
    _step("publish", {}, _ANYTHING_NEW, _PROMOTED, cached=False),
    _step("record", _RUN_NAMES, cached=False, always=True),
)
# Of a root.
FOLDERS = {wire.split("/")[1] for step in STEPS for wire in {**_RUN_WIRES, **step.wires}.values() if "{root}/" in wire}
_FIELDS = [field for step in STEPS for field in step.fields()]


def _parameters() -> dict[str, Field]:
    """Return the parameters of the pipeline by name, in the order of the alphabet."""
    chosen = [field for stage in USER_STAGES for field in settings.fields_of(stages.config_of(stage))]
    wired = {name for step in STEPS for name in step.wires}
    first = {field.name: field for field in reversed(chosen) if not (field.name in wired or field.setting.digest)}
    parameters = {"root": Field("root", str, dataclasses.MISSING, Setting("Folder of all results."))}
    for name, field in first.items():
        namesakes = [other for other in _FIELDS if (other.name, other.type) == (name, field.type)]
        help_text = " ".join(dict.fromkeys(other.setting.help for other in namesakes))
        # The bounds of the first stage count here; the others check theirs.
        parameters[name] = dataclasses.replace(field, setting=dataclasses.replace(namesakes[0].setting, help=help_text))
    return dict(sorted(parameters.items()))


PARAMETERS = _parameters()
# Parameters that decide the result; the others are locations and distribution of work.
_DECIDING = sorted({field.name for field in _FIELDS if field.setting.in_key and field.name in PARAMETERS})


def names_in(wire: Any) -> list[str]:
    """Return the names in a template; none for a number."""
    return [name for _, name, _, _ in string.Formatter().parse(wire) if name] if isinstance(wire, str) else []


def filled(wire: Any, values: Mapping[str, Any]) -> Any:
    """Return a template with its values, or the value itself of a template that is one name; a number is itself."""
    names = names_in(wire)
    if [f"{{{name}}}" for name in names] == [wire]:
        return string.Formatter().get_field(names[0], (), values)[0]
    return wire.format_map(values) if isinstance(wire, str) else wire


def values_of(parameters: Mapping[str, Any], run: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of templates before any step has ended; the run has `id`, `name`, `created`, `scheduled`."""
    deciding = "\n".join(f"{name}={parameters[name]}" for name in _DECIDING if name in parameters)
    return {**parameters, "deciding": deciding, "run": SimpleNamespace(**run)}


def steps(hardware: str = "cpu") -> tuple[Step, ...]:
    """Return the steps for train's hardware, a key of `TRAIN_IMAGES`, else a CPU; embed's image is for CPUs."""
    image = {step.stage: step.row.image for step in STEPS}
    image["train"] = container_images.TRAIN_IMAGES.get(hardware, container_images.TRAIN)
    on_cpus = {"accelerator": "cpu", "tpu": "", "replicas": 0} if image["train"] != container_images.TRAIN else {}
    wires = {step.stage: {**step.wires, **(on_cpus if step.stage == "embed" else {})} for step in STEPS}
    return tuple(dataclasses.replace(step, image=image[step.stage], wires=wires[step.stage]) for step in STEPS)


def judging_steps() -> tuple[Step, ...]:
    """Return the steps that judge images of another model: those of the pipeline, but for decide and a training.

    Each of them runs, and looks for its result under the root itself.
    """
    images = {"samples": "{samples}", "against": "{against}"}
    wires = {
        "preprocess": {"source_fingerprint": ""},
        "embed": {"custom_embedding_digest": ""},
        "evaluate": {"checkpoint": "", "checkpoint_digest": "", "registry": "", **images},
    }
    return tuple(
        dataclasses.replace(step, wires={**step.wires, **wires[step.stage]}, conditions=(), cached=False)
        for step in STEPS
        if step.stage in wires
    )


def parameters_of(steps: Sequence[Step]) -> dict[str, Field]:
    """Return the parameters of some steps by name, those of the pipeline as they are there."""
    names = {name for step in steps for wire in step.inputs.values() for name in names_in(wire)}
    fields = {field.name: field for step in steps for field in step.fields()} | PARAMETERS
    return {name: fields[name] for name in sorted(names & fields.keys())}
