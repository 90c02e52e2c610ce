"""The runner that Beam's options name: check that it answers, run a pipeline on it, explain its failures."""

import contextlib
import io
import logging
import re
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO
from urllib.parse import urlsplit

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import (
    DirectOptions,
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from components.core.errors import ConfigError, StageError, Terminated, TransientError
from components.preprocess.decode import pool

_LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")
# An option, Beam's class that has it, what users call the service, and values that name no single address.
_SERVICES: tuple[tuple[str, type[PipelineOptions], str, str], ...] = (
    ("job_endpoint", PortableOptions, "job server of Beam", "embed"),
    ("flink_master", FlinkRunnerOptions, "Flink cluster", r"\[(auto|local)\]"),
)
_DEFAULT_PORTS = {"flink_master": 8081}
_SECONDS_TO_ANSWER = 5.0
_LONGEST_LINE = 500  # characters
_TRACEBACK = "Traceback (most recent call last):"


@contextlib.contextmanager
def pipeline(beam_options: str) -> Iterator[beam.Pipeline]:
    """Yield a pipeline to be wired in the block, and run it after that.

    Errors of Beam in this process are raised unchanged, because they may be defects of the steps.
    """
    options, runner = chosen(beam_options)
    if isinstance(runner, PortableRunner):
        _require_service(options)
    try:
        made = beam.Pipeline(runner=runner, options=options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {' '.join(str(error).split())}") from None
    yield made
    if isinstance(runner, FnApiRunner):
        with contextlib.nullcontext() if is_in_process(options) else _without_stacks():
            made.run().wait_until_finish()
        return
    name = type(runner).__name__
    try:
        with _without_stacks():
            _run(made)
    except StageError:
        raise
    except (ValueError, NotImplementedError, ImportError, FileNotFoundError) as error:  # no Java, or no jar
        raise ConfigError(f"beam_options: {name}: {_reason(error)}") from None
    except OSError:
        raise
    except Exception as error:
        raise TransientError(f"{name} failed: {_reason(error)}; see its log and those of its workers") from None


def _require_service(options: PipelineOptions) -> None:
    """Connect to the first service that the options name, because Beam would try for minutes.

    The others can be out of reach from here: a job server connects to the cluster by itself.
    """
    for option, group, kind, no_address in _SERVICES:
        value = getattr(options.view_as(group), option)
        if not value or re.fullmatch(no_address, value):
            continue
        try:
            parts = urlsplit(value if "://" in value else f"//{value}")
            host, port = parts.hostname, parts.port or _DEFAULT_PORTS.get(option)
            if not host or not port:
                raise ValueError("it names no host or no port")
            socket.create_connection((host, port), timeout=_SECONDS_TO_ANSWER).close()
        except ValueError as error:
            raise ConfigError(f"beam_options: --{option} must be HOST:PORT of a {kind}, got {value}: {error}") from None
        except OSError as error:
            raise TransientError(
                f"beam_options: --{option}={value}: nothing answers there ({error.strerror or error}); "
                f"start the {kind}, or give its address"
            ) from None
        return


def _run(made: beam.Pipeline) -> None:
    """Run a pipeline to its end; cancel the job if this program is stopped. Beam's job servers end with it."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    result = made.run()
    if ignored:  # as under nohup; Beam's job servers would install a handler that stops them
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result.wait_until_finish()
    except (KeyboardInterrupt, Terminated):
        with contextlib.suppress(Exception):
            result.cancel()
        raise


def chosen(beam_options: str) -> tuple[PipelineOptions, PipelineRunner]:
    """Return options and runner: the named one, else Beam in this process.

    Beam's own default would first try to download another runner's program.
    """
    try:
        words = shlex.split(beam_options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {error} in {beam_options!r}") from None
    unknown: list[str] = []

    def note(parser: Any) -> None:
        unknown[:] = parser.parse_known_args(words)[1]

    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(words)
            if words:  # asking for all options takes as long as a thousand images
                options.get_all_options(add_extra_args_fn=note, retain_unknown_options=True)
    except SystemExit:
        reason = complaint.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise ConfigError(f"beam_options: {reason}") from None
    if options.view_as(DirectOptions).direct_running_mode == "multi_processing":
        raise ConfigError(
            "beam_options: --direct_running_mode=multi_processing is not supported, as it is no faster; leave it out, "
            "give multi_threading, or give the --runner of a cluster"
        )
    named = options.view_as(StandardOptions).runner
    if named in _LOCAL_RUNNERS:
        if unknown:
            raise ConfigError(f"beam_options: Beam does not know {' '.join(unknown)}")
        return options, FnApiRunner()
    # Other runners have options that only they know, and check them themselves.
    try:
        return options, create_runner(named)
    except (ValueError, ImportError, AttributeError) as error:
        raise ConfigError(f"beam_options: {error}") from None


def decoders(options: PipelineOptions) -> int:
    """Return how many processes decode image files for each worker: one if the runner can start more workers."""
    return pool.wanted() if is_in_process(options) else 1


def is_in_process(options: PipelineOptions) -> bool:
    """Return whether the one worker is a thread of this process, as by default."""
    local = options.view_as(StandardOptions).runner in _LOCAL_RUNNERS
    return local and options.view_as(DirectOptions).direct_running_mode == "in_memory"


def _reason(error: BaseException) -> str:
    if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return one_line(str(error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return the root-cause line of a Java or Python stack trace, or the first line of other text."""
    lines = [line for line in text.rpartition(_TRACEBACK)[2].splitlines() if line.strip()]
    if _TRACEBACK in text:
        lines = [line for line in lines if not line[0].isspace()]
    else:
        lines = [line for line in lines if line.startswith("Caused by: ")][-1:] or lines
    line = lines[0].strip() if lines else ""
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "..."


class _OneLineStacks(io.TextIOBase):
    """A stream that shortens each stack that is printed, as Beam's workers do, to a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(one_line(text) if text.startswith(_TRACEBACK) else text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


@contextlib.contextmanager
def _without_stacks() -> Iterator[None]:
    """Show only warnings of Beam, its job servers and its threads, each as one line.

    This stays after a job that ends too early, because Beam's threads notice the end one after the other.
    """

    def shorten(record: logging.LogRecord) -> bool:
        if record.name.split(".")[0] == "components":
            return True
        record.msg, record.args, record.exc_info, record.exc_text = one_line(record.getMessage()), (), None, None
        return record.levelno >= logging.WARNING

    def report_thread(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, grpc.RpcError):  # the pipeline reports once that a service is gone
            before(failed)

    before = threading.excepthook
    with contextlib.ExitStack() as undone:
        threading.excepthook = report_thread
        undone.callback(setattr, threading, "excepthook", before)
        undone.enter_context(contextlib.redirect_stderr(_OneLineStacks(sys.stderr)))
        for handler in logging.getLogger().handlers:
            handler.addFilter(shorten)
            undone.callback(handler.removeFilter, shorten)
        try:
            yield
        except (grpc.RpcError, RuntimeError, TransientError, KeyboardInterrupt, Terminated):
            undone.pop_all()
            raise
