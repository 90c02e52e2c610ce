"""From accelerator and replicas to a `tf.distribute` strategy: TPU, GPUs, virtual CPU devices, or several workers.

On a TPU a block of steps loops inside the replicas, so that it is one program that the host starts; elsewhere around
their updates, as MirroredStrategy cannot sum over replicas in a loop inside them.
"""

import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.core import concurrent
from components.core.distributed import cuda
from components.core.distributed.cluster import Cluster, absence, meet
from components.core.errors import ConfigError, TransientError, lines_of
from components.core.settings import share_problem
from components.core.stage.hardware import exact_problem, has_tpu

log = logging.getLogger(__name__)

_Values = dict[str, tf.Tensor]

# For TensorFlow's calls that have no time limit, after every other worker has answered.
_PATIENCE_SECONDS = 300
_GRPC_PORT = 8470
_INTRA_OP_THREADS = "TF_NUM_INTRAOP_THREADS"


def choose_strategy(
    accelerator: str, replicas: int, batch_size: int, tpu: str = "", cluster: Cluster | None = None, exact: bool = False
) -> tf.distribute.Strategy:
    """Make the strategy that the settings request, or that of the cluster, before TensorFlow touches a device.

    Raises a `ConfigError` if the hardware is missing, has fewer devices, cannot share the batch, or cannot be exact; a
    `TransientError` if another worker did not come.
    """
    kind = "multi-worker" if cluster else detect() if accelerator == "auto" else accelerator
    if exact and (problem := exact_problem("exact", kind)):
        raise ConfigError(problem)
    if cluster is not None:
        strategy = _workers(cluster, replicas)
    elif kind == "tpu":
        strategy = _tpu(replicas, tpu or os.environ.get("TPU_NAME") or "local")
    else:
        strategy = {"gpu": _gpus, "cpu": _cpus}[kind](replicas)
    count = strategy.num_replicas_in_sync
    if problem := share_problem("the batch size", batch_size, count, kind):
        raise ConfigError(problem)
    if exact:
        # It orders some sums by the rest of the graph, and so by the number of shards of a replica.
        tf.config.optimizer.set_experimental_options({"arithmetic_optimization": False})
        if tf.config.get_visible_devices("GPU"):
            tf.config.experimental.enable_op_determinism()
    log.info("%d x %s: %d images per batch", count, kind, batch_size)
    return strategy


def kind_of(strategy: tf.distribute.Strategy) -> str:
    """Return the accelerator of a strategy: `tpu`, `gpu`, `cpu` or `multi-worker`."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return "multi-worker"
    return str(tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type).lower()


def compiled(
    strategy: tf.distribute.Strategy, loop: Callable[..., _Values], axis: int, signature: list[tf.TensorSpec]
) -> tf.types.experimental.PolymorphicFunction:
    """Compile a loop over updates, each of which it makes by `run_update`, and which returns the same on every replica.

    The loop takes tensors of the signature, whose `axis` is the global batch; in a replica that loops itself, its shard
    alone. A TPU needs the number of steps when the graph is made, so there each length of a block has its own graph.
    """
    if kind_of(strategy) != "tpu":
        return tf.function(loop, signature)

    def program(*tensors: tf.Tensor) -> _Values:
        return first_replica(strategy, strategy.run(loop, args=[shards(strategy, tensor, axis) for tensor in tensors]))

    return tf.function(program)


def run_update(strategy: tf.distribute.Strategy, update: Callable[..., _Values], *arguments: tf.Tensor) -> _Values:
    """Make an update on every replica from the loop of a block, and return the values of one."""
    if kind_of(strategy) == "tpu":  # the loop is inside the replicas already
        return update(*arguments)
    return first_replica(strategy, strategy.run(update, args=arguments))


def shards(strategy: tf.distribute.Strategy, tensor: tf.Tensor, axis: int) -> tf.distribute.DistributedValues:
    """Split a tensor evenly among the replicas, in their order."""
    parts = tf.split(tensor, strategy.num_replicas_in_sync, axis)
    return strategy.experimental_distribute_values_from_function(lambda local: parts[local.replica_id_in_sync_group])


def first_replica(strategy: tf.distribute.Strategy, values: dict[str, Any]) -> _Values:
    """Return what the first replica returned from `strategy.run`; all returned the same."""
    return {name: strategy.experimental_local_results(value)[0] for name, value in values.items()}


def set_threads(exact: bool = False) -> None:
    """Set how many threads one operation may use; has no effect once TensorFlow has started.

    Kernels split their sums by this number, so it decides the last bits of a result. Standard training takes half of
    the cores, unless `TF_NUM_INTRAOP_THREADS` is set: its graph has two operations ready at any time, which by
    TensorFlow's default wait for each other. `exact` always takes one thread: its virtual shards keep the cores busy.
    """
    if exact or _INTRA_OP_THREADS not in os.environ:
        count = 1 if exact else max(1, concurrent.processors() // 2)
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(count)


def threads() -> int:
    text = os.environ.get(_INTRA_OP_THREADS, "")
    from_environment = int(text) if text.isdecimal() else 0
    return tf.config.threading.get_intra_op_parallelism_threads() or from_environment or concurrent.processors()


def detect() -> str:
    """Return the meaning of `auto` on this host for a process that trains alone: `tpu`, `gpu` or `cpu`."""
    if os.environ.get("TPU_NAME") or Path("/dev/accel0").exists():
        return "tpu"
    if tf.config.list_physical_devices("GPU"):
        return "gpu"
    if tf.test.is_built_with_cuda():  # so a GPU was expected, and a CPU takes many times as long
        log.warning("accelerator is auto and becomes cpu, as TensorFlow sees no GPU: %s", _why_no_gpu())
    return "cpu"


def _tpu(replicas: int, address: str) -> tf.distribute.Strategy:
    try:
        for url in address.split(",") if "://" in address else []:
            # TensorFlow would try for many minutes where nothing answers.
            scheme, _, location = url.partition("://")
            host, _, port = location.partition(":")
            if scheme != "grpc" or not host or not (port or "0").isdecimal():
                raise ValueError(f"{url!r} is not grpc://HOST:PORT")
            if problem := absence(f"{host}:{port or _GRPC_PORT}"):
                raise ValueError(f"nothing answers there: {problem}")
        with _bounded(f"connecting to the TPU at {address!r}"):
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=address)
            tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            strategy = tf.distribute.TPUStrategy(resolver)
    except (OSError, ValueError, RuntimeError, ImportError, tf.errors.OpError) as error:
        absent = address == "local" and not has_tpu()
        reason = "this host has no /dev/accel* and no group under /dev/vfio" if absent else lines_of(error)[0]
        raise ConfigError(
            f"no TPU could be initialized at {address!r} ({reason}); set tpu, or TPU_NAME, to `local` for the TPU of "
            "this machine, to the name of a Cloud TPU, or to grpc://HOST:PORT, and install the `tpu` extra; or use "
            "--accelerator cpu"
        ) from None
    if replicas not in (0, strategy.num_replicas_in_sync):
        raise ConfigError(f"replicas must be 0 or {strategy.num_replicas_in_sync} on this TPU, got {replicas}")
    return strategy


def _gpus(replicas: int) -> tf.distribute.Strategy:
    if not (gpus := tf.config.list_physical_devices("GPU")):
        raise ConfigError(f"accelerator is gpu, but TensorFlow sees no GPU: {_why_no_gpu()}; or set accelerator to cpu")
    if replicas > len(gpus):
        raise ConfigError(f"replicas must be at most {len(gpus)}, the GPUs of this machine, got {replicas}")
    for device in gpus:
        tf.config.experimental.set_memory_growth(device, True)
    names = [f"/gpu:{index}" for index in range(replicas or len(gpus))]
    return tf.distribute.OneDeviceStrategy(names[0]) if len(names) == 1 else tf.distribute.MirroredStrategy(names)


def _why_no_gpu() -> str:
    if not tf.test.is_built_with_cuda():
        return (
            "this TensorFlow is built without CUDA; install the `gpu` extra instead of `cpu`, in an environment of its "
            "own, or use the image wgan/train-gpu"
        )
    return cuda.why_no_gpu(Path(tf.__file__).parents[1])


def _cpus(replicas: int) -> tf.distribute.Strategy:
    tf.config.set_visible_devices([], "GPU")
    if replicas <= 1:
        return tf.distribute.OneDeviceStrategy("/cpu:0")
    device = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(device) or []) != replicas:
        tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return tf.distribute.MirroredStrategy([f"/cpu:{index}" for index in range(replicas)])


def _workers(cluster: Cluster, replicas: int) -> tf.distribute.Strategy:
    """Join the workers: all GPUs of each, the same number everywhere, or one CPU replica on each."""
    role = "the chief, which writes" if cluster.is_chief else "which computes and writes nothing"
    log.info("this is worker %d of %d, %s", cluster.number, cluster.size, role)
    gpus = tf.config.list_physical_devices("GPU")
    for device in gpus:
        tf.config.experimental.set_memory_growth(device, True)
    total = cluster.size * max(1, len(gpus))
    if replicas not in (0, total):
        raise ConfigError(
            f"replicas must be 0 or {total} for {cluster.size} workers with {max(1, len(gpus))} each, got {replicas}"
        )
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": cluster.addresses}),  # TensorFlow takes the first for the chief
        task_type="worker",
        task_id=cluster.number,
        num_accelerators={"GPU": len(gpus)},
        rpc_layer="grpc",
    )
    # Named, because the choice of `AUTO`, and so the last bits of a sum, can differ from run to run.
    experimental = tf.distribute.experimental
    implementations = experimental.CommunicationImplementation
    options = experimental.CommunicationOptions(implementation=implementations.NCCL if gpus else implementations.RING)
    meet(cluster)  # right before TensorFlow opens this process's port
    try:
        with _bounded(f"joining {cluster.size} workers"):
            return tf.distribute.MultiWorkerMirroredStrategy(resolver, options)
    except (RuntimeError, tf.errors.OpError) as error:
        reason = lines_of(error)[0]
        raise TransientError(f"could not connect to the workers: {reason}; start every worker again") from None


@contextlib.contextmanager
def _bounded(action: str) -> Iterator[None]:
    """End this process by SIGALRM if the block is too long: TensorFlow holds Python's lock, so no handler would run."""
    log.info("%s; this process ends if that takes more than %d s", action, _PATIENCE_SECONDS)
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_PATIENCE_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
