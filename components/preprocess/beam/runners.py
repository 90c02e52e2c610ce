"""The runner that Beam's options name: check that it answers, run a pipeline on it, explain its failures."""

import contextlib
import io
import re
import shlex
import signal
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import apache_beam as beam
import grpc
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.runners.runner import PipelineRunner, create_runner

from components.core.errors import ConfigError, StageError, Terminated, TransientError

_LOCAL_RUNNERS = (None, "DirectRunner", "FnApiRunner")
_SECONDS_TO_ANSWER = 5.0
_LONGEST_CAUSE = 500  # characters
# The line of a stack that names an exception: Java's last cause, or Python's error.
_CAUSE = re.compile(r"Caused by: |[\w.]+(Error|Exception|Interrupt)\b")
# What users of Flink and Dataflow report most, by words of the cause.
_REMEDIES = {
    'program "docker"': "name the worker pool beside each task manager by --environment_type=EXTERNAL "
    "--environment_config=localhost:50000",
    "Connection refused": "start a worker pool (the preprocess image with --worker_pool) beside each task manager",
    "No module named": "run the workers in the preprocess image, on Dataflow by --sdk_container_image",
    "": "see its log and those of its workers",
}


@contextlib.contextmanager
def pipeline(beam_options: str) -> Iterator[beam.Pipeline]:
    """Yield a pipeline to be wired in the block, and run it after that; cancel its job if this program is stopped.

    Errors of Beam in this process are raised unchanged, because they may be defects of the steps.
    """
    options, runner = chosen(beam_options)
    if isinstance(runner, PortableRunner):
        _require_service(options)
    try:
        beam_pipeline = beam.Pipeline(runner=runner, options=options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {' '.join(str(error).split())}") from None
    yield beam_pipeline
    if isinstance(runner, FnApiRunner):
        beam_pipeline.run().wait_until_finish()
        return
    name, is_ignored = type(runner).__name__, signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    try:
        result = beam_pipeline.run()
        if is_ignored:  # as under nohup; Beam's job servers, which end with this program, would install a handler
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            result.wait_until_finish()
        except (KeyboardInterrupt, Terminated):
            with contextlib.suppress(Exception):
                result.cancel()
            raise
    except StageError:
        raise
    except (ValueError, NotImplementedError, ImportError, FileNotFoundError) as error:  # no Java, or no jar
        raise ConfigError(f"beam_options: {name}: {_root_cause(error)}") from None
    except OSError:
        raise
    except Exception as error:
        cause = _root_cause(error)
        remedy = next(remedy for words, remedy in _REMEDIES.items() if words in cause)
        raise TransientError(f"{name} failed: {cause}; {remedy}") from None


def _require_service(options: PipelineOptions) -> None:
    """Connect to the job server, or to Flink if none is named, because Beam would try for minutes."""
    option, default_port, value = "job_endpoint", 0, options.view_as(pipeline_options.PortableOptions).job_endpoint
    if not value:
        flink_master = options.view_as(pipeline_options.FlinkRunnerOptions).flink_master
        option, default_port, value = "flink_master", 8081, flink_master
    if value in ("embed", "[auto]", "[local]"):
        return
    try:
        parts = urlsplit(value if "://" in value else f"//{value}")
        host, port = parts.hostname, parts.port or default_port
        if not host or not port:
            raise ValueError("it names no host or no port")
        socket.create_connection((host, port), timeout=_SECONDS_TO_ANSWER).close()
    except ValueError as error:
        raise ConfigError(f"beam_options: --{option} must be HOST:PORT, got {value}: {error}") from None
    except OSError as error:
        raise TransientError(
            f"beam_options: --{option}={value}: nothing answers there ({error.strerror or error}); start Beam's job "
            "server or Flink there, or give its address"
        ) from None


def chosen(beam_options: str) -> tuple[PipelineOptions, PipelineRunner]:
    """Return options and the named runner, else Beam in this process: its default first tries to download another."""
    try:
        words = shlex.split(beam_options)
    except ValueError as error:
        raise ConfigError(f"beam_options: {error} in {beam_options!r}") from None
    unknown, complaint = list[str](), io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            options = PipelineOptions(words)
            if words:  # asking for all options takes as long as a thousand images
                options.get_all_options(
                    add_extra_args_fn=lambda parser: unknown.extend(parser.parse_known_args(words)[1]),
                    retain_unknown_options=True,
                )
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


def is_in_process(options: PipelineOptions) -> bool:
    """Return whether the one worker is a thread of this process, as by default."""
    local = options.view_as(StandardOptions).runner in _LOCAL_RUNNERS
    return local and options.view_as(DirectOptions).direct_running_mode == "in_memory"


def _root_cause(error: BaseException) -> str:
    """Return the line of a runner's error that names the cause: such an error has stacks of Java and Python."""
    text = error.details() if isinstance(error, grpc.RpcError) and isinstance(error, grpc.Call) else str(error)
    lines = [line for line in (text or "").splitlines() if line.strip()] or [type(error).__name__]
    return next((line for line in reversed(lines) if _CAUSE.match(line)), lines[0]).strip()[:_LONGEST_CAUSE]
