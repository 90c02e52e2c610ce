"""The `wgan` command, such as `wgan run --source digits --root runs/demo --steps 2000`."""

import argparse
import importlib
import logging
import os
import re
import sys
import traceback

from components.core import errors, settings
from components.core.container_images import VERSION
from components.core.errors import ConfigError, StageError
from components.core.stage import cli, logs
from pipeline.cli import compile, programs, registry, run, runs
from pipeline.cluster import redaction, run_commands, schedule_commands

log = logging.getLogger("pipeline")

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
    parser, verbs = command()
    if _COMPLETING in os.environ:
        line = _BEFORE_COMMAND.sub("", os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])], count=1)
        os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
        importlib.import_module("argcomplete").autocomplete(parser, print_suppressed=True)
    if words and words[0] not in verbs.choices and not words[0].startswith("-"):
        raise ConfigError(f"{words[0]!r} is no verb of wgan{settings.suggestion(words[0], verbs.choices)}")
    parsed, unknown = parser.parse_known_args(cli.with_dashes(words), argparse.Namespace(words=words))
    parsed.problems = parsed.parser.unknown(unknown)
    if parsed.problems and not parsed.reports_problems:
        raise ConfigError(*parsed.problems)
    code: int | None = parsed.run(parsed)
    return code or errors.OK


def command() -> "tuple[cli.Parser, argparse._SubParsersAction[cli.Parser]]":
    parser = cli.Parser(prog="wgan", description="Train, judge and publish WGAN-GP generators.")
    parser.add_argument("--version", action="version", version=f"wgan {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", title="verbs (wgan VERB --help)")
    for module in (run, runs, compile, run_commands, schedule_commands, registry, programs):
        module.add_to(verbs)
    return parser, verbs


if __name__ == "__main__":
    sys.exit(main())
