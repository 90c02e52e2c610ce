"""A stage as a program: flags or an executor input in, outputs and an exit code out.

    python -m components train --dataset DIR --checkpoints DIR --steps 1000
    python -m components train --executor-input '{...}'

Configuration is checked, all mistakes at once, before the stage's own module (TensorFlow, Beam) is imported.
"""

import argparse
import contextlib
import importlib
import logging
import os
import re
import signal
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from components.core import errors, settings, stages
from components.core.errors import ConfigError, StageError, Terminated
from components.core.stage import hardware, logs, run_notes
from components.core.stage.executor import ExecutorInput, StageResult

log = logging.getLogger("components.core.stage.cli")

UMASK = "WGAN_UMASK"  # variable: the umask of results, in octal digits
_EXECUTOR_INPUT = "--executor-input"  # flag: how Kubeflow starts a stage
_LAST_WORDS = Path("/dev/termination-log")  # of a container in a pod, by Kubernetes' default
_KINDS = {str: "TEXT", int: "N", float: "NUMBER"}
_LONGEST_WORDS = 1000  # characters; Kubernetes keeps 4096 bytes
_OTHERS = 0o027  # bits of the umask: other users cannot read, the group cannot write


class Parser(argparse.ArgumentParser):
    """An argument parser that raises our exceptions."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)

    def unknown(self, words: list[str]) -> list[str]:
        """Return an error for each unknown flag, with the known one that was probably meant."""
        names = [word[2:].partition("=")[0] for word in words if word.startswith("--")]
        if words and not names:
            return [f"unexpected arguments: {' '.join(words)}"]
        flags = [flag.removeprefix("--") for flag in self._option_string_actions]
        return [settings.unknown("flag", name, flags) for name in names]


def with_dashes(words: Iterable[str]) -> list[str]:
    """Return a command line with dashes in the names of its flags, where a user may write underscores."""
    return [re.sub(r"^--[\w-]+", lambda flag: flag[0].replace("_", "-"), word) for word in words]


def set_umask() -> None:
    """Add 027 to this process's umask, or replace it by the user's `WGAN_UMASK`."""
    if not (text := os.environ.get(UMASK, "")):
        os.umask(os.umask(_OTHERS) | _OTHERS)
    elif re.fullmatch("0*[0-7]{1,2}", text):
        os.umask(int(text, 8))
    else:
        raise ConfigError(
            f"{UMASK} must be an octal umask from 000 to 077, got {text!r}; 002 lets the group write, 022 lets "
            "everybody read, and without the variable other users cannot read"
        )


def main(stage: str, words: list[str]) -> int:
    """Run `components.STAGE.run` with the words of its command line, and return the exit code."""
    logs.log_to_stderr()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not hardware.has_tpu():
        # On import `tensorflow-tpu`'s libtpu asks Google Cloud's metadata server for the TPU's shape, and elsewhere
        # retries for many minutes.
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
    # TensorFlow logs every all-reduce, server and SavedModel, Beam every step, matplotlib its search for fonts.
    for name in ("tensorflow", "absl", "apache_beam", "matplotlib"):
        logging.getLogger(name).setLevel(logging.WARNING)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        if stage in stages.ALL:  # the other programs write files that the user names
            set_umask()
        config_class = stages.config_of(stage)
        raw_values, executor = _read_arguments(f"python -m components {stage}", config_class, words)
        run = executor.take_run([field.name for field in settings.fields_of(config_class)]) if executor else None

        def work() -> StageResult:
            config = build(config_class, raw_values)
            result: StageResult = importlib.import_module(f"components.{stage}.run").run(config)
            if executor is not None:
                executor.write_output(result)
            return result

        try:
            result = run_notes.noted(stage, run, work)
        finally:
            if run is not None:
                try:
                    importlib.import_module("components.record.run").update(run)
                except (OSError, StageError) as error:  # no stage may fail for its record
                    log.warning("%s: the run's record cannot be updated: %s", stage, errors.line_of(error))
        if executor is None:
            for name, value in result.parameters.items():
                print(f"{name}: {value}")
        _leave_message(str(result.parameters.get("summary", "")))
        return errors.OK
    except (KeyboardInterrupt, Terminated, Exception) as error:
        _report(stage, error)
        _leave_message(errors.line_of(error))
        return errors.exit_code_of(error)


def _leave_message(text: str) -> None:
    """Leave the pod's last words, which Kubernetes shows beside its exit code."""
    if errors.in_pod():
        with contextlib.suppress(OSError), open(_LAST_WORDS, "r+", encoding="utf-8") as file:  # never made here
            file.write(text[:_LONGEST_WORDS])
            file.truncate()


def _report(stage: str, error: BaseException) -> None:
    match error:
        case KeyboardInterrupt() | Terminated():
            word = "interrupted" if isinstance(error, KeyboardInterrupt) else "terminated"
            log.info("%s: %s; run the command again to resume", stage, word)
        case StageError() | OSError():
            for line in errors.lines_of(error):
                log.error("%s: %s", stage, line)
        case _:
            trace = "".join(traceback.format_exception(error))
            log.error("%s: a defect of this program, please report it with these lines\n%s", stage, trace)


def _terminate(signum: int, frame: Any) -> NoReturn:
    raise Terminated


def build(config_class: type, raw_values: dict[str, Any]) -> Any:
    """Make a configuration from text or JSON values of Kubeflow; `ConfigError` names every mistake."""
    fields = {field.name: field for field in settings.fields_of(config_class)}
    problems = [settings.unknown("setting", name, fields) for name in raw_values if name not in fields]
    values = {}
    for name, field in fields.items():
        if name not in raw_values:
            if field.required:
                problems.append(f"{name} is required")
            continue
        try:
            values[name] = settings.parse_value(field, raw_values[name])
        except ValueError as error:
            problems.append(str(error))
    if not problems:
        return config_class(**values)
    for name, value in values.items():
        problems += settings.field_problems(fields[name], value)
    raise ConfigError(*problems)


def _read_arguments(program: str, config_class: type, words: list[str]) -> tuple[dict[str, Any], ExecutorInput | None]:
    parser = Parser(prog=program, description=config_class.__doc__)
    parser.add_argument(_EXECUTOR_INPUT, help=argparse.SUPPRESS)
    for field in settings.fields_of(config_class):
        add_flag(parser, field)
    parsed, unknown = parser.parse_known_intermixed_args(with_dashes(words))
    raw_values = {name: value for name, value in vars(parsed).items() if value is not None}
    if (text := raw_values.pop("executor_input", None)) is not None:
        if raw_values or unknown:
            raise ConfigError("--executor-input stands alone; other flags cannot be given with it")
        executor = ExecutorInput(text)
        return executor.parameters, executor
    flags = [word[2:].partition("=")[0].replace("-", "_") for word in unknown if word.startswith("--")]
    if unknown and not flags:
        raise ConfigError(f"unexpected arguments: {' '.join(unknown)}")
    # Known flags are still checked, so that one attempt shows every mistake.
    return raw_values | dict.fromkeys(flags, ""), None


def add_flag(parser: argparse._ActionsContainer, field: settings.Field) -> argparse.Action:
    """Add `--field-name`, or a positional argument; values stay text."""
    help_text = field.setting.help.replace("%", "%%")
    if field.required:
        help_text += " (required)"
    elif field.default not in ("", ()):
        help_text += f" (default: {field.default:g})" if field.type is float else f" (default: {field.default})"
    if field.setting.positional:
        nargs = None if field.required else "*"
        added = parser.add_argument(field.name, nargs=nargs, metavar=field.name.upper(), help=help_text)
    else:
        choices = "{" + ",".join(field.setting.choices) + "}" if field.setting.choices else _KINDS[field.type]
        added = parser.add_argument(f"--{field.name.replace('_', '-')}", metavar=choices, help=help_text)
    if field.setting.choices:
        added.completer = lambda **_: field.setting.choices  # type: ignore[attr-defined] # for argcomplete
    return added
