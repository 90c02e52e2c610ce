"""The `wgan` command, such as `wgan run --source digits --root runs/demo --steps 2000`."""

import argparse
import importlib
import logging
import os
import re
import sys
import traceback

from components.core import errors, settings, stages
from components.core.container_images import VERSION
from components.core.errors import ConfigError, StageError
from components.core.stage import cli, logs
from pipeline import verbs
from pipeline.cli import compile, registry, run, runs
from pipeline.cluster import redaction, run_commands, schedule_commands
from pipeline.local import processes

log = logging.getLogger("pipeline")

# Verbs that are programs with TensorFlow, which this process never loads.
_PROGRAMS = {
    "evaluate": "judge a checkpoint, or images of another model",
    "sample": "draw images from the registry's champion",
    "report": "compare runs in one HTML page (report compare 1 2)",
    "selfcheck": "prove on this machine that training is exact on any number of replicas",
}
_COMPLETING = "_ARGCOMPLETE"  # variable: set by a shell that asks for completions
# Other commands and variables before `wgan`: zsh passes the whole line, bash and fish the command alone.
_BEFORE_COMMAND = re.compile(r"(?s)^(.*[;&|(\n])?[^;&|(\n]*?(?<![^\s/;&|(])(?=wgan\s)")


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit code (see `components.core.errors`)."""
    logs.log_to_stderr()
    with redaction.redacted_output():
        try:
            try:
                return _dispatch(sys.argv[1:] if arguments is None else arguments)
            finally:
                sys.stdout.flush()  # Python would do it later, where no failure can be handled
        except KeyboardInterrupt:
            return errors.INTERRUPTED
        except BrokenPipeError:  # whoever reads the output, such as `head`, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return errors.CLOSED_PIPE
        except (StageError, OSError) as error:
            for line in errors.lines_of(error):
                log.error("%s", line)
            return errors.exit_code_of(error)
        except Exception:
            log.error("a defect of this program, please report it with these lines\n%s", traceback.format_exc())
            return errors.DEFECT


def _dispatch(words: list[str]) -> int:
    parser, actions = command()
    if _COMPLETING in os.environ:
        line = _BEFORE_COMMAND.sub("", os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])], count=1)
        os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        importlib.import_module("argcomplete").autocomplete(parser, print_suppressed=True)
    if words and words[0] not in actions.choices and not words[0].startswith("-"):
        raise ConfigError(f"{words[0]!r} is no verb of wgan{settings.suggestion(words[0], actions.choices)}")
    parsed, unknown = parser.parse_known_args(cli.with_dashes(words), argparse.Namespace(words=words))
    parsed.problems = parsed.parser.unknown(unknown)
    if parsed.problems and not parsed.reports_problems:
        raise ConfigError(*parsed.problems)
    code: int | None = parsed.run(parsed)
    return code or errors.OK


def command() -> "tuple[cli.Parser, argparse._SubParsersAction[cli.Parser]]":
    parser = cli.Parser(prog="wgan", description="Train, judge and publish WGAN-GP generators.")
    parser.add_argument("--version", action="version", version=f"wgan {VERSION}")
    actions = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan VERB --help)")
    for module in (run, runs, compile, run_commands, schedule_commands, registry):
        module.add_to(actions)
    for name, text in _PROGRAMS.items():
        program = verbs.add(actions, name, text, _run_program, reports_problems=True)
        for field in settings.fields_of(stages.config_of(name)):
            cli.add_flag(program, field)
    return parser, actions


def _run_program(parsed: argparse.Namespace) -> int:
    verbs.require("cpu", parsed.verb)
    return processes.run_in_front(parsed.verb, parsed.words[1:])


if __name__ == "__main__":
    sys.exit(main())
