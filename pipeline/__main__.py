"""The `wgan` command.

wgan run --source digits --root runs/demo --steps 2000
wgan run --source digits --root runs/demo --steps 2000 --runner docker
wgan plan --source digits --root runs/demo --steps 3000
wgan runs show 2 --root runs/demo
wgan open report --root runs/demo
wgan compile --target vertex --profile gpu-l4 --images build/images.json --output pipeline.yaml
wgan profiles
wgan submit --package pipeline.yaml --host https://kubeflow.example.com --source digits --root /data/runs --wait
wgan status
wgan logs 3f2a train --follow --kube_context my-cluster
wgan schedule apply --file schedules.yaml --host https://kubeflow.example.com
wgan evaluate --help
wgan sample --registry runs/demo/registry --count 64 --out grid.png
wgan registry why 1 --registry runs/demo/registry
wgan report compare 1 2 3 --root runs/demo
wgan selfcheck
"""

import importlib
import logging
import os
import re
import sys
import traceback
from collections.abc import Callable

from components.core import errors, settings
from components.core.container_images import VERSION
from components.core.errors import ConfigError, StageError
from components.core.stage import cli, logs
from pipeline.cli import compile, extras, run, runs
from pipeline.cluster import redaction, run_commands, schedule_commands
from pipeline.local import processes

log = logging.getLogger("pipeline")

_PROGRAMS = {
    "evaluate": "judge a checkpoint",
    "sample": "draw images from the registry's champion",
    "report": "compare runs in one HTML page (report compare 1 2)",
    "selfcheck": "prove on this machine that training is exact on any number of replicas",
}
_MODULES = (run, runs, compile, run_commands, schedule_commands)
_VERBS: dict[str, Callable[[str, list[str]], int]] = {verb: module.main for module in _MODULES for verb in module.HELP}
_REGISTRY = {"registry": "list published versions, explain, verify, roll back, reproduce, export and remove them"}
HELP = {verb: text for module in _MODULES for verb, text in module.HELP.items()} | _REGISTRY | _PROGRAMS
# Other commands and variables before `wgan`: zsh passes the whole line, bash and fish the command alone.
_BEFORE_COMMAND = re.compile(r"(?s)^(.*[;&|(\n])?[^;&|(\n]*?(?<![^\s/;&|(])(?=wgan\s)")
# The extra that a verb needs. Those of run and plan depend on their flags; the other verbs need none.
_EXTRAS = {
    **dict.fromkeys((*compile.HELP, *run_commands.HELP, *schedule_commands.HELP), "pipeline"),
    **dict.fromkeys(_PROGRAMS, "cpu"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code (see `components.core.errors`)."""
    logs.log_to_stderr()
    with redaction.of_output():
        return _run(sys.argv[1:] if arguments is None else arguments)


def _run(words: list[str]) -> int:
    try:
        try:
            return _dispatch(words)
        finally:
            sys.stdout.flush()  # Python would do it later, where no failure can be handled
    except StageError as error:
        for line in str(error).splitlines():
            log.error("%s", line)
        return error.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:  # whoever reads the output, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.CLOSED_PIPE
    except OSError as error:
        log.error("%s", errors.describe_os_error(error))
        return errors.TRANSIENT
    except Exception:
        log.error("a defect of this program, please report it with these lines\n%s", traceback.format_exc())
        return errors.DEFECT


def _dispatch(words: list[str]) -> int:
    if completing := cli.COMPLETING in os.environ:
        words = _to_complete()
    verb = words[0] if words else ""
    if extra := _EXTRAS.get(verb):
        extras.require(extra, verb, words)
    if verb in _PROGRAMS and completing:  # from its settings, which need no TensorFlow
        return cli.main(verb, words[1:])
    if verb in _PROGRAMS:
        # A separate program with its own flags: it needs TensorFlow, which this process never loads.
        return processes.run_in_front(verb, words[1:])
    if verb in {**run.HELP, **runs.HELP, **run_commands.HELP, **_REGISTRY}:  # these write under the root
        cli.set_umask()
    if verb in _VERBS:
        return _VERBS[verb](verb, words[1:])
    if verb in _REGISTRY:
        from pipeline.cli import registry

        return registry.main(words[1:])
    if verb and not verb.startswith("-"):
        raise ConfigError(f"{verb!r} is no verb of wgan{settings.suggestion(verb, HELP)}")
    parser = cli.Parser(prog="wgan", description="Train, judge and publish WGAN-GP generators.")
    parser.add_argument("--version", action="version", version=f"wgan {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan VERB --help)")
    for name, help_text in HELP.items():
        verbs.add_parser(name, help=help_text)
    parser.parse_args(words)
    return errors.OK


def _to_complete() -> list[str]:
    """Return the words before the cursor of a line that a shell wants completed, without a flag that lacks its value.

    They decide which flags there are; argcomplete reads the line by itself, from the environment. It gets the command
    up to the cursor and, if there is a verb, starts at the verb.
    """
    line = _BEFORE_COMMAND.sub("", os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])], count=1)
    os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    words: list[str] = importlib.import_module("argcomplete").split_line(line)[3][1:]
    if not words or words[0] not in HELP:
        return []
    os.environ[cli.COMPLETING] = "2"  # argcomplete starts at the second word
    return words[:-1] if words[-1].startswith("--") and words[0] not in _PROGRAMS else words


if __name__ == "__main__":
    sys.exit(main())
