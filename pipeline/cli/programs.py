"""`wgan evaluate`, `sample`, `report` and `selfcheck`: programs with TensorFlow, which this process never loads."""

import argparse

from components.core import settings, stages
from components.core.stage import cli
from pipeline import verbs
from pipeline.local import processes

_TEXTS = {
    "evaluate": "judge a checkpoint, or images of another model",
    "sample": "draw images from the registry's champion",
    "report": "compare runs in one HTML page (report compare 1 2)",
    "selfcheck": "prove on this machine that training is exact on any number of replicas",
}


def add_to(command: "argparse._SubParsersAction[cli.Parser]") -> None:
    for name, text in _TEXTS.items():
        parser = verbs.add(command, name, text, _run, reports_problems=True)
        for field in settings.fields_of(stages.config_of(name)):
            cli.add_flag(parser, field)


def _run(parsed: argparse.Namespace) -> int:
    verbs.require("cpu", parsed.verb)
    return processes.run_in_front(parsed.verb, parsed.words[1:])
