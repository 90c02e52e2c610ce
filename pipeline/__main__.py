"""The `wgan` command.

wgan run --source digits --root runs/demo --steps 2000
wgan run --source digits --root runs/demo --steps 2000 --runner docker
wgan plan --source digits --root runs/demo --steps 3000
wgan compile --target vertex --profile gpu-l4 --images build/images.json --output pipeline.yaml
wgan profiles
wgan submit --package pipeline.yaml --host https://kubeflow.example.com --source digits --root /data/runs --wait
wgan status
wgan logs 3f2a train --follow --kube_context my-cluster
wgan schedule apply --file schedules.yaml --host https://kubeflow.example.com
wgan evaluate --all-checkpoints --checkpoints runs/demo/checkpoints/KEY
wgan sample --registry runs/demo/registry --count 64 --out grid.png
wgan models why 1 --registry runs/demo/registry
wgan report compare runs/demo runs/other --output compare.html
wgan selfcheck
"""

import logging
import sys
import traceback

from components import cli, errors
from components.errors import StageError
from components.images import VERSION
from pipeline import compile_command, extras, processes, run_command
from pipeline.cluster import run_commands, schedule_commands

log = logging.getLogger("pipeline")

_PROGRAMS = {
    "evaluate": "judge a checkpoint, or score all of a training (--all-checkpoints)",
    "sample": "draw images from the registry's champion",
    "report": "set two runs side by side in one HTML page (report compare A B)",
    "selfcheck": "prove on this machine that training is exact on any number of replicas",
}
# The extra that a verb needs. Those of run and plan depend on their flags; the other verbs need none.
_EXTRAS = {
    **dict.fromkeys(("compile", *run_commands.HELP, *schedule_commands.HELP), "pipeline"),
    **dict.fromkeys(_PROGRAMS, "cpu"),
}


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code (see `components.errors`)."""
    cli.log_to_stderr()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        return _dispatch(words)
    except StageError as error:
        for line in str(error).splitlines():
            log.error("%s", line)
        return error.exit_code
    except KeyboardInterrupt:
        return errors.INTERRUPTED
    except BrokenPipeError:
        return errors.TRANSIENT
    except OSError as error:
        log.error("%s", errors.describe_os_error(error))
        return errors.TRANSIENT
    except Exception:
        log.error("a defect of this program, please report it with these lines\n%s", traceback.format_exc())
        return errors.DEFECT


def _dispatch(words: list[str]) -> int:
    verb = words[0] if words else ""
    extra = _EXTRAS.get(verb)
    if extra and not {"-h", "--help"} & set(words):
        extras.require(extra, verb)
    if verb in _PROGRAMS:
        # A program of its own, flags and all: it needs TensorFlow, which this process never loads.
        return processes.run_in_front(["python", "-m", f"components.{verb}", *words[1:]])
    if verb in run_command.HELP:
        return run_command.main(verb, words[1:])
    if verb in compile_command.HELP:
        return compile_command.main(verb, words[1:])
    if verb in run_commands.HELP:
        return run_commands.main(verb, words[1:])
    if verb in schedule_commands.HELP:
        return schedule_commands.main(verb, words[1:])
    if verb == "models":
        from pipeline import models

        return models.main(words[1:])
    parser = cli.Parser(prog="wgan", description="Train, judge and publish WGAN-GP generators.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"wgan {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan VERB --help)")
    helped = run_command.HELP | compile_command.HELP | run_commands.HELP | schedule_commands.HELP
    for name, help_text in helped.items():
        verbs.add_parser(name, help=help_text)
    verbs.add_parser("models", help="tell what was published, why, and how to make it again")
    for name, help_text in _PROGRAMS.items():
        verbs.add_parser(name, help=help_text)
    parser.parse_args(words)
    return errors.OK


if __name__ == "__main__":
    sys.exit(main())
